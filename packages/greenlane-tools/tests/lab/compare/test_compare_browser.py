"""The comparison's page in a real browser: it fits, complains of nothing, asks for nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.lab.compare.results import Made, write

from greenlane_tools.lab.compare.page import page
from greenlane_tools.lab.compare.sources import subjects
from greenlane_tools.lab.compare.study import study_of
from tests.servers import Browser

pytestmark = pytest.mark.system


@pytest.mark.parametrize(("width", "dark"), [(380, False), (1280, True)])
def test_the_page_fits_the_window_and_complains_of_nothing(
    browser: Browser, tmp_path: Path, width: int, dark: bool
) -> None:
    folder = write(tmp_path / "r", {"a": Made(), "greenlane": Made(median_ms=35)}, levels=(0.5, 0.9))
    path = tmp_path / "page.html"
    path.write_text(page(study_of(subjects([f"{folder}:a", f"{folder}:greenlane"])), {}), encoding="utf-8")
    with browser.open(path, width=width, dark=dark) as shown:
        assert shown.errors == [] and shown.requests == [path.resolve().as_uri()]
        assert shown.overflow_px() == 0
        assert shown.count("#distributions svg") == 4
        first = shown.text("#distributions .panel.shown")
        shown.click("#distributions .tabs label:nth-child(2)")
        assert shown.text("#distributions .panel.shown") != first
