"""Every setting, declared once, and where its value comes from.

A setting is a field of `Settings`: its default, unit, range, meaning, reason for that default, environment name and
flag all come from that one declaration, and so do the documentation (`describe`), the flags of the command line and the
error messages. Values come from `greenlane.toml`, then `GREENLANE_*`, then flags; a later one wins.

Why a closed set: a misspelt key that is silently ignored looks like a setting that does not work, in production.
Unknown keys anywhere are a SettingsError with the nearest known one. The only exception are the variables that
Kubernetes makes up for a service that happens to be called `greenlane` (`GREENLANE_PORT_80_TCP`).

- `declared` — what the settings are, one subject a file: to add a setting, add its field there
- `settings`, `lane` — all of them together, and the checks of what they say together
- `sources`, `loading` — how they are read: file, environment, flags
- `greenlane.setting` — one setting: how a value is checked, and refused with the rule and the nearest word
- `rows` — as the documentation and `greenlane config` show them

Nothing here raises anything but SettingsError, and nothing reads a file or the environment at import.
"""

from greenlane.setting import Setting
from greenlane.settings.declared.patterns import TASK_KEY
from greenlane.settings.lane import APART, LANE_KEYS, Lane
from greenlane.settings.loading import load
from greenlane.settings.rows import DEFAULT
from greenlane.settings.settings import SETTINGS, Settings, describe

__all__ = ["APART", "DEFAULT", "LANE_KEYS", "SETTINGS", "TASK_KEY", "Lane", "Setting", "Settings", "describe", "load"]
