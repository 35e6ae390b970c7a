"""Makes the pictures of `greenlane demo offers --page` that systems/offers/README.md shows.

    python scripts/offers_pictures.py [--before-s 60] [--after-s 60] [--out FOLDER]

It starts the page, looks at it with headless Chromium while both services serve, presses a button, and looks on:

    page.png       the whole page, some time after the fix was switched
    flicker.gif    the two phones before and after, twice as fast as it happened

Wants Chromium, and a machine that does nothing else: what is late because of neighbours would be in the picture.
"""

from __future__ import annotations

import argparse
import base64
import io
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

from PIL import Image

ROOT: Final = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.servers import Browser, Page  # noqa: E402 # a script of the checkout: its tests are its neighbours

_OUT: Final = ROOT / "systems" / "offers" / "pictures"
_WIDTH, _HEIGHT = 1440, 960
_FRAME_S: Final = 0.5
_FASTER: Final = 2.0
_SCALE: Final = 0.62
_COLOURS: Final = 128
_FILMED_S: Final = 24.0
_FIX: Final = "permits"


def main() -> int:
    """The exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--before-s", type=float, default=60.0, help="how long the stock server is seen (60)")
    parser.add_argument("--after-s", type=float, default=60.0, help="how long the fix is seen (60)")
    parser.add_argument("--out", type=Path, default=_OUT, help=f"folder ({_OUT})")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    program = [str(Path(sys.executable).with_name("greenlane")), "demo", "offers", "--page"]
    env = {**os.environ, "PYTHONPATH": os.environ.get("PYTHONPATH", "")}
    with subprocess.Popen(program, stdout=subprocess.PIPE, env=env, text=True) as demo:
        try:
            assert demo.stdout is not None
            url = demo.stdout.readline().strip()
            if not url:
                # It has said why.
                return demo.wait() or 1
            with Browser() as browser, browser.open(url, width=_WIDTH, height=_HEIGHT) as page:
                _looked_at(page, given.before_s, given.after_s, given.out)
        finally:
            demo.terminate()
    return 0


def _looked_at(page: Page, before_s: float, after_s: float, out: Path) -> None:
    print("the stock server", file=sys.stderr)
    # Soft shadows want more colours than an animation has.
    page.evaluate("document.head.append(Object.assign(element('style'), {textContent: '.device {box-shadow: none}'}))")
    time.sleep(max(0.0, before_s - _FILMED_S))
    frames = _film(page, _FILMED_S)
    page.click(f"#fixes [data-name={_FIX}]")
    print(f"{_FIX} on the left", file=sys.stderr)
    page.until(f"facts.sides.changing[region].fix === '{_FIX}'", seconds=60)
    frames += _film(page, _FILMED_S)
    time.sleep(max(0.0, after_s - _FILMED_S))
    assert page.errors == [], page.errors
    (out / "page.png").write_bytes(_small(page.picture()))
    _written(frames, out / "flicker.gif")
    for name in ("page.png", "flicker.gif"):
        print(f"{out / name}: {(out / name).stat().st_size / 1024:.0f} kB", file=sys.stderr)


def _film(page: Page, seconds: float) -> list[Image.Image]:
    box = page.evaluate(
        "(() => { const r = document.querySelector('.pair').getBoundingClientRect();"
        " return {x: r.x - 8, y: r.y - 8, width: r.width + 16, height: r.height + 16}; })()"
    )
    frames = []
    next_s = time.monotonic()
    for _ in range(round(seconds / _FRAME_S)):
        shot = page.command("Page.captureScreenshot", format="png", clip={**box, "scale": _SCALE})
        frames.append(Image.open(io.BytesIO(base64.b64decode(shot["data"]))).convert("RGB"))
        next_s += _FRAME_S
        time.sleep(max(0.0, next_s - time.monotonic()))
    return frames


def _written(frames: list[Image.Image], path: Path) -> None:
    """Frames share the colours of all of them, so that nothing but what changes is stored."""
    both = Image.new("RGB", (frames[0].width, 2 * frames[0].height))
    both.paste(frames[0], (0, 0))
    both.paste(frames[-1], (0, frames[0].height))
    colours = both.quantize(_COLOURS, method=Image.Quantize.MEDIANCUT)
    drawn = [frame.quantize(palette=colours, dither=Image.Dither.NONE) for frame in frames]
    duration_ms = 1e3 * _FRAME_S / _FASTER
    drawn[0].save(path, save_all=True, append_images=drawn[1:], duration=duration_ms, loop=0, optimize=True)


def _small(png: bytes) -> bytes:
    out = io.BytesIO()
    Image.open(io.BytesIO(png)).convert("RGB").save(out, "PNG", optimize=True)
    return out.getvalue()


if __name__ == "__main__":
    sys.exit(main())
