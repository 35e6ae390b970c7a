"""The house stays as designed: layers, no circles, contents pages without logic, one place that prints, public names.

`python -m tests.test_architecture` rewrites tests/public_api.txt after a deliberate change of the public API.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.where import ROOT
from tests.where import SOURCES as SOURCE_FOLDERS

SYSTEMS = ROOT / "systems"
SNAPSHOT = Path(__file__).with_name("public_api.txt")

# A module imports only its own row and what stands above. The names of one row may use each other, without a circle.
LAYERS: tuple[tuple[str, ...], ...] = (
    ("_native",),  # the seam to greenlane-core
    (
        "job",
        "phase",
        "deadline",
        "clock",
        "setting",
        "settings",
        "errors",
        "metrics",
        "shape",
        "diverted",
        "enqueued",
        "fork_warning",
        "real",
    ),  # shared nouns
    ("record",),
    ("probes",),
    ("policy",),
    ("lanes",),
    ("export",),
    ("control",),
    (
        "bootstrap",
        "bootstrap_control",
        "bootstrap_executors",
        "bootstrap_kept",
        "bootstrap_placement",
        "bootstrap_recording",
    ),
    ("hosts",),
    ("cli",),
)

# What the order alone would allow. Probes publish events, record and lanes subscribe, and only bootstrap knows both.
STRANGERS: Mapping[str, frozenset[str]] = {
    "probes": frozenset({"record"}),
    "policy": frozenset({"record", "probes"}),
    "lanes": frozenset({"record", "probes"}),
    "export": frozenset({"probes"}),
    "control": frozenset({"record", "probes", "policy", "lanes"}),
}

# What a system may import beside the names of `greenlane` itself: errors, hosts, tasks; where it measures itself for
# the command line, also what measures and shows. Never what these are made of: lanes, policy, probes, record.
OPEN_TO_SYSTEMS = ("greenlane.errors", "greenlane.hosts", "greenlane_work.tasks")
OPEN_TO_MEASURING = (
    *OPEN_TO_SYSTEMS,
    "greenlane.control",
    "greenlane.cli.main",
    "greenlane_tools.page",
    "greenlane_tools.lab",
)
# Packages of systems that measure: `feed.ladder` is `greenlane demo feed`, `pos.demo` is `greenlane demo pos`.
MEASURING = ("advice", "conservation", "demo", "ladder", "reasoning", "slow_offer")
# Modules that start what a system consists of, as the lab starts its own, or say what it is asked; none of its services
# loads them.
STARTING = tuple(f"offers/offers/{name}.py" for name in ("children", "load", "mix", "site", "twin")) + (
    "pos/pos/broker.py",
    "pos/pos/children.py",
    "pos/pos/site.py",
)

# The only distributions that a middleware may bring into somebody's service.
GUESTS = frozenset({"greenlane", "wrapt"})


def _parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


def _module_name(path: Path, source: Path) -> str:
    parts = path.relative_to(source).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


FOUND: dict[str, Path] = {
    _module_name(path, source): path for source in SOURCE_FOLDERS for path in sorted(source.rglob("*.py"))
}
# Of the guest; the other distributions are held by the direction of their dependencies alone.
SOURCES: dict[str, Path] = {module: path for module, path in FOUND.items() if module.split(".")[0] == "greenlane"}
TREES: dict[str, ast.Module] = {module: _parse(path) for module, path in SOURCES.items()}
SEAM = "greenlane._native"
PACKAGES = sorted(module for module, path in SOURCES.items() if path.name == "__init__.py")


def _layer(module: str) -> str:
    """The name of the layer: first part after `greenlane`; empty for the front door itself."""
    return module.partition(".")[2].partition(".")[0]


def _row(module: str) -> int:
    return next(number for number, names in enumerate(LAYERS) if _layer(module) in names)


def _absolute(node: ast.ImportFrom, importer: str) -> str:
    """The dotted name that `from X import ...` starts at, with leading dots resolved."""
    if not node.level:
        return node.module or ""
    package = importer if importer in PACKAGES else importer.rpartition(".")[0]
    base = package.split(".")[: len(package.split(".")) - node.level + 1]
    return ".".join(base + ([node.module] if node.module else []))


def _is_module(name: str) -> bool:
    return name in SOURCES or name == SEAM or name.startswith(SEAM + ".")


def _named(node: ast.stmt, importer: str) -> Iterator[str]:
    """Our modules that one import statement names; a submodule rather than the package that it is taken from."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        base = _absolute(node, importer)
        for alias in node.names:
            yield f"{base}.{alias.name}" if _is_module(f"{base}.{alias.name}") else base


def _imports(module: str) -> set[str]:
    """Our modules imported by `module`, wherever the statement stands (also in functions and for types only)."""
    statements = (node for node in ast.walk(TREES[module]) if isinstance(node, ast.Import | ast.ImportFrom))
    found = {name for node in statements for name in _named(node, module)}
    return {name for name in found if name.split(".")[0] == "greenlane"} - {module}


def test_every_module_belongs_to_a_layer() -> None:
    known = {name for row in LAYERS for name in row}
    strangers = sorted(module for module in SOURCES if module != "greenlane" and _layer(module) not in known)
    assert not strangers, f"not in LAYERS: {strangers}"


@pytest.mark.parametrize("module", [module for module in SOURCES if module != "greenlane"])
def test_a_module_imports_only_what_stands_above_it(module: str) -> None:
    wrong = sorted(name for name in _imports(module) if name != "greenlane" and _row(name) > _row(module))
    assert not wrong, f"{module} imports from below its layer: {wrong}"
    strange = sorted(name for name in _imports(module) if _layer(name) in STRANGERS.get(_layer(module), ()))
    assert not strange, f"{module} must not know: {strange}"


@pytest.mark.parametrize("module", [module for module in SOURCES if module != "greenlane"])
def test_inside_the_package_nobody_uses_the_front_door(module: str) -> None:
    assert "greenlane" not in _imports(module), f"{module}: import from the module that defines the name"


def _open_to(path: Path) -> tuple[str, ...]:
    return OPEN_TO_MEASURING if set(MEASURING) & set(path.parts) or path.as_posix() in STARTING else OPEN_TO_SYSTEMS


def _used(tree: ast.Module, front: frozenset[str]) -> Iterator[tuple[str, bool]]:
    """Names of ours that a system's module uses, and whether they are public."""
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                ours = [alias.name for alias in names if alias.name.startswith("greenlane")]
                yield from ((name, name == "greenlane") for name in ours)
            case ast.ImportFrom(module=str(base), level=0, names=names) if base.startswith("greenlane"):
                for alias in names:
                    yield f"{base}.{alias.name}", base == "greenlane" and alias.name in front
            case ast.Attribute(value=ast.Name(id="greenlane"), attr=name):
                yield f"greenlane.{name}", name in front or name == "__file__"


def _beyond(path: Path, tree: ast.Module) -> list[str]:
    """What a system's module uses though it is not open to it."""
    front = frozenset(name.removeprefix("greenlane.") for name in _public("greenlane"))
    allowed = _open_to(path)
    return sorted({name for name, public in _used(tree, front) if not public and not name.startswith(allowed)})


SYSTEM_SOURCES = sorted(path for path in SYSTEMS.glob("*/*/**/*.py") if path.relative_to(SYSTEMS).parts[1] != "tests")


@pytest.mark.parametrize("path", SYSTEM_SOURCES, ids=lambda path: str(path.relative_to(SYSTEMS)))
def test_a_system_uses_what_every_service_may_use(path: Path) -> None:
    beyond = _beyond(path.relative_to(SYSTEMS), _parse(path))
    assert not beyond, f"{path}: not public: {beyond}"


def test_a_use_of_what_is_not_public_would_be_found() -> None:
    wrong = ast.parse("import greenlane.real\nfrom greenlane.lanes import Permits\nfrom greenlane_tools import lab")
    assert _beyond(Path("x/x/serve.py"), wrong) == ["greenlane_tools.lab", "greenlane.lanes.Permits", "greenlane.real"]
    assert _beyond(Path("x/x/ladder/run.py"), wrong) == ["greenlane.lanes.Permits", "greenlane.real"]
    assert _beyond(Path("x/x/serve.py"), ast.parse("import greenlane\ngreenlane.settings")) == ["greenlane.settings"]
    assert not _beyond(Path("x/x/serve.py"), ast.parse("from greenlane import placed, Overloaded"))


def test_there_is_no_import_circle() -> None:
    edges = {module: _imports(module) & SOURCES.keys() for module in SOURCES}
    assert not _circle(edges), " -> ".join(_circle(edges))


def _circle(edges: Mapping[str, set[str]]) -> list[str]:
    """One circle of the graph, or nothing: walks down from each node that is not known to be clean."""
    clean: set[str] = set()

    def walk(node: str, path: list[str]) -> list[str]:
        if node in path:
            return [*path[path.index(node) :], node]
        if node in clean:
            return []
        for follower in sorted(edges[node]):
            if found := walk(follower, [*path, node]):
                return found
        clean.add(node)
        return []

    return next((found for module in sorted(edges) if (found := walk(module, []))), [])


def test_a_circle_would_be_found() -> None:
    assert _circle({"a": {"b"}, "b": {"c"}, "c": {"b"}}) == ["b", "c", "b"]
    assert _circle({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == []


@pytest.mark.parametrize("module", PACKAGES)
def test_an_init_file_is_a_table_of_contents(module: str) -> None:
    logic = [ast.unparse(node)[:80] for node in TREES[module].body if not _is_contents(node)]
    assert not logic, f"{module}/__init__.py holds more than a docstring, imports and __all__: {logic}"


def _is_contents(node: ast.stmt) -> bool:
    match node:
        case ast.Import() | ast.ImportFrom():
            return True
        case ast.Expr(value=ast.Constant(value=str())):
            return True
        case (
            ast.Assign(targets=[ast.Name(id="__all__" | "__version__")]) | ast.AnnAssign(target=ast.Name(id="__all__"))
        ):
            return True
    return False


@pytest.mark.parametrize("module", [module for module in SOURCES if _layer(module) != "cli"])
def test_only_the_command_line_prints(module: str) -> None:
    lines = [node.lineno for node in ast.walk(TREES[module]) if isinstance(node, ast.Call) and _writes_out(node.func)]
    assert not lines, f"{SOURCES[module]} prints in lines {lines}"


def _writes_out(function: ast.expr) -> bool:
    match function:
        case ast.Name(id="print"):
            return True
        case ast.Attribute(value=ast.Attribute(value=ast.Name(id="sys"), attr="stdout" | "stderr"), attr="write"):
            return True
    return False


LOADED = """
import sys, importlib
importlib.import_module(sys.argv[1])
print(*sorted(sys.modules))
"""


@pytest.mark.slow
@pytest.mark.parametrize("module", ["greenlane", *(name for name in SOURCES if _layer(name) in ("bootstrap", "hosts"))])
def test_a_worker_process_never_loads_the_offline_part(module: str, run_python) -> None:
    loaded = run_python(LOADED, module).stdout.split()
    assert module in loaded
    offline = [name for name in loaded if name.startswith(("greenlane_", "greenlane.cli"))]
    assert not offline, f"import {module} loads {offline}"


@pytest.mark.slow
@pytest.mark.parametrize("module", ["greenlane", "greenlane.hosts.wsgi"])
def test_the_middleware_brings_nothing_else_into_a_service(module: str, run_python) -> None:
    before = set(run_python("import sys; print(*sys.modules)").stdout.split())
    loaded = set(run_python(LOADED, module).stdout.split()) - before
    foreign = sorted({name.split(".")[0] for name in loaded} - GUESTS - sys.stdlib_module_names)
    assert not foreign, f"import {module} loads {foreign}"


def _public(module: str) -> list[str]:
    """What the module's `__all__` names, read from its source: no import of what it needs."""
    for node in _parse(FOUND[module]).body:
        match node:
            case ast.Assign(targets=[ast.Name(id="__all__")], value=names):
                return [f"{module}.{name}" for name in ast.literal_eval(names)]
    return []


def _public_api() -> list[str]:
    return sorted(name for module, path in FOUND.items() if path.name == "__init__.py" for name in _public(module))


def test_the_public_api_is_the_recorded_one() -> None:
    recorded = SNAPSHOT.read_text(encoding="utf-8").split()
    lost, new = sorted(set(recorded) - set(_public_api())), sorted(set(_public_api()) - set(recorded))
    assert not lost and not new, f"lost {lost}, new {new}; if meant so: python -m tests.test_architecture"


def test_every_public_name_exists(run_python) -> None:
    for module in PACKAGES:
        assert len(set(_public(module))) == len(_public(module)), f"{module}.__all__ names something twice"
    run_python("import greenlane; [getattr(greenlane, name) for name in greenlane.__all__]")


if __name__ == "__main__":
    SNAPSHOT.write_text("".join(f"{name}\n" for name in _public_api()), encoding="utf-8")
