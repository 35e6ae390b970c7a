"""The application by its name, and whether it is WSGI or ASGI."""

from __future__ import annotations

import faulthandler
import importlib
import inspect
import os
import signal
import sys
from typing import Any, Final

from greenlane.errors import SettingsError

KINDS: Final = ("wsgi", "asgi")
_ATTEMPT: Final = "load the application"


def parts(name: str) -> tuple[str, str]:
    """Module and attribute of `module:attribute`; `app` where only a module is named. SettingsError otherwise.

    `()` after the attribute, which calls it, is left out.
    """
    module, _, attribute = name.removesuffix("()").partition(":")
    attribute = attribute or "app"
    if not all(part.isidentifier() for part in (*module.split("."), *attribute.split("."))):
        raise SettingsError("application", name, "module:attribute", "write it as `app:app`", attempted=_ATTEMPT)
    return module, attribute


def load(name: str) -> Any:
    """The application object; the current directory is importable, as it is for gunicorn and uvicorn.

    Raises:
        SettingsError: the name is none; there is no such module or attribute, or it is no application.
        Exception: what the module raises when it is imported.
    """
    module, attribute = parts(name)
    faulthandler.register(signal.SIGUSR2)  # gunicorn's worker has just reset all signals; an import may hang
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        found: Any = importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise  # another module that the application needs
        hint = "start in the directory that holds it, or correct the name"
        raise SettingsError("application", name, "a module that can be imported", hint, attempted=_ATTEMPT) from None
    for part in attribute.split("."):
        if not hasattr(found, part):
            rule, hint = f"an attribute that {module} has", f"name what it has: `{module}:…`"
            raise SettingsError("application", name, rule, hint, attempted=_ATTEMPT)
        found = getattr(found, part)
    if name.endswith("()") and callable(found):
        found = found()
    if not callable(found):
        rule = f"something that can be called, not {type(found).__name__}"
        raise SettingsError("application", name, rule, "name the application object", attempted=_ATTEMPT)
    return found


def kind_of(application: Any) -> str:
    """`asgi` when it is called with (scope, receive, send) or is a coroutine function, else `wsgi`."""
    call = application if inspect.isroutine(application) else getattr(application, "__call__", application)  # noqa: B004
    if inspect.iscoroutinefunction(call):
        return "asgi"
    try:
        needed = [
            one for one in inspect.signature(call).parameters.values()
            if one.default is one.empty and one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)
        ]  # fmt: skip
    except (TypeError, ValueError):
        return "wsgi"
    return "asgi" if len(needed) == 3 else "wsgi"
