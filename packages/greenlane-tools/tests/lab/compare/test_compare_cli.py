"""`greenlane lab compare`: verdicts with their reasons, honest about what it cannot tell, clear about bad input."""

from __future__ import annotations

import csv
import gzip
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
from tests.lab.compare.results import ENVIRONMENT, Made, requests, write

from greenlane.cli.main import main
from greenlane_tools.lab.samples import Samples, keep
from tests.page_tags import what_it_fetches
from tests.recordings import write_pricing

Run = Callable[..., tuple[int, str, str]]

pytestmark = pytest.mark.slow

ALIKE = {"a": Made(), "b": Made()}
FASTER = {"a": Made(), "b": Made(median_ms=35, cpu_ms=2_000)}


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What several tests compare, good and bad."""
    folder = tmp_path_factory.mktemp("shared")
    write(folder / "alike", ALIKE)
    write(folder / "faster", FASTER)
    write(folder / "begun", {}, repetitions=0)
    (write(folder / "broken", ALIKE, repetitions=1) / "run.json").write_text("{")
    (folder / "empty").mkdir()
    (folder / "text.txt").write_text("hello")
    (folder / "noise.glr").write_bytes(b"hello")
    source = np.random.default_rng(1)
    made = requests(source, Made())
    keep(folder / "cut.parquet", {}, made)
    whole = (folder / "cut.parquet").read_bytes()
    (folder / "cut.parquet").write_bytes(whole[: len(whole) // 2])
    keep(folder / "few.parquet", {}, requests(source, Made(), 9))
    other = Samples(("x", "y"), **{name: value for name, value in vars(made).items() if name != "streams"})
    keep(folder / "other.parquet", {}, other)
    pyarrow.parquet.write_table(pyarrow.table({"a": [1]}), folder / "foreign.parquet")
    words = {"endpoint": ["light"], "scheduled_ns": [1], "done_ns": ["now"], "status": [200]}
    pyarrow.parquet.write_table(pyarrow.table(words), folder / "words.parquet")
    return folder


@pytest.fixture
def run(tmp_path: Path, shared: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs the command in a folder of its own, beside links to the shared ones."""
    monkeypatch.chdir(tmp_path)
    for each in shared.iterdir():
        (tmp_path / each.name).symlink_to(each)

    def compare(*argv: str) -> tuple[int, str, str]:
        try:
            code = main(["lab", "compare", *argv])
        except SystemExit as ended:
            code = int(str(ended.code))
        said = capsys.readouterr()
        return code, said.out, said.err

    return compare


def rows(out: str) -> dict[tuple[str, str], Mapping[str, Any]]:
    document = json.loads(out)
    assert document["schema"] == "greenlane.compare/1" and document["environment"]
    return {(row["endpoint"], row["quantity"]): row for row in document["rows"]}


def test_what_is_faster_is_better_with_its_interval(run: Run) -> None:
    code, out, _ = run("faster:a", "faster:b", "--json")
    found = rows(out)
    p50 = found["light", "p50_ms"]
    assert code == 0 and p50["verdict"] == "better" and p50["paired"] and p50["repetitions_a"] == 5
    assert p50["ratio_low"] < 0.7 < p50["ratio_high"] < 1
    assert p50["difference"] == pytest.approx(p50["b_value"] - p50["a_value"])
    assert p50["b_value_low"] < p50["b_value"] < p50["b_value_high"] < p50["a_value"]
    assert p50["utilisation_frac"] == 0.7 and p50["comparisons"] == len(found)
    assert found["all", "cpu_ms_per_job"]["verdict"] == "better"
    # Each is offered the same: no throughput is won by being faster.
    assert found["light", "done_per_s"]["verdict"] == "same"


def test_seen_from_the_other_side_it_is_worse_and_can_fail(run: Run) -> None:
    code, out, _ = run("faster:b", "faster:a")
    assert code == 0 and "worse" in out
    assert run("faster:b", "faster:a", "--fail-if-worse")[0] == 1
    assert run("faster:a", "faster:b", "--fail-if-worse")[0] == 0


def test_alike_sides_are_the_same_and_it_says_whether_it_knows(run: Run) -> None:
    code, out, _ = run("alike:a", "alike:b", "--json", "--fail-if-worse")
    found = rows(out)
    assert code == 0 and {row["verdict"] for row in found.values()} == {"same"}
    assert all(row["because"] for row in found.values())
    assert any(row["repetitions_needed"] for row in found.values())
    assert found["light", "within_deadline_frac"]["because"] == "within 1 % of all requests"


def test_an_effect_below_the_smallest_is_the_same(run: Run) -> None:
    _, out, _ = run("faster:a", "faster:b", "--json", "--smallest-frac", "0.9")
    row = rows(out)["light", "p50_ms"]
    assert row["verdict"] == "same" and row["because"] == "differs by less than 90 %" and row["p_adjusted"] < 0.05


def test_the_text_names_sides_verdicts_and_how_many_comparisons(run: Run) -> None:
    code, out, err = run("faster:a", "faster:b")
    assert code == 0 and out.startswith("b against a: ")
    assert "A = a, B = b" in out and "comparisons; a verdict takes all of them into account" in out
    assert "warning" not in err


def test_the_deadline_is_the_scenarios_unless_it_is_given(run: Run) -> None:
    known = rows(run("alike:a", "alike:b", "--json")[1])
    assert known["light", "within_deadline_frac"]["deadline_ms"] == 200
    assert ("heavy", "within_deadline_frac") not in known
    given = rows(run("alike:a", "alike:b", "--json", "--deadline-ms", "999", "--deadline-ms", "light=1")[1])
    assert given["heavy", "within_deadline_frac"]["deadline_ms"] == 999
    assert given["light", "within_deadline_frac"]["a_value"] == 0


def test_failing_fast_is_not_better(run: Run, tmp_path: Path) -> None:
    write(tmp_path / "r", {"a": Made(), "b": Made(failed_frac=0.3)})
    _, out, err = run("r:a", "r:b", "--json")
    found = rows(out)
    assert found["light", "failed_frac"]["verdict"] == "worse" and found["light", "done_per_s"]["verdict"] == "worse"
    assert "had no good answer" in err


def test_folders_of_the_same_contenders_are_compared_one_by_one(run: Run, tmp_path: Path) -> None:
    write(tmp_path / "before", ALIKE)
    write(tmp_path / "after", ALIKE, environment={**ENVIRONMENT, "kernel": "6.9", "load_average_1min": 3.0}, seed=2)
    code, out, err = run("before", "after", "--json")
    cells = {row["contender"] for row in json.loads(out)["rows"]}
    assert code == 0 and cells == {"a", "b"}
    assert not any(row["paired"] for row in json.loads(out)["rows"])
    assert "different environments: kernel 6.1 and 6.9" in err and "did not take turns" in err
    assert "load of 3.0 on 2 cores" in err


def test_three_sides_are_two_comparisons_with_the_first(run: Run, tmp_path: Path) -> None:
    write(tmp_path / "r", {**FASTER, "c": Made(median_ms=80)})
    code, out, _ = run("r:a", "r:b", "r:c")
    assert code == 0 and "A = a, B = b" in out and "A = a, B = c" in out and "worse" in out


def test_cells_are_kept_apart(run: Run, tmp_path: Path) -> None:
    write(tmp_path / "r", ALIKE, levels=(0.5, 0.9))
    found = json.loads(run("r:a", "r:b", "--json")[1])["rows"]
    assert {row["cell"] for row in found} == {"0.5 CPU", "0.9 CPU"}


def test_one_run_alone_is_warned_of(run: Run, tmp_path: Path) -> None:
    write(tmp_path / "r", FASTER, repetitions=1)
    code, out, err = run("r:a", "r:b", "--json")
    row = rows(out)["light", "p50_ms"]
    assert code == 0 and row["verdict"] == "better" and row["because"] == "one run alone" and row["repetitions_a"] == 1
    assert "One run alone of a, b" in err


def test_a_late_generator_is_warned_of(run: Run, tmp_path: Path) -> None:
    write(tmp_path / "r", {"a": Made(), "b": Made(late_ms=40)}, measured=False)
    assert "b: requests left 40 ms late at p99" in run("r:a", "r:b")[2]


def test_files_of_samples_are_sides_too(run: Run, tmp_path: Path) -> None:
    for name, made in FASTER.items():
        keep(tmp_path / f"{name}.parquet", {"contender": name}, requests(np.random.default_rng(3), made))
    code, out, err = run("a.parquet", "b.parquet")
    assert code == 0 and "better" in out and "Nothing says on what machine" in err


def test_the_old_demos_samples_can_be_read(run: Run, tmp_path: Path) -> None:
    source = np.random.default_rng(1)
    with gzip.open(tmp_path / "demo.csv.gz", "wt", newline="") as file:
        out = csv.writer(file)
        out.writerow(
            "contender,mix,utilisation_frac,repetition,endpoint,scheduled_ns,sent_ns,done_ns,status".split(",")
        )
        for repetition in range(3):
            for name, made in FASTER.items():
                found = requests(source, made, 300)
                columns = (found.scheduled_ns, found.sent_ns, found.done_ns, found.status)
                for row in zip(*columns, strict=True):
                    out.writerow([name, "peak", 0.7, repetition, "light", *row])
    code, said, _ = run("demo.csv.gz:a", "demo.csv.gz:b", "--json")
    row = rows(said)["light", "p50_ms"]
    assert code == 0 and row["paired"] and row["mix"] == "peak" and row["ratio"] == pytest.approx(0.7, rel=0.1)


@pytest.mark.slow
def test_recordings_are_compared_by_route(run: Run, tmp_path: Path) -> None:
    write_pricing(tmp_path / "before.glr", seconds=5)
    write_pricing(tmp_path / "after.glr", seconds=5)
    code, out, err = run("before.glr", "after.glr", "--json", "-o", "page.html")
    found = rows(out)
    assert code == 0 and {row["verdict"] for row in found.values()} == {"same"}
    assert any(endpoint.startswith("GET ") for endpoint, _ in found) and "One run alone" in err


def test_the_page_needs_nothing_else_and_says_what_the_text_says(run: Run, tmp_path: Path) -> None:
    hostile = "<script>alert(1)</script>"
    write(tmp_path / "r", {"a": Made(), hostile.replace("/", "_"): Made(median_ms=80)})
    code, out, err = run("r:a", f"r:{hostile.replace('/', '_')}", "-o", "page.html")
    page = (tmp_path / "page.html").read_text("utf-8")
    assert code == 0 and "page: page.html" in err and not what_it_fetches(page)
    assert "<script>alert" not in page and "cannot say" in page
    assert "comparisons" in out.splitlines()[0]


@pytest.mark.parametrize(
    ("argv", "expected", "hint"),
    [
        (["none", "alike:b"], "result='none', expected a folder or file that exists", "greenlane lab run"),
        (["alike:a", "alike:bb"], "contender='bb', expected a contender of alike", "b"),
        (["alike"], "expected at least two results", "alike:a alike:b"),
        (["alike:a"], "expected at least two results", "second"),
        (["alike:a", "empty"], "result='empty', expected a result folder", "--out"),
        (["alike:a", "begun"], "result='begun', expected at least one request", "it resumes"),
        (["alike:a", "cut.parquet"], "file='cut.parquet', expected a whole file of samples", "cut"),
        (["alike:a", "foreign.parquet"], "columns endpoint, scheduled_ns, done_ns, status are missing", "tool"),
        (["alike:a", "words.parquet"], "column done_ns holds string, not numbers", "tool"),
        (["alike:a", "other.parquet"], "expected an endpoint that all have", "one scenario"),
        (["alike:a", "few.parquet"], "expected an endpoint with at least 20 requests", "longer"),
        (["alike:a", "text.txt"], "result='text.txt', expected a result folder", "--out"),
        (["alike:a", "broken"], "run.json", "copy"),
        (["alike:a", "noise.glr"], "noise.glr", "greenlane record"),
        (["alike:a", "alike:b", "--deadline-ms", "soon"], "expected milliseconds > 0", ""),
        (["alike:a", "alike:b", "--deadline-ms", "ligth=5"], "expected one of light, heavy", "did you mean 'light'?"),
        (["alike:a", "alike:b", "--smallest-frac", "much"], "expected a number from 0 to 10", ""),
    ],
)
def test_bad_input_is_named_with_a_remedy(run: Run, argv: list[str], expected: str, hint: str) -> None:
    code, out, err = run(*argv)
    assert (code, out) == (2, "") and expected in err and hint in err and "Traceback" not in err


def test_a_page_that_cannot_be_written_is_said(run: Run) -> None:
    code, _, err = run("alike:a", "alike:b", "-o", "no/such/page.html")
    assert code == 1 and "a file that can be written" in err
