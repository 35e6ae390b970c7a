"""A machine that lacks something is told what, and the one command that installs it; the exit code is 2."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.where import ROOT

# What the scripts themselves run; a machine without these has no shell to speak of.
TOOLS = ("bash", "cut", "dirname", "env", "find", "grep", "head", "id", "sed", "sort", "tac", "tail")

SERVERS = ("postgres", "redis-server", "rabbitmq-server", "haproxy", "nginx", "chromium", "h2load", "openssl")

pytestmark = pytest.mark.slow


@pytest.fixture
def bare(tmp_path: Path) -> Path:
    """A folder of programs as on a machine where nothing is installed yet."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for tool in TOOLS:
        (programs / tool).symlink_to(shutil.which(tool) or f"/usr/bin/{tool}")
    return programs


def _run(programs: Path, script: str, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [ROOT / "scripts" / script, *arguments],
        env={"PATH": str(programs), "HOME": str(programs), **env},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


def _program(programs: Path, name: str, source: str) -> None:
    path = programs / name
    path.write_text(f"#!{shutil.which('bash')}\n{source}\n")
    path.chmod(0o755)


def test_a_missing_rust_and_compiler_are_both_named_with_a_command(bare: Path) -> None:
    done = _run(bare, "toolchain", "build")
    assert done.returncode == 2
    assert "missing: cargo" in done.stderr
    assert "missing: cc" in done.stderr
    assert done.stderr.count("install it with: ") >= 2


def test_a_rust_of_rustup_that_is_not_on_the_path_is_activated(bare: Path) -> None:
    (bare / ".cargo" / "bin").mkdir(parents=True)
    _program(bare / ".cargo" / "bin", "cargo", "echo 'cargo 1.99.0'")
    assert 'install it with: . "$HOME/.cargo/env"\n' in _run(bare, "toolchain", "build").stderr


def test_where_no_package_has_a_rust_rustup_is_installed_and_activated(bare: Path) -> None:
    said = _run(bare, "toolchain", "build", OS_RELEASE="/dev/null").stderr  # no Debian
    assert 'https://sh.rustup.rs | sh -s -- -y && . "$HOME/.cargo/env"\n' in said


def test_a_rust_that_is_too_old_is_named_with_both_versions(bare: Path) -> None:
    _program(bare, "cargo", "echo 'cargo 1.63.0 (Debian)'")
    _program(bare, "cc", "exit 0")
    done = _run(bare, "toolchain", "build")
    assert done.returncode == 2
    assert "or newer; found 1.63.0" in done.stderr
    assert "missing: cc" not in done.stderr


def test_a_chosen_python_that_cannot_be_used_is_named(bare: Path) -> None:
    done = _run(bare, "toolchain", "python", PYTHON="/no/such/python")
    assert done.returncode == 2
    assert done.stdout == ""
    assert "PYTHON=/no/such/python, expected CPython 3.11 or newer" in done.stderr


def test_a_missing_lint_tool_is_named(bare: Path) -> None:
    done = _run(bare, "toolchain", "lint")
    assert done.returncode == 2
    assert "missing: cargo fmt" in done.stderr
    assert "missing: cargo clippy" in done.stderr


def test_a_go_that_is_missing_or_too_old_is_named(bare: Path) -> None:
    done = _run(bare, "toolchain", "go")
    assert done.returncode == 2
    assert "missing: go 1." in done.stderr
    _program(bare, "go", "echo 'go version go1.19.8 linux/amd64'")
    done = _run(bare, "toolchain", "go")
    assert done.returncode == 2
    assert "or newer; found 1.19.8" in done.stderr


def test_missing_servers_without_a_package_tool_are_named_with_the_command(bare: Path) -> None:
    done = _run(bare, "servers")
    assert done.returncode == 2
    assert "redis-server" in done.stderr
    assert "apt-get install -y" in done.stderr


def test_servers_that_are_there_are_not_installed_again(bare: Path) -> None:
    for server in SERVERS:
        _program(bare, server, "exit 0")
    _program(bare, "apt-get", "exit 1")
    done = _run(bare, "servers")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.skipif(os.geteuid() != 0, reason="apt-get is called without sudo only by root")
def test_missing_servers_are_installed_with_apt_get_even_when_its_lists_cannot_be_renewed(bare: Path) -> None:
    for server in SERVERS:
        if server != "redis-server":
            _program(bare, server, "exit 0")
    policy = bare / "policy-rc.d"
    _program(bare, "apt-get", f"[ $1 = install ] && [ -x {policy} ] && ln -s /bin/true {bare}/redis-server")
    for tool in ("chmod", "ln", "rm", "tee"):
        (bare / tool).symlink_to(shutil.which(tool) or f"/bin/{tool}")
    done = _run(bare, "servers", POLICY_RC_D=str(policy))
    assert done.returncode == 0, done.stderr
    assert (bare / "redis-server").exists()
    assert not policy.exists(), "what keeps Debian from starting services is there only meanwhile"


def test_make_help_lists_every_target_that_the_house_promises() -> None:
    done = subprocess.run(
        ["make", "--no-print-directory", "help"], cwd=ROOT, capture_output=True, text=True, timeout=30, check=True
    )
    targets = {line.split()[1] for line in done.stdout.splitlines()}
    assert {
        "build",
        "demo",
        "test",
        "test-all",
        "test-system",
        "nightly",
        "ecosystem",
        "soak",
        "prove",
        "lint",
        "types",
        "docs",
        "bench",
    } <= targets
