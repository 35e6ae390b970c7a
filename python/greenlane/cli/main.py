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
        from greenlane.cli import program

        return program.run(sys.argv[1:] if argv is None else argv)
    except KeyboardInterrupt:
        return 130
