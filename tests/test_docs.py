"""What the documents show runs: Python blocks of README and docs/, examples in docstrings, links between files.

A block with `>>>` is a session whose output is compared; any other is a program that must end by itself without a
warning. Each runs in an interpreter of its own, since the examples patch the process that they run in.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.where import ROOT, SOURCES

PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
WITH_EXAMPLES = [
    ".".join(path.relative_to(source).with_suffix("").parts).removesuffix(".__init__")
    for source in SOURCES
    for path in sorted(source.rglob("*.py"))
    if re.search(r"^\s*>>> ", path.read_text("utf-8"), re.MULTILINE)
]

BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)#\s]+)(#[^)]*)?\)")
TARGET = re.compile(r"`make ([a-z-]+)`")

RUN_SESSION = """
import doctest, sys
runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
test = doctest.DocTestParser().get_doctest(sys.argv[1], {"__name__": "example"}, sys.argv[2], None, 0)
sys.exit(runner.run(test).failed)
"""
RUN_DOCSTRINGS = """
import doctest, importlib, sys
sys.exit(doctest.testmod(importlib.import_module(sys.argv[1]), optionflags=doctest.ELLIPSIS).failed)
"""


def _blocks() -> list[object]:
    return [
        pytest.param(block, id=f"{page.relative_to(ROOT)}-{number}")
        for page in PAGES
        for number, block in enumerate(BLOCK.findall(page.read_text("utf-8")), 1)
    ]


@pytest.mark.slow
@pytest.mark.parametrize("block", _blocks())
@pytest.mark.gate
def test_an_example_of_the_documents_runs(block: str, run_python) -> None:
    if ">>> " in block:
        run_python(RUN_SESSION, block, "example")
    else:
        run_python(block)


@pytest.mark.slow
@pytest.mark.parametrize("module", WITH_EXAMPLES)
@pytest.mark.gate
def test_the_examples_in_docstrings_hold(module: str, run_python) -> None:
    run_python(RUN_DOCSTRINGS, module)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_and_make_targets_exist(page: Path) -> None:
    text = page.read_text("utf-8")
    links = {match[0] for match in LINK.findall(text) if "://" not in match[0]}
    assert not [link for link in sorted(links) if not (page.parent / link).exists()]
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    assert not set(TARGET.findall(text)) - targets


def test_each_page_stands_in_the_navigation_of_the_site() -> None:
    pages = {str(page.relative_to(ROOT / "docs")) for page in ROOT.glob("docs/**/*.md")}
    shown = re.findall(r"([\w/-]+\.md)$", (ROOT / "mkdocs.yml").read_text("utf-8"), re.MULTILINE)
    assert sorted(shown) == sorted({*pages, "index.md"})  # which is README
