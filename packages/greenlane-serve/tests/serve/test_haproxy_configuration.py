"""The text that HAProxy gets: as written down here, and as HAProxy reads it.

To renew golden.cfg after a deliberate change: `python -m tests.serve.test_haproxy_configuration`.
"""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from greenlane.settings import Lane
from greenlane_serve.haproxy.configuration import configuration
from greenlane_serve.haproxy.routing import FILE
from greenlane_serve.haproxy.site import FrontServer, Site, word
from greenlane_serve.lanes import layout_of
from greenlane_serve.settings import ServeSettings
from greenlane_serve.trust import Trust
from tests.servers.server import find

GOLDEN = Path(__file__).with_name("golden.cfg")
LANES = (
    Lane("phones", match=("GET /bikes/*", "/rides/<id>"), headers={"X-Client": "it's a phone*"}, processes=1,
         priority=10, deadline_ms=250),
    Lane("hogs", match=("/hog",), at_once=2, priority=-5, deadline_ms=2000),
    Lane("reports", match=("/report*", "/a b\"'\\#$x"), kind="hard", processes=1, deadline_ms=60_000),
)  # fmt: skip


def site(folder: Path, lanes: tuple[Lane, ...] = LANES, trust: Trust | None = None) -> Site:
    layout = layout_of(ServeSettings(workers=4, lanes=lanes))
    servers = {
        group: [FrontServer(f"w{one}", folder / f"{group}-{one}", 2, one <= workers) for one in range(1, workers + 2)]
        for group, workers in layout.groups.items()
    }  # fmt: skip
    return Site(
        layout, servers, ["127.0.0.1:21987"], folder, dict.fromkeys(layout.groups, 2), health_path="/healthz",
        trust=trust or Trust(),
    )  # fmt: skip


def test_the_text_is_the_one_written_down() -> None:
    assert configuration(site(Path("/run/greenlane"))) == GOLDEN.read_text()


def test_without_lanes_there_is_one_queue_and_no_gate() -> None:
    text = configuration(site(Path("/run/greenlane"), ()))
    assert "gate" not in text
    assert text.count("\nbackend ") == 1
    assert "default_backend shared" in text


@pytest.mark.system
@pytest.mark.parametrize(("lanes", "threads"), [(LANES, 1), ((), 3)])
def test_haproxy_accepts_it(tmp_path: Path, lanes: tuple[Lane, ...], threads: int) -> None:
    text = configuration(replace(site(tmp_path, lanes), threads=threads))
    assert f"nbthread {threads} " in text
    (tmp_path / "haproxy.cfg").write_text(text)
    (tmp_path / FILE).touch()
    command = [find("haproxy", name="HAProxy"), "-c", "-f", str(tmp_path / "haproxy.cfg")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr


@pytest.mark.parametrize("text", ["a", "a b", "it's", '"$HOME"', "\\", "#", "", "ü"])
def test_a_word_means_itself(text: str) -> None:
    said = subprocess.run(["sh", "-c", f"printf %s {word(text)}"], capture_output=True, text=True, check=True).stdout
    assert said == text  # HAProxy's single quotes are the shell's


if __name__ == "__main__":
    GOLDEN.write_text(configuration(site(Path("/run/greenlane"))))
