"""What a release needs beside its files: the version, in every place from one; addresses; notes.

    python scripts/release.py version            the version: Cargo.toml's, workspace.package.version
    python scripts/release.py version 0.2.0      the same everywhere: manifests, pins, lock file, pages, changelog
    python scripts/release.py check v0.2.0       is this tag that version, and has the changelog its section
    python scripts/release.py notes              the changelog's section of this version
    python scripts/release.py stamp https://HOST/OWNER/NAME    in a release's checkout: project.urls and whole links

`stamp` is for the checkout that the files are built from, and nobody commits it: which forge this is, only the forge
knows. `--root FOLDER`: another checkout. Exit 0: done. Exit 2: it is not so, and what.
"""

from __future__ import annotations

import argparse
import datetime
import functools
import os
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

_VERSION: Final = re.compile(r"\d+\.\d+\.\d+(?:(?:a|b|rc)\d+)?")
_LINK: Final = re.compile(r"\]\((?!https?://|#)([^)\s#]+)(#[^)\s]*)?\)")
_UNRELEASED: Final = "## [Unreleased]\n"


class WrongError(Exception):
    """It is not so; the message says what."""


def main() -> int:
    """Run it; see the module."""
    parser = argparse.ArgumentParser(prog="release", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("do", choices=["version", "check", "notes", "stamp"])
    parser.add_argument("what", nargs="?", default="")
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parent.parent)
    options = parser.parse_args()
    root: Path = options.root
    try:
        if options.do == "version" and options.what:
            set_version(root, options.what)
        elif options.do == "version":
            print(version(root))
        elif options.do == "check":
            check(root, options.what)
        elif options.do == "notes":
            print(notes(root, version(root)))
        else:
            stamp(root, options.what)
    except WrongError as error:
        print(f"release: {error}", file=sys.stderr)
        return 2
    return 0


def version(root: Path) -> str:
    """Give the version of this checkout."""
    found = tomllib.loads((root / "Cargo.toml").read_text("utf-8"))["workspace"]["package"]["version"]
    return str(found)


def set_version(root: Path, wanted: str) -> None:
    """Set it in every place; what the changelog has gathered becomes its section."""
    if not _VERSION.fullmatch(wanted):
        raise WrongError(f"{wanted!r} is no version such as 0.2.0")
    old = re.escape(version(root))
    _change(root / "Cargo.toml", rf'^version = "{old}"$', f'version = "{wanted}"')
    _change(root / "Cargo.lock", rf'(?<=^name = "greenlane-)([\w-]+"\nversion = "){old}(?=")', rf"\g<1>{wanted}")
    for manifest in _manifests(root):
        _change(manifest, rf'^version = "{old}"', f'version = "{wanted}"', always=False)
        _change(manifest, rf'(?<="greenlane)([\w\[\]-]*==){old}(?=")', rf"\g<1>{wanted}", always=False)
    for page in (root / "README.md", *sorted((root / "docs").glob("*.md"))):
        _change(page, rf"(?<=\]==){old}(?=')", wanted, always=False)
    today = datetime.datetime.now(datetime.UTC).date()
    _change(root / "CHANGELOG.md", re.escape(_UNRELEASED), f"{_UNRELEASED}\n## [{wanted}] - {today}\n")


def check(root: Path, tag: str) -> None:
    """Raise unless `tag` is this version and the changelog tells of it."""
    if tag != f"v{version(root)}":
        raise WrongError(f"the tag is {tag!r}, expected 'v{version(root)}' of Cargo.toml")
    notes(root, version(root))


def notes(root: Path, of: str) -> str:
    """Give the changelog's section of a version."""
    text = (root / "CHANGELOG.md").read_text("utf-8")
    found = re.search(rf"^## \[{re.escape(of)}\].*?\n(.*?)(?=^## \[|\Z)", text, re.DOTALL | re.MULTILINE)
    if found is None:
        raise WrongError(f"CHANGELOG.md has no section [{of}]: python scripts/release.py version {of}")
    return found[1].strip()


def stamp(root: Path, address: str) -> None:
    """Write the forge's address into the manifests, and into the links of what an index shows."""
    if not re.fullmatch(r"https://[\w.-]+/[\w./-]+", address):
        raise WrongError(f"{address!r} is no address such as https://HOST/OWNER/NAME")
    at = f"{address}/blob/v{version(root)}"
    for manifest in _manifests(root):
        folder = manifest.parent
        if "[project.urls]" in manifest.read_text("utf-8"):
            raise WrongError(f"{manifest} is stamped already")
        urls = {
            "Source": f"{address}/tree/v{version(root)}/{folder.relative_to(root)}",
            "Documentation": f"{address}/tree/v{version(root)}/docs",
            "Changelog": f"{at}/CHANGELOG.md",
            "Issues": f"{address}/issues",
        }
        lines = "".join(f'{name} = "{url}"\n' for name, url in urls.items())
        _change(manifest, r"^\[project\.(optional|entry|scripts)", f"[project.urls]\n{lines}\n\\g<0>", count=1)
        readme = folder / "README.md"
        whole = functools.partial(_whole, readme, root, at)
        readme.write_text(_LINK.sub(whole, readme.read_text("utf-8")), "utf-8")


def _whole(readme: Path, root: Path, at: str, link: re.Match[str]) -> str:
    target = os.path.normpath(readme.parent / link[1])
    if not os.path.exists(target):
        raise WrongError(f"{readme} links to {link[1]}, which is not there")
    return f"]({at}/{os.path.relpath(target, root)}{link[2] or ''})"


def _manifests(root: Path) -> Iterator[Path]:
    yield from sorted((root / "packages").glob("*/pyproject.toml"))


def _change(path: Path, pattern: str, to: str, *, always: bool = True, count: int = 0) -> None:
    text, changed = re.subn(pattern, to, path.read_text("utf-8"), count=count, flags=re.MULTILINE)
    if always and not changed:
        raise WrongError(f"{path} has nothing like {pattern}")
    path.write_text(text, "utf-8")


if __name__ == "__main__":
    sys.exit(main())
