"""`greenlane`, the entry point.

Exit codes: 0 = well, 1 = the run failed, 2 = usage, settings or set-up, 130 = Ctrl-C. A reader that closes the pipe
early (`greenlane config | head -1`) has what it wanted: 0.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command; gives the exit code. Raises SystemExit for `--help` and usage errors, as argparse does."""
    try:
        # Here, so that Ctrl-C while the commands load ends as quietly as later.
        given = sys.argv[1:] if argv is None else argv
        if given[:1] in (["work"], ["celery"]) and "--green" in given:
            _patch_first()
        from greenlane.cli import program

        return program.run(given)
    except KeyboardInterrupt:
        return 130


def _patch_first() -> None:
    """Let gevent replace what it replaces before anybody has taken it: our own commands import half the library."""
    try:
        from gevent import monkey
    except ModuleNotFoundError:
        return  # the command says what is missing
    monkey.patch_all()
