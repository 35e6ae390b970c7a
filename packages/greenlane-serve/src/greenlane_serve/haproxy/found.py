"""Where HAProxy is, which version, and the one command that installs it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from greenlane.errors import FrontError

#: Debian 12's. Older ones may do; none is tested.
OLDEST: Final = (2, 6)
_ANSWER_S: Final = 10.0
# Distributions keep it where only root's PATH looks.
_ALSO: Final = ":/usr/sbin:/usr/local/sbin:/sbin"
_COMMANDS: Final = {
    "debian": "apt-get install haproxy",
    "alpine": "apk add haproxy",
    "arch": "pacman -S haproxy",
    "suse": "zypper install haproxy",
    "fedora": "dnf install haproxy",
    "rhel": "dnf install haproxy",
}


def found(path: str | None = None, release: Path = Path("/etc/os-release")) -> str:
    """The program, of a version that will do. Cost: runs `haproxy -v` once.

    Args:
        path: where to look, as PATH; None = PATH, and where system programs are.
        release: says which distribution this is.

    Raises:
        FrontError: there is none, or it is too old.
    """
    where = os.environ.get("PATH", os.defpath) + _ALSO if path is None else path
    program = shutil.which("haproxy", path=where)
    if program is None:
        rule = f"HAProxy {shown(OLDEST)} or later"
        raise FrontError("find the front", name="haproxy", value=None, rule=rule, hint=_install(release))
    theirs = version(program)
    if theirs < OLDEST:
        rule, hint = f"HAProxy {shown(OLDEST)} or later", "install a later one, or put it first in PATH"
        raise FrontError("find the front", name=program, value=shown(theirs), rule=rule, hint=hint)
    return program


def check(program: str, configuration: Path, fds: Sequence[int] = ()) -> None:
    """Let HAProxy read a configuration as it would, with the descriptors that it names.

    Raises:
        FrontError: it refuses it, with what it says.
    """
    done = _run([program, "-c", "-f", str(configuration)], fds)
    if done.returncode:
        said = [line for line in (done.stdout + done.stderr).splitlines() if "[ALERT]" in line] or ["nothing"]
        reason = re.sub(r"^\[ALERT\]\s*(\(\d+\)\s*:)?\s*(config\s*:\s*)?", "", said[0])
        rule = f"one that HAProxy {shown(version(program))} accepts; it says: {reason}"
        hint = "change the setting that this line is made of, or install another HAProxy"
        raise FrontError("start the front", name="configuration", value=_line(configuration, reason) or program,
                         rule=rule, hint=hint)  # fmt: skip


def _line(configuration: Path, reason: str) -> str:
    """The line that it speaks of: the file goes with us. "" = it names none."""
    number = re.search(rf"{re.escape(str(configuration))}:(\d+)", reason)
    lines = configuration.read_text().splitlines()
    return lines[int(number[1]) - 1].strip() if number and int(number[1]) <= len(lines) else ""


def version(program: str) -> tuple[int, ...]:
    """Of a program that says it is HAProxy; FrontError when it does not."""
    said = _run([program, "-v"]).stdout
    numbers = re.search(r"version (\d+)\.(\d+)(?:\.(\d+))?", said)
    if numbers is None:
        hint = f"look at what `{program} -v` prints"
        raise FrontError("find the front", name=program, value=said[:80], rule="a HAProxy", hint=hint)
    return tuple(int(part) for part in numbers.groups() if part)


def _run(command: list[str], fds: Sequence[int] = ()) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=_ANSWER_S, check=False,
            stdin=subprocess.DEVNULL, pass_fds=fds,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        rule = f"a program that runs ({error})"
        raise FrontError(
            "find the front", name="haproxy", value=command[0], rule=rule, hint="install it again"
        ) from None


def _install(release: Path) -> str:
    try:
        said = release.read_text()
    except OSError:
        said = ""
    likes = re.findall(r'^(?:ID|ID_LIKE)="?([^"\n]*)', said, re.MULTILINE)
    for word in " ".join(likes).split():
        for name, command in _COMMANDS.items():
            if word.startswith(name) or (name == "debian" and word == "ubuntu"):
                return command
    return "install your system's package haproxy"


def shown(version: tuple[int, ...]) -> str:
    """As people write it: "2.6.12"."""
    return ".".join(map(str, version))
