"""The native code's graph: which crate may depend on which, which know Python, and no circle of modules inside one.

Modules are files. A file uses another one where a `use` or a path names it, or something in it; a re-export is followed
to the file that has the name. Tests of a file count for nothing. What methods call each other is not seen.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.where import ROOT

CRATES = ROOT / "crates"

# Which of our crates each one may depend on. Decisions know nothing; what observes and what controls do not know each
# other; nothing that a service loads knows what reads, simulates or generates load.
GRAPH: Mapping[str, frozenset[str]] = {
    "policy": frozenset(),
    "process": frozenset(),
    "recording-format": frozenset(),
    "load": frozenset(),
    "interpreter": frozenset({"process"}),
    "methods": frozenset({"process"}),
    "permits": frozenset({"interpreter", "policy", "process"}),
    "recorder": frozenset({"interpreter", "methods", "process", "recording-format"}),
    "guest": frozenset({"interpreter", "methods", "permits", "policy", "process", "recorder"}),
    "recording-read": frozenset({"recording-format"}),
    "simulate": frozenset({"policy"}),
    "tools": frozenset({"load", "policy", "process", "recording-format", "recording-read", "simulate"}),
    "testing": frozenset({"policy", "process", "recording-format"}),
}
# The seams, and the three crates that run inside of the interpreter and what they share.
KNOW_PYTHON = frozenset({"guest", "interpreter", "methods", "permits", "recorder", "testing", "tools"})

_COMMENT = re.compile(r"//[^\n]*")
_TESTS = re.compile(r"#\[cfg\(test\)\]\s*mod \w+ \{.*?\n\}", re.DOTALL)
_USE = re.compile(r"\b(pub )?use ([^;]+);")
_PATH = re.compile(r"(?<![\w:])\w+(?:::\w+)+")


def dependencies(manifest: Path) -> frozenset[str]:
    """The names in every table of dependencies of a manifest."""
    tables = tomllib.loads(manifest.read_text(encoding="utf-8"))
    kinds = ("dependencies", "dev-dependencies", "build-dependencies")
    return frozenset(name for kind in kinds for name in tables.get(kind, {}))


def expanded(path: str) -> Iterator[str]:
    """`a::{b, c::{d, e}}` as its single paths; a rename is left out."""
    path = re.sub(r"\s+", " ", path).strip()
    before, brace, rest = path.partition("{")
    if not brace:
        yield path.partition(" as ")[0].replace(" ", "")
        return
    depth, part = 0, ""
    for letter in rest.rpartition("}")[0] + ",":
        depth += (letter == "{") - (letter == "}")
        if letter == "," and not depth:
            if part.strip():
                yield from (before.replace(" ", "") + each for each in expanded(part))
            part = ""
        else:
            part += letter


class Modules:
    """The modules of one crate: `a::b` is the file `a/b.rs` or `a/b/mod.rs`, the empty name `lib.rs`."""

    def __init__(self, source: Path) -> None:
        self.texts: dict[str, str] = {}
        for path in sorted(source.rglob("*.rs")):
            if path.name == "tests.rs" or path.stem in _only_tests(path):
                continue
            parts = path.relative_to(source).with_suffix("").parts
            if parts[-1] in ("lib", "mod"):
                parts = parts[:-1]
            self.texts["::".join(parts)] = _TESTS.sub("", _COMMENT.sub("", path.read_text(encoding="utf-8")))
        self.exports = {name: dict(self._exports(name)) for name in self.texts}

    def uses(self) -> dict[str, set[str]]:
        """Of each module, the other ones that it names."""
        return {name: {used for used in self._used(name) if used != name} for name in self.texts}

    def _exports(self, module: str) -> Iterator[tuple[str, str]]:
        for public, path in _USE.findall(self.texts[module]):
            if public:
                for each in expanded(path):
                    yield each.rpartition("::")[2], self._absolute(module, each)

    def _used(self, module: str) -> Iterator[str]:
        text = self.texts[module]
        paths = {each for _, path in _USE.findall(text) for each in expanded(path)}
        for path in paths | set(_PATH.findall(_USE.sub("", text))):
            absolute = self._absolute(module, path)
            if absolute or path.startswith("crate"):
                yield self._home(absolute)

    def _absolute(self, module: str, path: str) -> str:
        """`path` from the crate's root; empty for the root itself and for what another crate has."""
        parts, here = path.split("::"), module.split("::") if module else []
        if parts[0] == "crate":
            return "::".join(parts[1:])
        if parts[0] in ("super", "self"):
            while parts and parts[0] in ("super", "self"):
                here = here[:-1] if parts.pop(0) == "super" else here
            return "::".join([*here, *parts])
        child = "::".join([*here, parts[0]])
        return "::".join([*here, *parts]) if child in self.texts else ""

    def _home(self, path: str) -> str:
        """The module that has what `path` names."""
        parts = path.split("::")
        for length in range(len(parts), -1, -1):
            module, names = "::".join(parts[:length]), parts[length:]
            if module in self.texts:
                passed_on = self.exports[module].get(names[0]) if names else None
                return self._home("::".join([passed_on, *names[1:]])) if passed_on else module
        return ""


def _only_tests(path: Path) -> frozenset[str]:
    """Files beside `path` that are compiled for tests only."""
    said = "".join(
        (path.parent / name).read_text(encoding="utf-8")
        for name in ("lib.rs", "mod.rs")
        if (path.parent / name).exists()
    )
    return frozenset(re.findall(r"#\[cfg\(test\)\]\s*mod (\w+);", said))


def circle(uses: Mapping[str, set[str]]) -> list[str]:
    """A circle of names, or none: []."""
    done: set[str] = set()

    def walk(name: str, way: list[str]) -> list[str]:
        if name in way:
            return [*way[way.index(name) :], name]
        if name not in done:
            for used in sorted(uses.get(name, ())):
                if found := walk(used, [*way, name]):
                    return found
            done.add(name)
        return []

    for name in sorted(uses):
        if found := walk(name, []):
            return found
    return []


def test_every_crate_is_in_the_graph() -> None:
    assert {path.parent.name for path in CRATES.glob("*/Cargo.toml")} == set(GRAPH)
    assert not circle({name: set(used) for name, used in GRAPH.items()})


@pytest.mark.parametrize("crate", sorted(GRAPH))
def test_a_crate_depends_on_what_it_may(crate: str) -> None:
    found = dependencies(CRATES / crate / "Cargo.toml")
    ours = frozenset(name.removeprefix("greenlane-") for name in found if name.startswith("greenlane-"))
    assert ours <= GRAPH[crate], f"{crate} depends on {sorted(ours - GRAPH[crate])}"
    assert ("pyo3" in found) == (crate in KNOW_PYTHON)


@pytest.mark.parametrize("crate", sorted(GRAPH))
def test_modules_of_a_crate_form_no_circle(crate: str) -> None:
    assert circle(Modules(CRATES / crate / "src").uses()) == []


def test_nothing_offline_is_in_the_guest() -> None:
    loaded, left = set(), ["guest"]
    while left:
        crate = left.pop()
        loaded.add(crate)
        left.extend(GRAPH[crate])
    assert not loaded & {"recording-read", "simulate", "load", "tools", "testing"}


def _written(folder: Path, **files: str) -> Modules:
    for name, text in files.items():
        path = folder / f"{name.replace('__', '/')}.rs"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return Modules(folder)


def test_a_circle_of_two_files_is_found(tmp_path: Path) -> None:
    made = _written(tmp_path, lib="mod a;\nmod b;", a="use crate::b::Thing;", b="fn f() { crate::a::g() }")
    assert circle(made.uses()) == ["a", "b", "a"]


def test_a_circle_through_a_re_export_is_found(tmp_path: Path) -> None:
    made = _written(
        tmp_path,
        lib="mod a;\nmod b;",
        a__mod="mod deep;\npub use deep::{Other, Thing};",
        a__deep="use crate::b;\npub struct Thing;\npub struct Other;",
        b="use crate::{a::Thing, a::{self, Other as Same}};",
    )
    assert made.uses()["b"] == {"a", "a::deep"}
    assert circle(made.uses()) == ["a::deep", "b", "a::deep"] or circle(made.uses())[0] == circle(made.uses())[-1]


def test_a_child_that_uses_its_parents_logic_is_a_circle(tmp_path: Path) -> None:
    made = _written(tmp_path, lib="mod a;", a__mod="mod deep;\nuse deep::f;", a__deep="fn f() { super::g() }")
    assert circle(made.uses()) == ["a", "a::deep", "a"]


def test_what_only_tests_name_is_no_circle(tmp_path: Path) -> None:
    tests = "#[cfg(test)]\nmod tests {\n    use crate::b;\n}\n"
    made = _written(tmp_path, lib="mod a;\nmod b;", a=tests, b="use super::a; // and crate::b::no")
    assert made.uses() == {"": set(), "a": set(), "b": {"a"}}
    assert circle(made.uses()) == []
