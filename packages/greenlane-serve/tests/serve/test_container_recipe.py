"""The Dockerfile and the compose file of docs/production.md, without Docker: their words, under what they ask for.

A network, a process tree and a read-only root of its own; the user, the environment and the command that they name.
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.serve.served import COMMAND, children
from tests.serve.test_serve_user import LIBRARIES, interpreter

from greenlane.settings import settings_of
from greenlane_serve.settings import ServeSettings
from tests import child
from tests.where import ROOT

PAGE = (ROOT / "docs/production.md").read_text("utf-8")
# Of compose's specification, those that are of use here: another word is a misspelling.
KEYS = {
    "build", "ports", "cpus", "read_only", "tmpfs", "cap_drop", "security_opt", "stop_grace_period", "restart",
    "healthcheck",
}  # fmt: skip
APP = """
import os
def app(environ, start_response):
    start_response("200 OK", [])
    return [f"{os.getuid()} {os.access('/', os.W_OK)}".encode()]
"""
# $1: the application, $2: the run directory's options, $3: the run directory; then the command.
INSIDE = """
set -e
mount -t tmpfs none /mnt && mkdir /mnt/app && cp "$1" /mnt/app
mount -t tmpfs none /run && mkdir -p "$3" && mount -t tmpfs -o "$2" none "$3"
for place in / /tmp /dev /dev/shm /var; do
    if mountpoint -q $place; then mount -o remount,bind,ro $place; fi
done
ip link set lo up
cd /mnt/app && shift 3 && exec "$@"
"""
ALONE = ("unshare", "--mount", "--pid", "--net", "--fork", "--kill-child", "--mount-proc", "sh", "-c", INSIDE, "sh")


def recipe() -> dict[str, list[str]]:
    """Instruction -> its arguments, of the Dockerfile that serves."""
    (text,) = (one for one in re.findall(r"```dockerfile\n(.*?)```", PAGE, re.DOTALL) if '"serve"' in one)
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        word, _, rest = line.partition(" ")
        found.setdefault(word, []).append(rest)
    return found


def composed() -> dict[str, Any]:
    """The one service of the compose file."""
    (text,) = re.findall(r"```yaml\n(services:.*?)```", PAGE, re.DOTALL)
    service: dict[str, Any] = yaml.safe_load(text)["services"]["shop"]
    return service


def environ() -> dict[str, str]:
    return dict(pair.split("=", 1) for line in recipe()["ENV"] for pair in shlex.split(line))


def seconds(text: str) -> float:
    assert text.endswith("s")
    return float(text[:-1])


def test_both_files_are_well_formed_and_agree() -> None:
    service, files = composed(), recipe()
    assert set(files) <= {"FROM", "RUN", "WORKDIR", "COPY", "USER", "ENV", "CMD"}
    assert set(service) <= KEYS
    command = json.loads(files["CMD"][0])
    port = command[command.index("--bind") + 1].rpartition(":")[2]
    assert service["ports"] == [f"{port}:{port}"]
    where, _, options = service["tmpfs"][0].partition(":")
    assert where == environ()["RUNTIME_DIRECTORY"] == environ()["TMPDIR"]
    assert f"uid={files['USER'][0]}" in options.split(",")
    declared = settings_of(ServeSettings)
    assert seconds(service["stop_grace_period"]) > declared["stop_s"].default
    assert seconds(service["healthcheck"]["start_period"]) >= declared["boot_s"].default
    assert f":{port}{environ()['GREENLANE_HEALTH_PATH']}" in service["healthcheck"]["test"][-1]
    assert f"--stop-timeout {seconds(service['stop_grace_period']):g}" in PAGE


@pytest.mark.system
@pytest.mark.slow
def test_the_command_serves_as_a_container_and_ends_in_time(tmp_path: Path) -> None:
    if subprocess.run([*ALONE[:-4], "true"], capture_output=True, check=False).returncode:
        pytest.skip("needs root, for namespaces")
    (tmp_path / "shop.py").write_text(APP)
    service, user = composed(), recipe()["USER"][0]
    where, _, options = service["tmpfs"][0].partition(":")
    python = interpreter()
    become = [
        "setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", "--no-new-privs", "--bounding-set=-all",
        "--inh-caps=-all", "env", "-i", "PATH=/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin",
        f"PYTHONPATH={':'.join(LIBRARIES)}", *(f"{name}={value}" for name, value in environ().items()),
    ]  # fmt: skip
    command = json.loads(recipe()["CMD"][0])
    assert command[0] == "greenlane"
    process = child.Child([*ALONE, str(tmp_path / "shop.py"), options, where, *become, python, "-c", COMMAND,
                           *command[1:]], cwd=tmp_path, env={})  # fmt: skip
    try:
        process.wait_output("serving shop:app .* on ", timeout_s=60)
        (first,) = children(process.pid)
        inside = ["nsenter", "-t", str(first), "-m", "-p", "-n", "--", *become, python]
        check = service["healthcheck"]["test"]
        assert check[:2] == ["CMD", "python"]
        assert subprocess.run([*inside, *check[2:]], check=False, timeout=30).returncode == 0
        ask = check[3].replace(environ()["GREENLANE_HEALTH_PATH"], "/x").replace("urlopen(", "print(urlopen(")
        said = subprocess.run(
            [*inside, "-c", f"{ask}.read().decode())"], stdout=subprocess.PIPE, check=True, timeout=30
        )
        assert said.stdout.decode().split() == [user, "False"]
        subprocess.run(["kill", f"-{signal.SIGTERM:d}", str(first)], check=True)
        assert process.wait_exit(timeout_s=seconds(service["stop_grace_period"])) == 0
        assert "Read-only" not in process.output
    finally:
        process.end(grace_s=10)


def test_systemd_reads_the_units_without_a_complaint(tmp_path: Path) -> None:
    verify = shutil.which("systemd-analyze")
    if verify is None:
        pytest.skip("needs systemd-analyze")
    pages = PAGE + (ROOT / "docs/serve.md").read_text("utf-8")
    units = [one for one in re.findall(r"```ini\n(.*?)```", pages, re.DOTALL) if "[Service]" in one]
    (opened,) = (one for one in re.findall(r"```ini\n(.*?)```", pages, re.DOTALL) if "[Socket]" in one)
    assert len(units) == 2
    for number, unit in enumerate(units):
        service = tmp_path / f"shop{number}.service"
        service.write_text(re.sub(r"^ExecStart=\S+", "ExecStart=/bin/true", unit, flags=re.MULTILINE))
        (tmp_path / f"shop{number}.socket").write_text(opened)
        done = subprocess.run([verify, "verify", "--man=no", service, service.with_suffix(".socket")],
                              capture_output=True, text=True, check=False)  # fmt: skip
        assert (done.returncode, [line for line in done.stderr.splitlines() if "shop" in line]) == (0, [])
