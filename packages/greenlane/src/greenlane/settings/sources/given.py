"""What a source gives and what it is given."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from greenlane.setting import Setting

__all__ = ["LIST_THEM", "Declared", "Given", "Where"]

#: (name, value, origin), checked.
Given = Iterable[tuple[str, object, str]]
#: Settings, or keys of a lane, by name.
Declared = Mapping[str, Setting]
#: (table, key) -> "read FILE, line N", for messages.
Where = Callable[[str, str], str]
#: The hint where no known name is near.
LIST_THEM: Final = "`greenlane config` lists every setting"
