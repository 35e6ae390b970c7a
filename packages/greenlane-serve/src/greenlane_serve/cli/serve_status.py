"""`greenlane serve --status`: what a service that runs has set, and why."""

from __future__ import annotations

import argparse
import time
from typing import Any, Final

from greenlane.cli.output import Output
from greenlane.cli.settings_flags import settings_of
from greenlane.control import ask
from greenlane.errors import ControlError
from greenlane_serve.cli.services import Services
from greenlane_serve.whereabouts import control_of, folder_of

__all__ = ["run"]

_ATTEMPT: Final = "look at the service"
# It looks at itself once a second, from when it serves on.
_FIRST_S: Final = 5.0
_PAUSE_S: Final = 0.1


def run(arguments: argparse.Namespace, output: Output) -> int:
    """Show it.

    Args:
        arguments: `json`, and the settings' flags: `bind` says which service.
        output: for rows.

    Raises:
        ControlError: none runs there, or it does not answer.
    """
    settings = settings_of(arguments)
    address = next(iter((*settings.bind, *settings.tls_bind)))
    answer = _answer(address)
    if arguments.json:
        output.document("serve", [{"pid": answer["pid"], **answer["serve"]}])
        return 0
    for number, (rows, columns) in enumerate(Services().take([answer], time.monotonic())):
        if number:
            output.line()
        output.table(rows, columns)
    return 0


def _answer(address: str) -> dict[str, Any]:
    control = control_of(folder_of(address, _ATTEMPT))
    until_s = time.monotonic() + _FIRST_S
    while True:
        if control.exists():
            answer = ask(control, {"do": "show"})
            if answer.get("serve"):
                return answer
        if time.monotonic() > until_s:
            rule, hint = "one that has looked at itself", "see in its log why it does not"
            raise ControlError(_ATTEMPT, name="bind", value=address, rule=rule, hint=hint)
        time.sleep(_PAUSE_S)
