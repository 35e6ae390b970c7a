"""`python -m pos.conservation`: every contender under every fault, and the table.

main(argv, out, err) -> exit code    0 greenlane's books are even; 1 they are not, or the run failed;
                                     2 a wrong option, 130 Ctrl-C
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, TextIO

from greenlane_tools.lab import demo
from greenlane_tools.lab.environment import about

from .brokers import SharedRabbitMQ
from .cell import Cell, Outcome
from .contenders import CONTENDERS
from .faults import FAULTS
from .options import ATTEMPTED, Options, parse
from .page import page, rows, sentence, table

SCHEMA: Final = "greenlane.pos-conservation/1"
_PACKAGES: Final = ("greenlane", "celery", "kombu", "amqp", "gevent", "requests")


def main(argv: Sequence[str], out: TextIO, err: TextIO) -> int:
    """Runs it. Blocks until all is done or Ctrl-C; no process of it is left afterwards."""
    return demo.run(argv, out, err, ATTEMPTED, parse, _run)


def _run(options: Options, out: TextIO, err: TextIO) -> int:
    outcomes = _measured(options, err)
    if options.page:
        options.page.write_text(page(told(outcomes)), encoding="utf-8")
    if options.json:
        out.write(json.dumps(told(outcomes), indent=1) + "\n")
    else:
        out.write(table(outcomes) + "\n")
    ours = [one for one in outcomes if CONTENDERS[one.contender].ours and not FAULTS[one.fault].beyond]
    return 0 if all(one.verdict in ("even", "limit") for one in ours) else 1


def told(outcomes: Sequence[Outcome]) -> dict[str, object]:
    """The object of `--json`."""
    return {"schema": SCHEMA, "environment": about(_PACKAGES), "rows": rows(outcomes)}


def _measured(options: Options, err: TextIO) -> list[Outcome]:
    outcomes, cells = [], options.cells
    with _folder(options.out) as folder, SharedRabbitMQ(folder / "broker") as broker:
        for number, (fault, contender) in enumerate(cells, 1):
            err.write(f"{number}/{len(cells)} {fault.name}, {contender.name}: {fault.what}\n")
            err.flush()
            name = f"{contender.name}.{fault.name}"
            outcomes.append(Cell(folder / name, broker, contender, fault, options.plan).run())
            err.write(f"    {sentence(outcomes[-1])}\n")
            err.flush()
    return outcomes


@contextmanager
def _folder(wanted: Path | None) -> Iterator[Path]:
    """Where logs go; a temporary folder is removed."""
    if wanted is not None:
        yield wanted.resolve()
        return
    folder = Path(tempfile.mkdtemp(prefix="pos-conservation-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
