"""The contrast: load in a closed loop, as most tools send it, by h2load (Debian's nghttp2-client).

A closed-loop client sends its next request when the last one was answered. While the server stalls it asks nothing, so
a second's standstill is one slow request per connection among thousands of fast ones, and no percentile shows it
("coordinated omission", G. Tene). Real users keep coming.

Why h2load: it is maintained, speaks HTTP/1.1, and writes down each request as it was. Why not wrk, the best known: its
4.x adds samples after the run for those that it did not send (`stats_correct`), so its percentiles are not what it
measured, and do show a stall; ab and hey print a few percentiles and keep nothing.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Final

import numpy as np

from greenlane.errors import HostError
from greenlane_tools.lab.processes import die_with_parent
from greenlane_tools.lab.samples import FAILED, Samples

PROGRAM: Final = "h2load"
_ATTEMPTED: Final = "send load in a closed loop"
# It stops by itself after `seconds`; a server that hangs may keep it.
_PATIENCE_S: Final = 30.0


def is_installed() -> bool:
    """The tool is on PATH."""
    return shutil.which(PROGRAM) is not None


def closed_loop(name: str, address: str, path: str = "/", *, connections: int = 10, seconds: float) -> Samples:
    """Loads `http://address/path` with GETs over kept connections, each sending as soon as it is answered; blocks.

    The samples have no other clock than the tool's: scheduled is sent, the first byte is unknown (0). A request that
    was under way at the end is not among them.

    Args:
        name: of the one stream that the samples have.
        address: "host:port".
        path: with its query.
        connections: each always with one request under way.
        seconds: how long.

    Raises:
        HostError: the tool is not installed, or failed; or it got no answer at all.
    """
    if not is_installed():
        hint = "install it: apt-get install nghttp2-client"
        raise HostError(_ATTEMPTED, name="program", value=PROGRAM, rule="a program on PATH", hint=hint)
    with tempfile.TemporaryDirectory(prefix="greenlane-") as folder:
        log = Path(folder, "requests.tsv")
        # Duration in ms: h2load takes whole numbers only.
        options = ["--h1", "-t", "1", "-c", str(connections), "-D", f"{round(seconds * 1e3)}ms", f"--log-file={log}"]
        _run([PROGRAM, *options, f"http://{address}{path}"], seconds + _PATIENCE_S)
        text = log.read_text() if log.exists() else ""
    if not text:
        rule, hint = "a server that answers", "start it, or correct the address"
        raise HostError(_ATTEMPTED, name="address", value=address, rule=rule, hint=hint)
    return read_log(name, text)


def read_log(name: str, text: str) -> Samples:
    """Samples of h2load's log: start in us since 1970, HTTP status or -1, us until the end of the answer."""
    table = np.fromstring(text, np.int64, sep=" ").reshape(-1, 3)
    table = table[np.argsort(table[:, 0], kind="stable")]
    began_ns = (table[:, 0] - table[0, 0]) * 1_000
    status = np.where(table[:, 1] < 0, FAILED, table[:, 1]).astype(np.int16)
    size = len(table)
    unknown = np.zeros(size, np.int64)
    return Samples(
        (name,), np.zeros(size, np.uint16), began_ns, began_ns, unknown, began_ns + table[:, 2] * 1_000,
        status, np.zeros(size, np.int32), np.zeros(size),
    )  # fmt: skip


def _run(command: list[str], seconds: float) -> None:
    """Runs the tool; it ends with us, and with Ctrl-C."""
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=seconds, check=False,
            preexec_fn=die_with_parent, process_group=0,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise HostError(_ATTEMPTED, name="seconds", value=seconds, rule="a tool that ends by itself") from None
    if done.returncode:
        last = (done.stderr or done.stdout).strip().rpartition("\n")[2]
        raise HostError(_ATTEMPTED, name=f"{PROGRAM}'s exit code", value=done.returncode, rule=f"0 ({last})")
