"""Every setting, declared once, and where its value comes from.

A setting is a field of `Settings` or, for the other distributions, of a subclass: its default, unit, range, meaning,
reason for that default, environment name and flag all come from that one declaration, and so do the documentation, the
flags of the command line and the error messages. Values come from `greenlane.toml`, then `GREENLANE_*`, then flags; a
later one wins.

Why a closed set: a misspelt key that is silently ignored looks like a setting that does not work, in production.
Unknown keys anywhere are a SettingsError with the nearest known one. Exceptions: names of a distribution that this
process has not loaded, and the variables that Kubernetes makes up for a service that happens to be called `greenlane`
(`GREENLANE_PORT_80_TCP`).

- `settings`, `lane` — what the settings are, and the checks of what they say together
- `sources` — how they are read: file, environment, flags
- `setting`, `patterns` — one setting: how a value is declared and checked
- `refusal` — names that are not known: the nearest one, those of other distributions; loaded only then
- `shown` — as the documentation and `greenlane config` show them, all installed distributions'

Nothing here raises anything but SettingsError, and nothing reads a file or the environment at import.
"""

from greenlane.settings.lane import APART, LANE_KEYS, Lane
from greenlane.settings.setting import Setting
from greenlane.settings.settings import SETTINGS, Settings, settings_of
from greenlane.settings.sources import load

__all__ = ["APART", "LANE_KEYS", "SETTINGS", "Lane", "Setting", "Settings", "load", "settings_of"]
