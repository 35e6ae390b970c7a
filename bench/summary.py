"""What remains of a proof: the tables of results/summary.md; all its rows in results/raw/summary.json, outside git."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from bench.blocks import Block
from bench.claims import Claim
from greenlane_tools.lab.run.rows import ALL, Row, find
from greenlane_tools.lab.run.tables import interval


def write(
    folder: Path,
    environment: Mapping[str, object],
    blocks: Sequence[tuple[Block, Sequence[Row]]],
    claims: Sequence[Claim],
) -> None:
    """Writes both files."""
    (folder / "raw").mkdir(parents=True, exist_ok=True)
    document = {
        "schema": "greenlane.prove/1",
        "environment": environment,
        "rows": [{"block": block.name, "mix": block.mix, **asdict(row)} for block, rows in blocks for row in rows],
        "claims": [{**asdict(claim), "verdict": claim.word} for claim in claims],
    }
    text = json.dumps(document, indent=1, ensure_ascii=False) + "\n"
    (folder / "raw" / "summary.json").write_text(text, encoding="utf-8")
    (folder / "summary.md").write_text(markdown(environment, blocks, claims), encoding="utf-8")


def markdown(
    environment: Mapping[str, object], blocks: Sequence[tuple[Block, Sequence[Row]]], claims: Sequence[Claim]
) -> str:
    """The tables, for the README and for reading."""
    versions = environment.get("versions")
    shown = ", ".join(f"{name} {version}" for name, version in versions.items()) if isinstance(versions, dict) else ""
    lines = [
        "# What was measured",
        "",
        f"`make prove` on {environment.get('cores')} cores ({environment.get('processor')}), Linux "
        f"{environment.get('kernel')}, CPython {environment.get('python')}; {shown}. One worker each, open-loop "
        "Poisson load timed from the scheduled send, contenders interleaved, the same seeds.",
        "",
        "| claim | measured [95 % interval] | target | verdict |",
        "|---|---|---|---|",
    ]
    for claim in claims:
        note = f" ({claim.remark})" if claim.remark else ""
        lines.append(f"| {claim.block}: {claim.text}{note} | {claim.value()} | {claim.goal()} | {claim.word} |")
    for block, rows in blocks:
        lines += ["", f"## {block.title} (`--only {block.name}`)", "", *_block_lines(block, rows)]
    return "\n".join(lines) + "\n"


def _block_lines(block: Block, rows: Sequence[Row]) -> list[str]:
    heavy = block.heavy()
    lines = [
        f"| contender | bikes within 500 ms | bikes p50 / p99 ms | {heavy} p50 / p99 ms | done/s | CPU | CPU ms/job "
        "| PSS MB | errors |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for total in (row for row in rows if row.endpoint == ALL):
        bikes = find(rows, total.contender, "bikes", total.level)
        other = find(rows, total.contender, heavy, total.level)
        lines.append(
            f"| {total.contender} | {interval(bikes)} | {_pair(bikes)} | {_pair(other)} | {total.done_per_s:.1f} "
            f"| {total.cpu_utilisation_frac:.2f} | {total.cpu_ms_per_job:.2f} | {total.pss_mb:.0f} "
            f"| {total.errors + total.lost} |"
        )
    return lines


def _pair(row: Row | None) -> str:
    return "-" if row is None or row.p99_ms is None or row.p50_ms is None else f"{row.p50_ms:.0f} / {row.p99_ms:.0f}"
