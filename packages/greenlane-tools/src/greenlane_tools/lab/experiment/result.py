"""What came out of an experiment: the text, one JSON object, every sample as Parquet, and the page."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from greenlane.cli.output import Output
from greenlane.errors import GreenlaneError
from greenlane_tools.lab.verdict import Verdict
from greenlane_tools.page import blocks
from greenlane_tools.page.document import document
from greenlane_tools.page.html import Html, element, joined
from greenlane_tools.page.quantities import amount

#: Others that use more cores than this spoil the figures.
NOISE_CORES: Final = 0.1


@dataclass(frozen=True)
class Table:
    """Rows under a heading, rounded for people; the same on the terminal and on the page."""

    heading: str
    rows: Sequence[Mapping[str, object]]
    about: str = ""
    # Sentences below it.
    notes: Sequence[str] = ()
    # Columns that name the row, to the left.
    names: int = 1

    @property
    def columns(self) -> list[str]:
        """Names of the columns, of the first row."""
        return list(self.rows[0])

    def html(self) -> Html:
        """As a page shows it, without its heading."""
        lines = [
            blocks.Row([_cell(value) for value in row.values()], "ours" if row.get("contender") == "greenlane" else "")
            for row in self.rows
        ]
        return joined(
            [blocks.table(self.columns, lines, self.heading, names=self.names), *map(blocks.note, self.notes)]
        )

    def _repr_markdown_(self) -> str:
        """As notebooks show it."""
        lines = [
            self.columns,
            ["---"] * len(self.columns),
            *([str(row[name]) for name in self.columns] for row in self.rows),
        ]
        return f"{self.heading}\n\n" + "\n".join("| " + " | ".join(line) + " |" for line in lines)


@dataclass(frozen=True)
class Result:
    """Everything about a run."""

    # "lab.placement"; the schema of `--json`.
    command: str
    title: str
    rows: Sequence[Mapping[str, Any]]
    tables: Sequence[Table]
    # The machine, the packages, and the amounts of work.
    environment: Mapping[str, object]
    # The page's first sentence; "" = how many claims hold.
    lead: str = ""
    claims: Sequence[Verdict] = ()
    # What makes the figures less than they look, with a remedy.
    warnings: Sequence[str] = ()
    # Lines below the tables on the terminal.
    text: Sequence[str] = ()
    # Sections of the page before its tables.
    figures: Sequence[Html] = ()
    # "NAME: what it is".
    contenders: Sequence[str] = ()
    # How it was measured, and what it does not show.
    method: str = ""
    # Gives the columns of `samples.parquet`; None = there are none.
    samples: Callable[[], Mapping[str, Sequence[object]]] | None = None
    # Further fields of `--json`.
    more: Mapping[str, object] = field(default_factory=dict)
    exit_code: int = 0

    def show(self, folder: Path | None, attempted: str, output: Output, *, as_json: bool) -> int:
        """Prints it, and writes it into the folder; gives the exit code.

        Raises:
            GreenlaneError: the folder cannot be written; everything was printed before.
        """
        text = json.dumps(
            {"schema": f"greenlane.{self.command}/1", "environment": self.environment, "rows": self.rows, **self.more},
            indent=1, default=str,
        )  # fmt: skip
        try:
            if folder is not None:
                self._write(folder, text)
        except OSError as error:
            rule = f"a folder that can be written ({error.strerror})"
            raise GreenlaneError(attempted, name="--out", value=str(folder), rule=rule, hint="name another") from None
        finally:  # a full disk does not cost what was measured
            if as_json:
                output.line(text)
            else:
                self._print(output)
            for warning in self.warnings:
                output.say(f"warning: {warning}")
        if folder is not None:
            output.say(f"page: {folder / 'page.html'}")
        return self.exit_code

    def _write(self, folder: Path, text: str) -> None:
        if self.samples is not None:
            import pyarrow
            import pyarrow.parquet

            table = pyarrow.table(dict(self.samples()))
            pyarrow.parquet.write_table(table, folder / "samples.parquet", compression="zstd")
        (folder / "rows.json").write_text(f"{text}\n", encoding="utf-8")
        (folder / "page.html").write_text(self.page(), encoding="utf-8")

    def _print(self, output: Output) -> None:
        for table in self._shown():
            output.line(output.styled(table.heading, "bold"))
            if table.about:
                output.line(table.about)
            output.table(table.rows, table.columns)
            for note in table.notes:
                output.line(note)
            output.line()
        for line in self.text:
            output.line(line)
        for claim in self.claims:
            output.line(output.styled(claim.said(), "green" if claim.holds else "red"))

    def _shown(self) -> list[Table]:
        return [table for table in self.tables if table.rows]

    def page(self) -> Html:
        """One HTML file."""
        lead = self.lead or f"{sum(one.holds for one in self.claims)} of {len(self.claims)} claims hold."
        header = [element("h1", self.title), blocks.paragraph(lead, "lead")]
        header += [blocks.paragraph(f"{said[0].upper()}{said[1:]}.", "warning") for said in self.warnings]
        sections = [
            *([_claims(self.claims)] if self.claims else []),
            *self.figures,
            *(blocks.section(table.heading, table.html(), about=table.about) for table in self._shown()),
            blocks.section(
                "How it was measured",
                element("ul", *(element("li", said) for said in self.contenders), class_="findings"),
                blocks.note(self.method),
                blocks.note(", ".join(f"{name} {value}" for name, value in self.environment.items())),
            ),
        ]
        return document(self.title, header, [section for section in sections if section])


def disturbed(others_cores: float) -> list[str]:
    """A warning of a machine that was busy with something else."""
    if others_cores <= NOISE_CORES:
        return []
    said = f"other processes used up to {others_cores:.1f} cores meanwhile"
    return [f"{said}: stop them and run again, the figures are too slow"]


def _claims(claims: Sequence[Verdict]) -> Html:
    lines = [
        blocks.Row(
            [
                one.text, f"{amount(one.measured)}{one.unit}",
                "-" if one.low != one.low else f"{amount(one.low)} to {amount(one.high)}",
                f"{'≤' if one.relation == '<=' else '≥'} {one.target:g}{one.unit}", one.word,
            ],
            "" if one.holds else "late",
        )
        for one in claims
    ]  # fmt: skip
    return blocks.section(
        "What is claimed", blocks.table(["claim", "measured", "95 %", "target", "verdict"], lines, "claims", names=1)
    )


def _cell(value: object) -> str:
    return "-" if value is None else f"{value:.10g}" if isinstance(value, float) else str(value)
