"""Makes the pictures of README and docs from a real run of the tutorial's service.

    python scripts/pictures.py [--out FOLDER]

    report.png      the head of the report's page: the first sentence, and where each route's time went
    timeline.png    the timeline below it, at the slowest request

Wants Chromium, and a machine that does nothing else: what is late because of neighbours would be in the picture.
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import http.client
import io
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from PIL import Image

ROOT: Final = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.child import Child, free_port  # noqa: E402 # a script of the checkout: its tests are its neighbours
from tests.servers import Browser, Page  # noqa: E402

_GREENLANE: Final = str(Path(sys.executable).with_name("greenlane"))
_WIDTH: Final = 1120
_COLOURS: Final = 128


def main() -> int:
    """The exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "pictures", help="folder (docs/pictures)")
    out: Path = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        recording = Path(folder, "shop.glr")
        _record(recording)
        subprocess.run([_GREENLANE, "report", str(recording)], check=True, stdout=subprocess.DEVNULL)
        with (
            Browser() as browser,
            browser.open(recording.with_suffix(".html").as_uri(), width=_WIDTH, height=900) as page,
        ):
            _take(page, "header", "#latency .panel.shown", out / "report.png")
            _take(page, "#timeline", "#timeline", out / "timeline.png")
            assert page.errors == [], page.errors
    return 0


def _record(recording: Path) -> None:
    """The tutorial's load on the tutorial's service, under stock threads."""
    port = free_port()
    served = [*(sys.executable, "-m", "gunicorn", "--bind", f"127.0.0.1:{port}", "-k", "gthread", "--threads", "8")]
    command = [_GREENLANE, "record", "-o", str(recording), "--", *served, "--no-control-socket", "flask_app:app"]
    with Child(command, cwd=ROOT / "examples", env=dict(os.environ)) as service:
        service.wait_port(port)
        _ask(port, ["/"])  # the worker has imported the application
        clients = [threading.Thread(target=_ask, args=(port, ["/heavy"] * 8)) for _ in range(4)]
        clients.append(threading.Thread(target=_ask, args=(port, ["/quick"] * 40)))
        for client in clients:
            client.start()
        for client in clients:
            client.join()
        service.signal(signal.SIGINT)
        service.wait_exit()


def _ask(port: int, paths: Sequence[str]) -> None:
    for path in paths:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        with contextlib.closing(connection):
            connection.request("GET", path)
            connection.getresponse().read()


def _take(page: Page, first: str, last: str, path: Path) -> None:
    """What lies from the top of `first` to the end of `last`."""
    clip = page.evaluate(
        f"(() => {{ const top = document.querySelector('{first}').getBoundingClientRect();"
        f" const end = document.querySelector('{last}').getBoundingClientRect();"
        " return {x: top.x - 16, y: top.y - 8 + scrollY, width: top.width + 32, height: end.bottom - top.y + 24}; })()"
    )
    shot = page.command("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip={**clip, "scale": 1})
    picture = Image.open(io.BytesIO(base64.b64decode(shot["data"]))).convert("RGB")
    picture.quantize(_COLOURS, dither=Image.Dither.NONE).save(path, "PNG", optimize=True)
    print(f"{path}: {picture.width} x {picture.height}, {path.stat().st_size / 1024:.0f} kB", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
