"""`greenlane report`: what it prints where, what it writes, and what it says of files that it cannot use."""

from __future__ import annotations

import gzip
import json
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from greenlane.cli.main import main
from greenlane_tools.cli import top_record
from greenlane_tools.reader.recording import open_recording
from tests.page_tags import what_it_fetches
from tests.recordings import slow_offer, thread_service, write_pricing

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return write_pricing(tmp_path_factory.mktemp("recorded") / "pricing.glr", seconds=5).read_bytes()


@pytest.fixture
def run(tmp_path: Path, recorded: bytes, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs the command in a folder that has `pricing.glr`."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pricing.glr").write_bytes(recorded)

    def report(*argv: str) -> tuple[int, str, str]:
        try:
            code = main(["report", *argv])
        except SystemExit as ended:
            code = int(str(ended.code))
        said = capsys.readouterr()
        return code, said.out, said.err

    return report


def test_by_default_it_writes_the_page_beside_the_recording_and_sums_up(run: Run, tmp_path: Path) -> None:
    code, out, err = run("pricing.glr")
    assert (code, err.splitlines()[-1]) == (0, "page: pricing.html") or "page: pricing.html" in err
    assert "who made whom wait" in out and "pricing.py:88" in out
    page = (tmp_path / "pricing.html").read_text("utf-8")
    assert not what_it_fetches(page)
    assert out.splitlines()[0].partition(":")[0] in page


def test_json_is_one_object_and_writes_no_page(run: Run, tmp_path: Path) -> None:
    code, out, _ = run("pricing.glr", "--json")
    document = json.loads(out)
    assert code == 0 and document["schema"] == "greenlane.report/1" and document["environment"]["greenlane"]
    assert document["verdict"]["holder"]["line"].startswith("pricing.py:88 ")
    assert {"route", "tail", "blame", "upstream", "worker", "job", "call"} <= {row["view"] for row in document["rows"]}
    assert not list(tmp_path.glob("*.html"))


def test_folded_stacks_begin_with_the_route_and_end_with_ns(run: Run) -> None:
    code, out, _ = run("pricing.glr", "--folded")
    assert code == 0
    for line in out.splitlines():
        stack, _, ns = line.rpartition(" ")
        assert stack and int(ns) > 0
    assert any(line.startswith("GET /report;") and "totals (pricing.py:88)" in line for line in out.splitlines())


def test_a_trace_on_stdout_stands_alone(run: Run, tmp_path: Path) -> None:
    code, out, _ = run("pricing.glr", "--trace", "-")
    assert code == 0 and json.loads(out)["traceEvents"]
    assert not list(tmp_path.glob("*.html")) and not (tmp_path / "-").exists()


def test_page_and_trace_go_where_they_are_told_to(run: Run, tmp_path: Path) -> None:
    code, _, err = run("pricing.glr", "-o", "seen.html", "--trace", "trace.json")
    assert code == 0 and "page: seen.html" in err and "trace: trace.json" in err
    assert (tmp_path / "seen.html").exists() and not (tmp_path / "pricing.html").exists()
    assert json.loads((tmp_path / "trace.json").read_text("utf-8"))["traceEvents"]


def test_no_page_when_told_so(run: Run, tmp_path: Path) -> None:
    assert run("pricing.glr", "-o", "-")[0] == 0
    assert not list(tmp_path.glob("*.html"))


def test_a_missing_recording_is_explained_as_one(run: Run) -> None:
    assert "greenlane explain GL301" in run("absent.glr")[2]


def test_one_routes_report_is_of_its_jobs_only(run: Run) -> None:
    rows = json.loads(run("pricing.glr", "--json", "--route", "GET /bikes")[1])["rows"]
    assert [row["route"] for row in rows if row["view"] == "route"] == ["GET /bikes"]
    assert {row["victim"] for row in rows if row["view"] == "blame"} == {"GET /bikes"}


def test_so_many_slowest_jobs(run: Run) -> None:
    rows = json.loads(run("pricing.glr", "--json", "--slowest", "3")[1])["rows"]
    latencies = [row["latency_ms"] for row in rows if row["view"] == "job"]
    assert len(latencies) == 3 and latencies == sorted(latencies, reverse=True)


@pytest.mark.parametrize(
    ("argv", "code", "says", "hint"),
    [
        (["absent.glr"], 2, "FILE='absent.glr', expected a recording that exists", "greenlane record"),
        (["pricing.glr", "--route", "GET /bike"], 2, "expected a route of the recording", "did you mean 'GET /bikes'?"),
        (
            ["pricing.glr", "--json", "--folded"],
            2,
            "one of --json, --folded, --brief and --trace -",
            "run it once for each",
        ),
        (["pricing.glr", "--slowest", "x"], 2, "expected a whole number from 0 to 200", "report --help"),
        (["pricing.glr", "-o", "no/such/folder.html"], 1, "No such file or directory", "name another with -o"),
        (["pricing.glr", "--trace", "no/such/trace.json"], 1, "No such file or directory", "or --trace"),
    ],
)
def test_what_it_cannot_do_is_said_with_a_hint(run: Run, argv: list[str], code: int, says: str, hint: str) -> None:
    ended, out, err = run(*argv)
    assert (ended, out) == (code, "")
    assert says in err and hint in err.partition("hint: ")[2]


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 something else", b"\x00" * 4096])
def test_a_file_that_is_no_recording_is_refused(run: Run, tmp_path: Path, content: bytes) -> None:
    (tmp_path / "other.glr").write_bytes(content)
    code, out, err = run("other.glr")
    assert code in (1, 2) and out == "" and "\nhint: " in err
    assert not list(tmp_path.glob("*.html"))


def test_a_damaged_recording_is_reported_as_far_as_it_goes(run: Run, tmp_path: Path, recorded: bytes) -> None:
    torn = recorded[: len(recorded) - 1000]
    (tmp_path / "torn.glr").write_bytes(torn)
    code, out, err = run("torn.glr")
    assert code == 0 and out and "note: " in err
    assert 'class="warning"' in (tmp_path / "torn.html").read_text("utf-8")


def test_a_recording_that_still_grows_is_read_from_its_parts(run: Run, tmp_path: Path, recorded: bytes) -> None:
    (tmp_path / "now.glr.parts").mkdir()
    (tmp_path / "now.glr.parts" / "1-00000000000000a0-0000.glr").write_bytes(recorded)
    code, out, _ = run("now.glr")
    assert code == 0 and "GET /report" in out and (tmp_path / "now.html").exists()


def test_pprof_reads_the_profile_by_its_own_schema(run: Run, tmp_path: Path) -> None:
    code, _, err = run("pricing.glr", "-o", "-", "--pprof", "s.pb.gz")
    assert code == 0 and "pprof: s.pb.gz" in err
    assert (tmp_path / "s.pb.gz").stat().st_mode & 0o077 == 0
    profile = pprof_message().FromString(gzip.decompress((tmp_path / "s.pb.gz").read_bytes()))
    texts = list(profile.string_table)
    kinds = [(texts[kind.type], texts[kind.unit]) for kind in profile.sample_type]
    assert kinds == [("cpu", "nanoseconds"), ("waited", "nanoseconds")]  # pprof shows the last one by default
    functions = {one.id: (texts[one.name], texts[one.filename]) for one in profile.function}
    lines = {one.id: (*functions[one.line[0].function_id], one.line[0].line) for one in profile.location}
    folded: dict[str, int] = {}
    computed: dict[str, int] = {}
    for sample in profile.sample:
        stack = [lines[number] for number in reversed(sample.location_id)]
        said = ";".join(f"{name} ({file}:{line})" if file else name for name, file, line in stack)
        cpu_ns, waited_ns = sample.value
        for found, ns in ((computed, cpu_ns), (folded, waited_ns)):
            if ns:
                found[said] = found.get(said, 0) + ns
    own = open_recording(tmp_path / "pricing.glr").own
    assert sum(computed.values()) == sum(row.cpu_ns for row in own) > 0
    assert any(stack.startswith("GET /report;") and "pricing.py:88" in stack for stack in computed)
    _, out, _ = run("pricing.glr", "--folded")
    assert folded == {stack: int(ns) for stack, _, ns in (line.rpartition(" ") for line in out.splitlines())}
    assert any("pricing.py:88" in stack for stack in folded)
    assert profile.duration_nanos > 4e9


def test_a_profile_without_samples_says_so_and_what_to_do(run: Run, tmp_path: Path) -> None:
    (tmp_path / "threads.glr").write_bytes(thread_service(7, 4100))
    code, _, err = run("threads.glr", "-o", "-", "--pprof", "s.pb.gz")
    assert code == 0 and "s.pb.gz, empty: nothing was sampled" in err and "record it under load" in err


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("go") is None, reason="pprof itself is a part of Go")
def test_pprof_itself_reads_the_profile(run: Run, tmp_path: Path) -> None:
    assert run("pricing.glr", "-o", "-", "--pprof", "s.pb.gz")[0] == 0
    environ = {**os.environ, "PPROF_TMPDIR": str(tmp_path)}
    command = ["go", "tool", "pprof", "-raw", "s.pb.gz"]
    said = subprocess.run(command, cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=120, check=True)
    samples = re.findall(r"^ +(\d+) +(\d+): [\d ]+$", said.stdout, re.MULTILINE)
    _, out, _ = run("pricing.glr", "--folded")
    folded = sorted(int(line.rpartition(" ")[2]) for line in out.splitlines())
    assert sorted(int(ns) for _, ns in samples if ns != "0") == folded
    assert "waited/nanoseconds" in said.stdout and "pricing.py:88" in said.stdout


def pprof_message() -> Any:
    """`Profile` of pprof's profile.proto, as far as it is used."""
    file = descriptor_pb2.FileDescriptorProto(name="profile.proto", syntax="proto3")
    scalar, several = descriptor_pb2.FieldDescriptorProto, descriptor_pb2.FieldDescriptorProto.LABEL_REPEATED
    fields = {
        "ValueType": [("type", 1, "", 0), ("unit", 2, "", 0)],
        "Line": [("function_id", 1, "", 0), ("line", 2, "", 0)],
        "Location": [("id", 1, "", 0), ("line", 4, "Line", 1)],
        "Function": [("id", 1, "", 0), ("name", 2, "", 0), ("system_name", 3, "", 0), ("filename", 4, "", 0)],
        "Sample": [("location_id", 1, "", 1), ("value", 2, "", 1)],
        "Profile": [("sample_type", 1, "ValueType", 1), ("sample", 2, "Sample", 1), ("location", 4, "Location", 1),
                    ("function", 5, "Function", 1), ("string_table", 6, "string", 1), ("time_nanos", 9, "", 0),
                    ("duration_nanos", 10, "", 0)],
    }  # fmt: skip
    for name, rows in fields.items():
        message = file.message_type.add(name=name)
        for field, number, kind, repeated in rows:
            added = message.field.add(name=field, number=number)
            added.type = (
                scalar.TYPE_INT64 if not kind else scalar.TYPE_STRING if kind == "string" else scalar.TYPE_MESSAGE
            )
            if added.type == scalar.TYPE_MESSAGE:
                added.type_name = f".{kind}"
            added.label = several if repeated else scalar.LABEL_OPTIONAL
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("Profile"))


def test_compare_sets_routes_beside_each_other_and_says_what_was_not_alike(run: Run, tmp_path: Path) -> None:
    code, out, _ = run("pricing.glr", "--compare", "pricing.glr")
    assert code == 0 and "not recorded alike" not in out and not list(tmp_path.glob("*.html"))
    assert "GET /bikes before" in out and "GET /bikes after" in out and "1.00" in out
    write_pricing(tmp_path / "later.glr", seconds=2)
    code, out, _ = run("later.glr", "--compare", "pricing.glr")
    assert code == 0 and "few jobs" in out
    (tmp_path / "other.glr").write_bytes(slow_offer())
    code, out, err = run("pricing.glr", "--compare", "other.glr")
    assert (code, out) == (2, "") and "no route is in both" in err


# --- top


def answer(pid: int, jobs: int, wait_ms: float, **record: Any) -> dict[str, Any]:
    routes = [{"route": "/a", "jobs": jobs, "by_latency": {"40": jobs}, "cpu_ms": jobs, "io_ms": 0, "wait_ms": wait_ms}]
    return {"pid": pid, "record": {"on": True, "jobs": jobs, "busy_ms": jobs, "routes": routes, **record}}


def test_top_shows_what_was_since_the_last_look() -> None:
    looks = top_record.Looks()
    looks.take([answer(1, 100, 500.0), answer(2, 50, 100.0)], 10.0)
    processes, routes = looks.take([answer(1, 120, 540.0), answer(2, 50, 100.0)], 12.0)
    assert [(row["pid"], row["jobs_per_s"], row["busy_frac"]) for row in processes] == [(1, 10, 0.01), (2, 0, 0)]
    (row,) = routes
    assert (row["jobs"], row["jobs_per_s"], row["p99_ms"]) == (170, 10, 1.0)
    assert (row["cpu_ms"], row["wait_ms"], row["wait_frac"]) == (1, 2, 0.667)


def test_top_has_the_verdict_on_a_recording_that_runs(tmp_path: Path, recorded: bytes) -> None:
    (tmp_path / "now.glr.parts").mkdir()
    (tmp_path / "now.glr.parts" / "1-00000000000000a0-0000.glr").write_bytes(recorded)
    live = top_record.LiveVerdict(str(tmp_path / "now.glr"))
    verdict = live.take(100.0)
    assert verdict is not None and "pricing.py:88" in verdict.line
    assert live.take(105.0) is verdict
    for target in (None, "4711", str(tmp_path / "absent.glr")):
        assert top_record.LiveVerdict(target).take(0.0) is None


def test_tops_percentiles_are_of_the_last_ten_seconds_and_the_last_minute() -> None:
    looks = top_record.Looks()
    slow, counts = 0, {"40": 0, "60": 0}
    for second in range(200):
        counts["40"] += 100
        counts["60"] += 10 * (100 <= second < 120)  # 32 ms instead of 1 ms
        found = answer(1, 100 * second, 0.0, by_lag={"3": 100 * second, "13": 5 * max(0, min(second, 120) - 100)})
        found["record"]["routes"][0]["by_latency"] = dict(counts)
        (process,), (row,) = looks.take([found], float(second))
        told = (row["p99_ms"], row["p99_10s_ms"], process["lag_ms_p99"], process["lag_10s_ms_p99"])
        slow += told == (32.8, 32.8, 8.192, 8.192)
        if second == 150:
            assert told == (32.8, 1.0, 8.192, 0.008)
    assert slow > 10 and told == (1.0, 1.0, 0.008, 0.008)


def test_top_shows_the_routes_that_are_asked_for_in_the_order_asked_for() -> None:
    found = answer(1, 100, 500.0)
    rows = found["record"]["routes"]
    rows.append({**rows[0], "route": "/b", "jobs": 200, "wait_ms": 1.0})
    assert [row["route"] for row in top_record.Looks("", "jobs").take([found], 1.0)[1]] == ["/b", "/a"]
    assert [row["route"] for row in top_record.Looks("a").take([found], 1.0)[1]] == ["/a"]


def test_top_passes_over_what_does_not_record_and_bears_missing_fields() -> None:
    looks = top_record.Looks()
    assert looks.take([{"pid": 1}, {"pid": 2, "record": None}], 1.0) == ([], [])
    (row,), routes = looks.take([{"pid": 3, "record": {"jobs": 5}}], 2.0)
    assert (row["pid"], row["jobs"], routes) == (3, 5, [])


def test_brief_fits_a_screen_and_its_proof_can_be_run(run: Run, tmp_path: Path) -> None:
    code, out, _ = run("pricing.glr", "--brief")
    lines = out.splitlines()
    assert code == 0 and len(lines) <= 24 and len(out) < 2_000 and not list(tmp_path.glob("*.html"))
    told = {line.split()[0]: line.split(maxsplit=1)[1] for line in lines[1:]}
    assert "pricing.py:88" in lines[0] and "pricing.py:88" in told["line"] and told["do"] and told["check"]
    program, command, *argv = shlex.split(told["proof"])
    assert (program, command) == ("greenlane", "report")
    code, out, _ = run(*argv, "-o", "-")
    assert code == 0 and "pricing.py:88" in out
