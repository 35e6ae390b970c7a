"""Settings from variables `GREENLANE_*`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from greenlane.errors import SettingsError
from greenlane.setting import PREFIX, checked, nearest, parsed
from greenlane.settings.sources.file import FILE_VARIABLE
from greenlane.settings.sources.given import LIST_THEM, Declared, Given

__all__ = ["from_environment"]

# Kubernetes makes these up for every service of a namespace; ours may well be called "greenlane".
_KUBERNETES: Final = re.compile(
    r"GREENLANE_(SERVICE_(HOST|PORT(_\w+)?)|PORT(_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?)"
)


def from_environment(environ: Mapping[str, str], settings: Declared) -> Given:
    """Variables `GREENLANE_*`, all of which must be ours."""
    by_variable = {setting.env: setting for setting in settings.values()}
    short = [setting.env.removeprefix(PREFIX) for setting in settings.values()]
    for variable, text in environ.items():
        if not variable.startswith(PREFIX) or variable == FILE_VARIABLE or _KUBERNETES.fullmatch(variable):
            continue
        if variable not in by_variable:
            # Compared without the prefix: sixteen common characters would make any two of them alike.
            hint = nearest(variable.removeprefix(PREFIX), short).replace("'", f"'{PREFIX}", 1) or LIST_THEM
            raise SettingsError(variable, text, "a known name", hint, attempted="read the environment")
        setting = by_variable[variable]
        value = checked(setting, parsed(setting, text), attempted=f"read the environment variable {variable}")
        yield setting.name, value, f"environment {variable}"
