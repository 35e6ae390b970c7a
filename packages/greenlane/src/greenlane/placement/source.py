"""What a function's source says of where it may run, and of what will not pay: read once, before anything is tried.

It cannot see everything: what the function calls is not read, and a name may be another one's. It errs on the side of
staying in this process; `placement="process"` is not asked.
"""

from __future__ import annotations

import ast
import functools
import inspect
import textwrap
import types
from collections.abc import Callable, Iterator
from typing import Any, Final

from greenlane.placement.functions import plain

__all__ = ["remarks", "stays"]

#: Methods that change what they are called on.
_CHANGES: Final = frozenset(
    "add append clear discard extend insert pop popleft popitem remove reverse setdefault sort update".split()
)
#: Arguments that set the number of threads of libraries.
_THREADS: Final = ("thread_count", "n_jobs", "nthread", "num_threads")
_FunctionNode = ast.FunctionDef | ast.Lambda


def stays(fn: Callable[..., Any]) -> str:
    """Say why a function must not run in another process; "" = nothing is known against it."""
    fn = plain(fn)
    code = getattr(fn, "__code__", None)
    if code is None:
        return ""
    if fn.__closure__:
        return "it is a closure: it uses " + ", ".join(code.co_freevars)
    if "<" in fn.__qualname__:
        return "it is a lambda" if "<lambda>" in fn.__qualname__ else "it is defined inside another function"
    for name in _globals_of(code):
        kind = _bound_here(fn.__globals__.get(name))
        if kind:
            return f"it uses {name}, {kind}"
    node = _node(fn)
    changed = next(_changed(node), "") if node is not None else ""
    return f"it changes {changed}" if changed else ""


def remarks(fn: Callable[..., Any]) -> Iterator[tuple[str, str]]:
    """Say what in a function never pays, each with its remedy."""
    fn = plain(fn)
    node = _node(fn) if hasattr(fn, "__code__") else None
    if node is None:
        return
    for call in (each for each in ast.walk(node) if isinstance(each, ast.Call)):
        for keyword in call.keywords:
            if keyword.arg in _THREADS and _is_minus_one(keyword.value):
                yield (
                    f"it asks for all cores ({keyword.arg}=-1), which the loop and the other calls need as well",
                    f"write {keyword.arg}=1",
                )
        if _is_catboost(call, fn) and call.args and _is_list(call.args[0], node):
            yield (
                "it gives CatBoost a list, which is converted value by value with the GIL held",
                'give it numpy.asarray(rows, dtype="float32", order="F")',
            )


def _globals_of(code: types.CodeType) -> Iterator[str]:
    yield from code.co_names
    for const in code.co_consts:
        if isinstance(const, types.CodeType):
            yield from _globals_of(const)


def _bound_here(value: object) -> str:
    """Say what a global is if another process has not the same one; "" = nothing of the kind."""
    module, name = type(value).__module__, type(value).__qualname__
    if name == "ContextVar":
        return "a context variable"
    if module in ("_thread", "threading", "_threading_local") or (module == "asyncio.locks"):
        return "which belongs to this process"
    if name == "LocalProxy":
        return "which belongs to this request"
    if module in ("socket", "_io", "queue", "_queue", "asyncio.queues"):
        return "which is open in this process"
    return ""


@functools.lru_cache(maxsize=512)
def _node(fn: Any) -> _FunctionNode | None:
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(fn)))
    except (OSError, TypeError, SyntaxError, ValueError):
        return None
    found = (each for each in ast.walk(tree) if isinstance(each, ast.FunctionDef))
    return next((each for each in found if each.name == fn.__name__), None)


def _changed(node: _FunctionNode) -> Iterator[str]:
    """Name what outlives the call and is written to."""
    arguments = node.args
    given = {each.arg for each in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)}
    own = {each.id for each in ast.walk(node) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)}
    shared = {name for each in ast.walk(node) if isinstance(each, ast.Global) for name in each.names}
    yield from (f"the global {name}" for name in sorted(shared & own))
    own -= shared
    bound = {name for each in ast.walk(node) for name in _imported(each)} | own
    for each in ast.walk(node):
        name = _written(each)
        if name and name not in bound:
            yield f"its argument {name}" if name in given else f"the global {name}"


def _imported(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Import | ast.ImportFrom):
        yield from ((alias.asname or alias.name).partition(".")[0] for alias in node.names)
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        yield node.name
    if isinstance(node, ast.ExceptHandler) and node.name:
        yield node.name


def _written(node: ast.AST) -> str:
    """Name what an item or attribute of is written; "" = nothing."""
    if isinstance(node, ast.Subscript | ast.Attribute) and isinstance(node.ctx, ast.Store | ast.Del):
        return _base(node.value)
    if (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Call)
        and isinstance(node.value.func, ast.Attribute)
        and node.value.func.attr in _CHANGES
    ):
        return _base(node.value.func.value)
    return ""


def _base(node: ast.expr) -> str:
    while isinstance(node, ast.Subscript | ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def _is_minus_one(node: ast.expr) -> bool:
    try:
        return bool(ast.literal_eval(node) == -1)
    except ValueError:
        return False


def _is_catboost(call: ast.Call, fn: Any) -> bool:
    """Whether it is a predict of a model that the module knows, or makes a Pool."""
    if isinstance(call.func, ast.Attribute):
        if not call.func.attr.startswith("predict") and call.func.attr != "Pool":
            return False
        name = _base(call.func)
    elif isinstance(call.func, ast.Name):
        name = call.func.id
    else:
        return False
    value = fn.__globals__.get(name)
    return any("catboost" in str(getattr(each, "__module__", "") or "") for each in (value, type(value))) or (
        isinstance(value, types.ModuleType) and value.__name__ == "catboost"
    )


def _is_list(node: ast.expr, within: _FunctionNode) -> bool:
    if isinstance(node, ast.List | ast.ListComp):
        return True
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Name) and node.func.id == "list"
    if not isinstance(node, ast.Name):
        return False
    given = (
        each.value
        for each in ast.walk(within)
        if isinstance(each, ast.Assign)
        and any(isinstance(target, ast.Name) and target.id == node.id for target in each.targets)
    )
    return any(_is_list(value, within) for value in given if not isinstance(value, ast.Name))
