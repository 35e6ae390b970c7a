"""Where an order's key is read: the upstream that it calls, or the business's name of the order.

    kwargs.merchant         a keyword argument; further names go into mappings: kwargs.order.merchant
    args.0                  an argument by its place; args.0.merchant
    header.x-merchant       a header of the message
    module:function         function(task_name, args, kwargs, headers) -> text

An order in which the key is not found has the key `""`: it shares one place with all the others of that kind, and is
counted. A key is a text; what is no text is written as one. A text that is long, or cannot be written down, becomes its
beginning and a hash of all of it.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from greenlane.errors import SettingsError
from greenlane.settings import TASK_KEY
from greenlane_work.store.keys import fitted_key

__all__ = ["KeyFunction", "key_function"]

KeyFunction = Callable[[str, Sequence[Any], Mapping[str, Any], Mapping[str, Any]], str]

#: Each key is kept, and shown. Arbitrary.
_MOST_CHARACTERS: Final = 200


def key_function(setting: str, spec: str) -> KeyFunction | None:
    """Give the function that a setting's text stands for; None = "".

    Args:
        setting: its name, for messages.
        spec: as above.

    Raises:
        SettingsError: it is none of these, or the function cannot be imported.
    """
    if not spec:
        return None
    if re.fullmatch(TASK_KEY[0], spec) is None:
        raise SettingsError(setting, spec, TASK_KEY[1], "kwargs.merchant reads the keyword argument `merchant`")
    if ":" in spec:
        return _imported(setting, spec)
    kind, _, rest = spec.partition(".")
    if kind == "header":
        return lambda _name, _args, _kwargs, headers: _text(headers.get(rest))
    if kind == "args":
        place, *path = rest.split(".")
        number = int(place)
        return lambda _name, args, _kwargs, _headers: _text(_into(args[number], path)) if number < len(args) else ""
    first, *path = rest.split(".")
    return lambda _name, _args, kwargs, _headers: _text(_into(kwargs.get(first), path))


def _imported(setting: str, spec: str) -> KeyFunction:
    module, _, name = spec.partition(":")
    try:
        found: Any = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError) as error:
        rule = f"a function that can be imported ({error})"
        raise SettingsError(setting, spec, rule, "put its module on PYTHONPATH, or correct the name") from None
    if not callable(found):
        raise SettingsError(setting, spec, "a function", f"{name} of {module} is a {type(found).__name__}")

    def key(task_name: str, args: Sequence[Any], kwargs: Mapping[str, Any], headers: Mapping[str, Any]) -> str:
        return _text(found(task_name, args, kwargs, headers))

    return key


def _into(value: Any, path: Sequence[str]) -> Any:
    for name in path:
        if not isinstance(value, Mapping):
            return None
        value = value.get(name)
    return value


def _text(value: object) -> str:
    return fitted_key(str(value), _MOST_CHARACTERS) if value is not None else ""
