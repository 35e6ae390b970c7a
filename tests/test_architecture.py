"""What import-linter cannot see: circles of modules, contents pages without logic, one place that prints, public names.

Which module may import which stands in pyproject.toml, [tool.importlinter]; `make lint` holds it.
`python -m tests.test_architecture` rewrites tests/public_api.txt after a deliberate change of the public API.
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path

import grimp
import pytest

from tests.where import ROOT, SOURCES

SYSTEMS = ROOT / "systems"
SNAPSHOT = Path(__file__).with_name("public_api.txt")
DISTRIBUTIONS = ("greenlane", "greenlane_work", "greenlane_serve", "greenlane_tools")

# The only distributions that a middleware may bring into somebody's service.
GUESTS = frozenset({"greenlane"})

# How processes are started and end: they import nothing of the guest, so stock programs may use them as well.
_PROCESSES = ("greenlane_tools.lab.processes", "greenlane_tools.lab.ending")
# What a system's service may import beside the names of `greenlane` itself.
OPEN_TO_SERVICES = ("greenlane.errors", "greenlane.hosts", "greenlane_work", *_PROCESSES)
# What a system may import where it starts its parts and measures itself for the command line.
OPEN_TO_MEASURING = (*OPEN_TO_SERVICES, "greenlane.control", "greenlane.cli", "greenlane_tools")
# Packages and modules of systems that measure, and those that start what a system consists of. No service loads them.
MEASURING = frozenset({"advice", "conservation", "demo", "ladder"})
STARTING = frozenset(f"offers/offers/{name}.py" for name in ("children", "load", "mix", "site", "twin")) | frozenset(
    f"pos/pos/{name}.py" for name in ("broker", "children", "site")
)


def _found(source: Path) -> Iterator[tuple[str, Path]]:
    for path in sorted(source.rglob("*.py")):
        parts = path.relative_to(source).with_suffix("").parts
        yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts), path


def _parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


MODULES: dict[str, Path] = {module: path for source in SOURCES for module, path in _found(source)}
TREES: dict[str, ast.Module] = {module: _parse(path) for module, path in MODULES.items()}


def test_the_distributions_have_one_version() -> None:
    workspace = tomllib.loads((ROOT / "Cargo.toml").read_text("utf-8"))["workspace"]["package"]["version"]
    for path in sorted((ROOT / "packages").glob("*/pyproject.toml")):
        project = tomllib.loads(path.read_text("utf-8"))["project"]
        assert project.get("version", workspace) == workspace, path
        extras = project.get("optional-dependencies", {}).values()
        wanted = [*project["dependencies"], *(each for extra in extras for each in extra)]
        ours = [each for each in wanted if each.startswith("greenlane")]
        assert all(each.endswith(f"=={workspace}") for each in ours), (path, ours)


def test_inside_nobody_uses_the_front_door() -> None:
    front = set(_public("greenlane"))
    wrong = [
        f"{module}: {alias.name}"
        for module in MODULES
        if module.startswith("greenlane.")
        for node in ast.walk(TREES[module])
        if isinstance(node, ast.ImportFrom) and node.module == "greenlane" and not node.level
        for alias in node.names
        if f"greenlane.{alias.name}" in front
    ]
    assert not wrong, f"import these from the module that defines them: {wrong}"


def test_there_is_no_import_circle() -> None:
    graph = grimp.build_graph(*DISTRIBUTIONS, include_external_packages=False)
    # The front door is passed only for the native module, which the graph does not see.
    edges = {module: graph.find_modules_directly_imported_by(module) - {"greenlane"} for module in graph.modules}
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


def test_init_files_are_tables_of_contents() -> None:
    logic = [
        f"{path.relative_to(ROOT)}: {ast.unparse(node)[:80]}"
        for module, path in MODULES.items()
        if path.name == "__init__.py" and module != "greenlane"  # the front door loads each name when it is asked for
        for node in TREES[module].body
        if not _is_contents(node)
    ]
    assert not logic, "\n".join(logic)


def _is_contents(node: ast.stmt) -> bool:
    """A docstring, an import, `__all__`, or names that are imported when they are asked for (PEP 562)."""
    match node:
        case ast.Import() | ast.ImportFrom() | ast.Expr(value=ast.Constant(value=str())):
            return True
        case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
            return name in ("__all__", "__version__", "_LAZY")
        case ast.If(test=ast.Name(id="TYPE_CHECKING"), body=body):
            return all(_is_contents(inner) for inner in body)
        case ast.FunctionDef(name=name):
            return name in ("__getattr__", "__dir__")
    return False


def test_only_the_command_line_prints() -> None:
    printing = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for module, path in MODULES.items()
        if ".cli" not in module
        for node in ast.walk(TREES[module])
        if isinstance(node, ast.Call) and _writes_out(node.func)
    ]
    assert not printing, "\n".join(printing)


def _writes_out(function: ast.expr) -> bool:
    match function:
        case ast.Name(id="print"):
            return True
        case ast.Attribute(value=ast.Attribute(value=ast.Name(id="sys"), attr="stdout" | "stderr"), attr="write"):
            return True
    return False


# --- systems use what every service may use ------------------------------------------------------------------------


def _used(tree: ast.Module, front: frozenset[str]) -> Iterator[str]:
    """Our names that a system's module uses, except those of `greenlane` itself."""
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                yield from (alias.name for alias in names if alias.name.startswith("greenlane") and "." in alias.name)
            case ast.ImportFrom(module=str(base), level=0, names=names) if base.split(".")[0] in DISTRIBUTIONS:
                yield from (f"{base}.{alias.name}" for alias in names if base != "greenlane" or alias.name not in front)
            case ast.Attribute(value=ast.Name(id="greenlane"), attr=name) if name not in front | {"__file__"}:
                yield f"greenlane.{name}"


def _beyond(path: Path, tree: ast.Module) -> list[str]:
    """What a system's module uses though it is not open to it."""
    front = frozenset(name.removeprefix("greenlane.") for name in _public("greenlane"))
    measuring = MEASURING & set(path.parts) or path.as_posix() in STARTING
    allowed = OPEN_TO_MEASURING if measuring else OPEN_TO_SERVICES
    return sorted({name for name in _used(tree, front) if not name.startswith(allowed)})


def test_systems_use_what_every_service_may_use() -> None:
    sources = [path for path in SYSTEMS.glob("*/*/**/*.py") if path.relative_to(SYSTEMS).parts[1] != "tests"]
    found = {path: _beyond(path.relative_to(SYSTEMS), _parse(path)) for path in sources}
    assert sources and not any(found.values()), {str(path): names for path, names in found.items() if names}


def test_a_use_of_what_is_not_public_would_be_found() -> None:
    wrong = ast.parse("import greenlane.phase\nfrom greenlane.lanes import Permits\nfrom greenlane_tools import lab")
    ours = ["greenlane.lanes.Permits", "greenlane.phase"]
    assert _beyond(Path("x/x/serve.py"), wrong) == [*ours, "greenlane_tools.lab"]
    assert _beyond(Path("x/x/ladder/run.py"), wrong) == ours
    assert _beyond(Path("x/x/serve.py"), ast.parse("import greenlane\ngreenlane.settings")) == ["greenlane.settings"]
    assert not _beyond(Path("x/x/serve.py"), ast.parse("from greenlane import placed, Overloaded"))


# --- what a process loads ------------------------------------------------------------------------------------------

LOADED = "import sys, importlib; importlib.import_module(sys.argv[1]); print(*sorted(sys.modules))"
HOSTS = ("asgi", "aiohttp", "gunicorn", "wsgi")


@pytest.mark.slow
@pytest.mark.parametrize("module", ["greenlane", *(f"greenlane.hosts.{name}" for name in HOSTS)])
@pytest.mark.gate
def test_a_service_loads_the_guest_alone(module: str, run_python) -> None:
    before = set(run_python("import sys; print(*sys.modules)").stdout.split())
    loaded = set(run_python(LOADED, module).stdout.split())
    assert module in loaded
    wrong = sorted(name for name in loaded if name.startswith((*DISTRIBUTIONS[1:], "greenlane.cli")))
    assert not wrong, f"import {module} loads {wrong}"
    if module in ("greenlane", "greenlane.hosts.wsgi"):
        foreign = sorted({name.split(".")[0] for name in loaded - before} - GUESTS - sys.stdlib_module_names)
        assert not foreign, f"import {module} loads {foreign}"


@pytest.mark.system
def test_the_page_says_what_each_kind_of_process_loads() -> None:
    script = ROOT / "scripts" / "architecture_page.py"
    done = subprocess.run(
        [sys.executable, str(script), "--check"], env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True,
        text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


# --- the public API ------------------------------------------------------------------------------------------------


def _public(module: str) -> list[str]:
    """What the module's `__all__` names, read from its source: no import of what it needs."""
    for node in TREES[module].body:
        match node:
            case ast.Assign(targets=[ast.Name(id="__all__")], value=names):
                return [f"{module}.{name}" for name in ast.literal_eval(names)]
    return []


def _public_api() -> list[str]:
    packages = (module for module, path in MODULES.items() if path.name == "__init__.py")
    return sorted(name for module in packages for name in _public(module))


def test_the_public_api_is_the_recorded_one() -> None:
    recorded = SNAPSHOT.read_text(encoding="utf-8").split()
    assert len(set(_public_api())) == len(_public_api()), "an __all__ names something twice"
    lost, new = sorted(set(recorded) - set(_public_api())), sorted(set(_public_api()) - set(recorded))
    assert not lost and not new, f"lost {lost}, new {new}; if meant so: python -m tests.test_architecture"


def test_every_public_name_exists(run_python) -> None:
    run_python("import greenlane; [getattr(greenlane, name) for name in greenlane.__all__]")


if __name__ == "__main__":
    SNAPSHOT.write_text("".join(f"{name}\n" for name in _public_api()), encoding="utf-8")
