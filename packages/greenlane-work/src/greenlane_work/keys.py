"""Keys: where an upstream's key or an order's name is read from a task, and which texts the store takes.

    kwargs.merchant         a keyword argument; further names go into mappings: kwargs.order.merchant
    args.0                  an argument by its place; args.0.merchant
    header.x-merchant       a header of the message
    module:function         function(task_name, args, kwargs, headers) -> text
    two of these, with a space between them: the upstream's provider, or whose order it is, and its own name

The key of two is `PROVIDER/NAME`; in a provider's name a slash is written `%2F`, and a percent sign `%25`.

An order in which the key is not found has the key `""`: it shares one place with all the others of that kind, and is
counted. A key is a text; what is no text is written as one. A text that is long, or cannot be written down, becomes its
beginning and a hash of all of it.
"""

from __future__ import annotations

import hashlib
import importlib
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from greenlane.errors import SettingsError
from greenlane_work.settings import TASK_KEY

__all__ = [
    "KEY_CHARACTERS", "KeyFunction", "checked_key", "checked_reason", "fitted_key", "key_function", "order_function",
    "provider_of", "store_key",
]  # fmt: skip

KeyFunction = Callable[[str, Sequence[Any], Mapping[str, Any], Mapping[str, Any]], str]

#: Of the key of an upstream, which is kept and shown. Arbitrary.
_MOST_CHARACTERS: Final = 200
#: A business id, not a payload. Fits every store's index.
KEY_CHARACTERS: Final = 512
_REASON_CHARACTERS: Final = 500
#: How `fitted_key` ends a key.
_HASHED: Final = re.compile(r".*~[0-9a-f]{32}", re.DOTALL)


def key_function(setting: str, spec: str) -> KeyFunction | None:
    """Give the function that a setting's text names; None = "".

    Args:
        setting: its name, for messages.
        spec: as above.

    Raises:
        SettingsError: it is none of these, or the function cannot be imported.
    """
    if not spec:
        return None
    if " " in spec:
        provider, name = (key_function(setting, part) for part in spec.split(" ", 1))
        if provider is None or name is None or spec.count(" ") > 1:
            raise SettingsError(setting, spec, f"two places ({TASK_KEY[1]})", "write one space between the two")

        def of_two(*order: Any) -> str:
            escaped = provider(*order).replace("%", "%25").replace("/", "%2F")
            return fitted_key(f"{escaped}/{name(*order)}", _MOST_CHARACTERS)

        return of_two
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


def order_function(spec: str) -> KeyFunction | None:
    """Give the function that reads an order's name (`task_order`); it gives "" for an order that has none.

    Raises:
        SettingsError: see `key_function`.
    """
    function = key_function("task_order", spec)
    name = key_function("task_order", spec.partition(" ")[2])
    if function is None or name is None:
        return function
    return lambda *order: function(*order) if name(*order) else ""


def provider_of(key: str) -> str:
    """Give the provider in a key of two parts; "" = there is none."""
    return key.partition("/")[0]


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


def checked_key(key: str) -> str:
    """Give the key back. Raises ValueError."""
    rule = f"a text of 1 to {KEY_CHARACTERS} characters without NUL and without halves of surrogate pairs"
    if not isinstance(key, str) or not 0 < len(key) <= KEY_CHARACTERS or "\0" in key or not _encodable(key):
        raise ValueError(f"name an order: key={key!r:.200}, expected {rule}")
    return key


def fitted_key(text: str, most_characters: int = KEY_CHARACTERS) -> str:
    """Give a key for any text that is not empty: itself, or as much of it as fits with a hash of all of it.

    Two texts never give one key: where it names an order, the second one would be taken for done. So a text that ends
    as if it had been hashed is hashed.
    """
    if len(text) <= most_characters and "\0" not in text and _encodable(text) and not _HASHED.fullmatch(text):
        return text
    raw = text.encode(errors="surrogatepass")
    hashed = hashlib.blake2b(raw, digest_size=16).hexdigest()
    head = raw.decode("ascii", "replace").replace("\0", "").replace("\ufffd", "?")
    return f"{head[: most_characters - len(hashed) - 1]}~{hashed}"


def store_key(task: str, order: str, nesting: int = 0) -> str:
    """Give the name of an order in the store: `TASK/ORDER`.

    The task's name belongs to it: an order may be sent to the merchant and announced to the customer. What an order is
    called may come from anybody, and is never read as a part of the task's name.

    Args:
        nesting: how often its task has replaced itself (`self.replace`), which keeps name and id.
    """
    name = task.replace("/", "%2F") + (f"#{nesting}" if nesting else "")
    return fitted_key(f"{name}/{order}")


def checked_reason(reason: str) -> str:
    """Give a reason that every store takes: shortened, and what cannot be written is escaped."""
    text = str(reason)[:_REASON_CHARACTERS].replace("\0", "\\0")
    return text if _encodable(text) else text.encode("ascii", "backslashreplace").decode()


def _encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
