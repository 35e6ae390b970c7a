"""The advice's switches do the same work: forms give equal items, links and codecs equal bytes; tables say the rows."""

from __future__ import annotations

import gc
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from feed.advice import compression, formats
from feed.advice.__main__ import SWITCHES, main
from feed.advice.collector import Pauses, collector
from feed.advice.link import Pace
from feed.advice.page import TITLES, break_even, in_short, page, tables
from feed.advice.payload import Payload
from feed.advice.row import Cost, Row, costs, rows
from feed.advice.schemas import arrow_schema, struct
from feed.advice.validation import item_readers
from feed.record import FIELDS, from_json
from feed.world.world import World


@pytest.fixture(scope="module")
def payload(world: World) -> Payload:
    return Payload(world, most=60)


def as_item(found: Any) -> dict[str, Any]:
    """An item, whichever object holds it."""
    if isinstance(found, msgspec.Struct):
        return msgspec.structs.asdict(found)
    return dict(found)


def test_every_format_gives_the_same_items(payload: Payload) -> None:
    assert any(item["topics"] is None for item in payload.items) or any(item["price"] is None for item in payload.items)
    for name, form in formats.item_formats(payload).items():
        found = [as_item(one) for one in form.objects()]
        if name == "fixed records":
            # Titles are kept as codes of their words.
            found = [one | {"title": item["title"]} for one, item in zip(found, payload.items, strict=True)]
        assert found == payload.items, name


def test_columns_of_arrow_are_those_of_the_items(payload: Payload) -> None:
    for name, column in zip(formats._COLUMNS, formats._arrow_columns(formats._arrow(payload.items)), strict=True):
        wanted = np.array([item[name] for item in payload.items], np.float64)
        np.testing.assert_array_equal(np.asarray(column, np.float64), wanted, err_msg=name)
    assert [field.name for field in arrow_schema()] == [field.name for field in FIELDS]


def test_readers_that_validate_refuse_a_wrong_type_and_the_others_do_not(payload: Payload) -> None:
    good = payload.json[0]
    bad = json.dumps(json.loads(good) | {"seller_id": "many"}).encode()
    refused = set()
    for name, read in item_readers().items():
        read(good)
        try:
            read(bad)
        except ValueError:
            refused.add(name)
    assert refused == {"pydantic", "msgspec"}
    typed = msgspec.json.Decoder(struct(as_array=False)).decode(good)
    assert msgspec.structs.asdict(typed) == from_json(good)


@pytest.mark.parametrize("mbit_per_s", [0.0, 200.0])
def test_what_goes_over_a_link_arrives_unchanged_with_every_codec(payload: Payload, mbit_per_s: float) -> None:
    body = b"".join(payload.json)
    known = compression.codecs()
    with compression.sender(body, known) as port, compression.linked(port, mbit_per_s) as near:
        for name, (encode, decode) in known.items():
            got = compression.received(near, name)
            assert decode(got) == body and len(got) == len(encode(body))
        assert compression.received(near, "nobody's") == b""
    assert len(known["zstd 1"][0](body)) < len(body) / 2


def test_a_pace_lets_bytes_pass_no_faster_than_its_speed() -> None:
    pace, now_s = Pace(1e6), 100.0
    for number in range(1, 50):
        now_s += pace.after(20_000, now_s)
        assert math.isclose(now_s, 100.0 + number * 0.02)
    # A late caller catches up, and is not held back for it.
    assert pace.after(20_000, now_s + 5) == 0.0
    assert pace.chunk == 1_500 and Pace(1e9).chunk == 65_536 and Pace(0).after(10**9, 1.0) == 0.0


def test_functions_are_called_in_turn_and_the_first_is_what_others_are_held_against() -> None:
    called: list[str] = []

    def calling(name: str) -> Callable[[], None]:
        return lambda: called.append(name)

    found = costs({"one": calling("one"), "two": calling("two")}, 3)
    assert {name: len(cost.cpu_ms) for name, cost in found.items()} == {"one": 3, "two": 3}
    made = rows("json", "a stage", found)
    assert [row.against for row in made] == ["one", "one"] and made[0].ratio == 1.0


def test_advice_follows_from_the_quartiles_of_pairs() -> None:
    slow, fast = Cost((10.0, 12.0, 11.0), (10.0, 12.0, 11.0)), Cost((1.0, 1.2, 1.1), (1.0, 1.2, 1.1))
    unsure = Cost((5.0, 20.0, 11.0), (5.0, 20.0, 11.0))
    made = {row.contender: row for row in rows("json", "it", {"slow": slow, "fast": fast, "unsure": unsure})}
    assert made["fast"].ratio == 10.0 and made["fast"].advice == "worth it: 10 times less"
    assert made["unsure"].advice == "makes no difference here"
    back = rows("json", "it", {"fast": fast, "slow": slow})[1]
    assert back.advice == "no: 10 times more"


def test_the_collector_is_as_it_was_afterwards(payload: Payload) -> None:
    callbacks, frozen = list(gc.callbacks), gc.get_freeze_count()
    found = collector(payload, 1)
    assert gc.isenabled() and gc.callbacks == callbacks and gc.get_freeze_count() == frozen
    assert "0 collections a request" in found[2].note
    pauses = Pauses(calls=2)
    pauses("start", {"generation": 2})
    pauses("stop", {"generation": 2})
    assert pauses.said().startswith("0.5 collections a request, 0.5 of everything")


@pytest.mark.slow
def test_switches_are_measured_told_and_written_as_a_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    few = ["--items", "3000", "--most", "40", "--repetitions", "1", "--folder", str(tmp_path)]
    assert main([*few, "--only", "validation,formats", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert {row["topic"] for row in document["rows"]} == {"validation", "formats"} < set(SWITCHES)
    assert list(SWITCHES) == list(TITLES)
    assert document["environment"]["versions"]["orjson"]
    path = tmp_path / "advice.json"
    path.write_text(json.dumps(document))
    assert main(["--page", str(path)]) == 0
    text = capsys.readouterr().out
    assert text == page(document) and TITLES["formats"] in text
    for row in document["rows"]:
        assert f"| {row['contender']} |" in text and row["advice"] in text


def test_a_table_shows_the_time_that_decides_in_bold() -> None:
    row = Row("compression", "a body", "zstd 1", "as it is", 8.0, 20.0, 2.5, 2.4, 2.6, "wall_ms", 1_500_000)
    assert "| zstd 1 | 8 | **20** | 1.5 | 2.50 × | worth it: 2.5 times less |" in tables([row])


def test_the_summary_names_the_best_switch_and_compression_its_break_even() -> None:
    def row(stage: str, name: str, wall_ms: float, ratio: float, size: int) -> Row:
        return Row("compression", stage, name, "as it is", 1.0, wall_ms, ratio, ratio, ratio, "wall_ms", size)

    found = [
        row("JSON over slow", "as it is", 300, 1, 3_000_000), row("JSON over slow", "zstd 1", 100, 3, 1_000_000),
        row("JSON over loopback", "as it is", 2, 1, 3_000_000), row("JSON over loopback", "zstd 1", 18, 0.1, 1_000_000),
    ]  # fmt: skip
    short = in_short(found)
    assert "| JSON over slow | zstd 1 | 3 × wall time |" in short and "| JSON over loopback | none: as it is |" in short
    # 2 MB less for 16 ms more.
    assert break_even(found)[0].endswith("`zstd 1` saves time below about 1,000 Mbit/s.")


@pytest.mark.parametrize("arguments", [["--only", "prayer"], ["--repetitions", "0"]])
def test_wrong_arguments_are_refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as refused:
        main(arguments)
    assert refused.value.code == 2
    said = capsys.readouterr().err
    assert "expected" in said or "invalid choice" in said
