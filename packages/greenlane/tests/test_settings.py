"""Settings: one declaration, three sources, and an error with a remedy for everything else."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from greenlane.errors import SettingsError
from greenlane.settings import LANE_KEYS, SETTINGS, Lane, Setting, Settings, load
from greenlane.settings.listing import describe, effective, example
from greenlane.settings.parts import FIRST

Load = Callable[..., Settings]


@pytest.fixture
def from_toml(tmp_path: Path) -> Load:
    def read(text: str | bytes, environ: Mapping[str, str] | None = None, **flags: object) -> Settings:
        file = tmp_path / "greenlane.toml"
        file.write_bytes(text if isinstance(text, bytes) else text.encode())
        return load(flags, environ=environ or {}, file=file)

    return read


def refused(load_it: Callable[[], object]) -> SettingsError:
    with pytest.raises(SettingsError) as caught:
        load_it()
    assert caught.value.hint, "every refusal has a hint"
    return caught.value


# --- declarations


@pytest.mark.parametrize("setting", [*SETTINGS.values(), *LANE_KEYS.values()], ids=lambda setting: setting.name)
def test_every_setting_says_what_it_is_and_why_its_default(setting: Setting) -> None:
    assert setting.what.endswith(".")
    assert setting.reason.endswith(".")
    if setting.kind in ("int", "float"):
        assert setting.low is not None
        assert setting.high is not None
        assert isinstance(setting.default, int | float)
        assert setting.low <= setting.default <= setting.high
    if setting.kind == "choice":
        assert setting.default in setting.choices


@pytest.mark.parametrize("setting", SETTINGS.values(), ids=lambda setting: setting.name)
def test_a_unit_in_the_name_is_the_unit_of_the_setting(setting: Setting) -> None:
    suffix = "" if setting.name.endswith("_per_s") else setting.name.rsplit("_", 1)[-1]
    assert (suffix if suffix in ("ms", "s", "frac") else "") in ("", setting.unit)


def test_describe_has_a_row_for_every_setting_and_lane_key() -> None:
    rows = [row for row in describe() if row["distribution"] == "greenlane"]
    assert [row["setting"] for row in rows] == [*SETTINGS, *(f"lanes.NAME.{key}" for key in LANE_KEYS)]
    interval = next(row for row in rows if row["setting"] == "interval_ms")
    assert interval["environment"] == "GREENLANE_INTERVAL_MS"
    assert interval["flag"] == "--interval-ms"
    assert interval["rule"] == "a number from 0.05 to 100 (ms)"
    assert interval["default"] == 1


def test_defaults_need_no_source() -> None:
    assert load(environ={"GREENLANE_CONFIG": ""}) == Settings()


# --- sources


def test_flags_win_over_the_environment_and_that_over_the_file(from_toml: Load) -> None:
    settings = from_toml(
        "permits = 1\nthreads = 10\nlimit = 100\n", {"GREENLANE_PERMITS": "2", "GREENLANE_THREADS": "20"}, permits=3
    )
    assert (settings.permits, settings.threads, settings.limit) == (3, 20, 100)
    assert settings.origins["permits"] == "flag --permits"
    assert settings.origins["threads"] == "environment GREENLANE_THREADS"
    assert settings.origins["limit"].startswith("file /")


def test_effective_names_the_origin_of_each_value(from_toml: Load) -> None:
    settings = from_toml('permits = 2\n[lanes.fast]\nmatch = ["/a"]\n')
    rows = {row["setting"]: row for row in effective(settings)}
    assert rows["permits"]["value"] == 2
    assert str(rows["permits"]["origin"]).startswith("file ")
    assert rows["heavy_ms"]["origin"] == "default"
    assert rows["lanes.fast.match"]["value"] == ["/a"]
    assert str(rows["lanes.fast.match"]["origin"]).startswith("file ")
    assert rows["lanes.fast.weight"]["origin"] == "default"


def test_greenlane_toml_is_found_in_the_current_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert load(environ={}).permits == 0
    Path("greenlane.toml").write_text("permits = 7")
    assert load(environ={}).permits == 7
    assert load(environ={}).origins["permits"] == f"file {tmp_path}/greenlane.toml"


def test_the_variable_names_another_file_and_empty_means_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("greenlane.toml").write_text("permits = 7")
    Path("other.toml").write_text("permits = 8")
    assert load(environ={"GREENLANE_CONFIG": "other.toml"}).permits == 8
    assert load(environ={"GREENLANE_CONFIG": ""}).permits == 0


@pytest.mark.parametrize(
    ("variable", "text", "name", "value"),
    [
        ("INTERVAL_MS", " 0.25 ", "interval_ms", 0.25),
        ("HEAVY_MS", "3", "heavy_ms", 3.0),
        ("THREADS", "8", "threads", 8),
        ("MODE", "Observe", "mode", "observe"),
        ("DEADLINE_HEADERS", "x-deadline, grpc-timeout,", "deadline_headers", ("x-deadline", "grpc-timeout")),
        ("DEADLINE_HEADERS", "", "deadline_headers", ()),
        ("CONTROL_DIR", "", "control_dir", ""),
    ],
)
def test_variables_are_texts_of_the_settings_type(variable: str, text: str, name: str, value: object) -> None:
    settings = load(environ={"GREENLANE_CONFIG": "", f"GREENLANE_{variable}": text})
    assert getattr(settings, name) == value
    assert type(getattr(settings, name)) is type(value)


@pytest.mark.parametrize(
    ("text", "value"),
    [("1", True), ("true", True), ("on", True), ("TRUE", True), ("0", False), ("false", False), ("off", False)],
)
def test_switches_accept_the_usual_words(text: str, value: bool) -> None:
    assert load(environ={"GREENLANE_CONFIG": "", "GREENLANE_DEADLINE_CANCEL": text}).deadline_cancel is value


def test_variables_that_kubernetes_makes_up_are_not_ours() -> None:
    names = ["SERVICE_HOST", "SERVICE_PORT", "SERVICE_PORT_HTTP", "PORT", "PORT_80_TCP", "PORT_80_TCP_ADDR"]
    assert load(environ={"GREENLANE_CONFIG": "", **{f"GREENLANE_{name}": "x" for name in names}}) == Settings()


def test_flags_that_were_not_given_count_as_absent() -> None:
    assert load({"permits": None, "threads": "5"}, environ={"GREENLANE_CONFIG": ""}).threads == 5


def test_a_byte_order_mark_and_windows_line_ends_are_read(from_toml: Load) -> None:
    assert from_toml("\ufeffpermits = 2\r\nthreads = 3\r\n").threads == 3


def test_names_of_a_distribution_that_is_not_loaded_are_passed_over(from_toml: Load) -> None:
    text = 'permits = 2\nworkers = 4\ntask_slots = "any"\n[task_order]\nnext = "x"\n'
    settings = from_toml(text, {"GREENLANE_TASK_KEY": "kwargs.merchant", "GREENLANE_BIND": "x"})
    assert settings.permits == 2
    assert not hasattr(settings, "workers")


# --- lanes


def test_tables_of_the_parts_are_read_and_flat_names_go_on_working(from_toml: Load) -> None:
    parts = from_toml("[serve]\nmax_concurrency = 7\nworkers = 2\n[tasks]\nslots = 9\n[record]\nmax_mb = 8\n")
    assert (parts.limit, parts.record_max_mb) == (7, 8.0)
    assert from_toml("limit = 7\n[record]\nrecord_max_mb = 8") == parts
    assert load(environ={"GREENLANE_MAX_CONCURRENCY": "7"}, file=None) == load({"max_concurrency": 7}, environ={})


@pytest.mark.parametrize(
    ("toml", "says", "hint"),
    [
        ("limit = 1\nmax_concurrency = 2", "max_concurrency=2, expected one value for limit", "remove"),
        ("[record]\nmax_bm = 2", "line 2: max_bm=2, expected a known name", "did you mean 'max_mb'?"),
        ("[record]\nmax_mb = -2", "line 2: record_max_mb=-2, expected a number", "default, 512.0"),
        ("[recrod]\nmax_mb = 2", "[recrod]", "did you mean 'record'?"),
        ("[serve]\nqueue_timout_s = 3", "line 2: queue_timout_s=3", "did you mean 'queue_timeout_s'?"),
    ],
)
def test_a_wrong_key_of_a_part_is_refused(from_toml: Load, toml: str, says: str, hint: str) -> None:
    error = refused(lambda: from_toml(toml))
    assert says in str(error)
    assert hint in error.hint


def test_pyproject_toml_is_read_where_it_speaks_of_us(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pyproject.toml").write_text("[tool.other]\nbroken")
    assert load(environ={}) == Settings()
    text = (
        '[tool.greenlane]\npermits = 3\n[tool.greenlane.record]\nmax_mb = 9\n[tool.greenlane.lanes.a]\nmatch = ["/a"]'
    )
    (tmp_path / "pyproject.toml").write_text(text)
    found = load(environ={})
    assert (found.permits, found.record_max_mb, found.lanes[0].name) == (3, 9.0, "a")
    (tmp_path / "pyproject.toml").write_text("[tool.x]\n[tool.greenlane]\npermit = 3")
    assert "pyproject.toml, line 3" in str(refused(lambda: load(environ={})))
    (tmp_path / "greenlane.toml").write_text("permits = 5")
    assert load(environ={}).permits == 5


def test_the_example_file_is_accepted_with_every_line_in_force(from_toml: Load) -> None:
    lines = example().splitlines()
    in_force = [line.removeprefix("# ") if re.match(r"# (\w+ = |\[lanes)", line) else line for line in lines]
    names = [line.partition(" = ")[0] for line in in_force if re.match(r"\w+ = ", line)]
    assert set(FIRST) <= set(names)
    assert not [name for name in SETTINGS if name not in names and name.removeprefix("record_") not in names]
    assert from_toml("\n".join(in_force)).lane("GET /search/x", "/search/x") is not None
    assert from_toml("\n".join(lines)) == Settings()


def test_lanes_come_in_the_order_of_the_file_and_the_first_match_counts(from_toml: Load) -> None:
    settings = from_toml(
        '[lanes.quotes]\nmatch = ["POST /quote*", "/q?"]\n'
        'weight = "heavy"\ndeadline_ms = 250\nlimit = 4\nmode = "off"\n'
        '[lanes.rest]\nmatch = ["*"]\n'
    )
    quotes, rest = settings.lanes
    assert quotes == Lane("quotes", ("POST /quote*", "/q?"), "heavy", 250.0, "off", 4)
    assert settings.lane("POST /quote", "/quote") is quotes
    assert settings.lane("", "/q1") is quotes
    assert settings.lane("GET /quote", "/quote") is rest


def test_case_counts_in_lanes() -> None:
    assert not Lane("a", ("/Quote",)).matches("", "/quote")


def test_no_lane_matches_where_none_is_set() -> None:
    assert Settings().lane("GET /", "/") is None


# --- refusals


@pytest.mark.parametrize(
    ("toml", "says", "hint"),
    [
        ('interval_ms = "fast"', "line 1: interval_ms='fast', expected a number from 0.05 to 100 (ms)", "default, 1"),
        ('interval_ms = "0.5"', "expected a number", "without quotes"),
        ("\n\ninterval_ms = -1", "line 3: interval_ms=-1", "default, 1"),
        ("interval_ms = nan", "interval_ms=nan", "default"),
        (f"interval_ms = 1{'0' * 400}", "(401 characters), expected a number", "default"),
        ("interval_ms = inf", "interval_ms=inf", "default"),
        ("permits = true", "permits=True, expected a whole number from 0 to 1024", "default, 0"),
        ("permits = 2.0", "permits=2.0, expected a whole number", "default"),
        ("deadline_out = 1", "deadline_out=1, expected true or false", "default, True"),
        ("limit = 1000001", "expected a whole number from 0 to 1000000", "default"),
        ('mode = "observer"', "expected one of on, observe, off", "did you mean 'observe'?"),
        ("mode = false", "mode=False", "default, 'on'"),
        ("interval-ms = 1", "interval-ms=1, expected a known name", "did you mean 'interval_ms'?"),
        ("zzz = 1", "zzz=1, expected a known name", "greenlane config"),
        ("task_slot = 1", "task_slot=1, expected a known name", "did you mean 'task_slots'?"),
        ('[lane.fast]\nmatch = ["/"]', "line 1: [lane]='lane', expected no table but", "did you mean 'lanes'?"),
        ('[versions]\nnext = "/srv"', "expected no table but [serve], [tasks]", "serve each version by itself"),
        ("[greenlane]\npermits = 1", "expected no table but [serve], [tasks]", "top of the file"),
        ("lanes = 3", "lanes=3, expected tables", "write [lanes.fast]"),
        ("[[lanes]]\nx = 1", "expected tables", "write [lanes.fast]"),
        ("lanes.fast = 3", "lanes.fast=3, expected a table", "write [lanes.fast]"),
        ("[lanes.fast]\nmatch = ['/']\nweigth = 'light'", "line 3: lanes.fast.weigth='light'", "mean 'weight'?"),
        ("[lanes.fast]\nq = 1", "lanes.fast.q=1, expected a known name", "a lane has match, weight"),
        ("[lanes.fast]\nmatch = '/a'", "expected a list, each a glob", "write it as a list: ['/a']"),
        ("[lanes.fast]\nweight = 'light'", "lanes.fast.match=[], expected at least one glob", "add match ="),
        ("[lanes.fast]\nmatch = ['/']\nlimit = true", "lanes.fast.limit=True", "default, 0"),
        ("[lanes.fast]\nmatch = ['/']\nmode = 'of'", "one of '', on, observe, off", "did you mean 'off'?"),
        ("[lanes.'a b']\nmatch = ['/']", "lanes.a b='a b', expected a name of 1 to 64", "rename the lane"),
        ('deadline_headers = "x"', "expected a list, each an HTTP header name", "as a list: ['x']"),
        ('deadline_headers = ["a b"]', "expected a list, each an HTTP header name", "default"),
        ('health_path = "health"', "a path that starts with '/'", "default, ''"),
        ('health_path = "/h"\nmetrics_path = "/h"', "another path than health_path", "a path of its own"),
        ("permits = = 3", "expected TOML: Invalid value (at line 1", "correct line 1"),
        ("permits = 1\nx = 'abc", "expected TOML:", "correct line 2"),
        (b"permits = 1\nx = '\xff'", "expected UTF-8 (line 2 is not)", "save it as UTF-8"),
        ("x = " + "[" * 5000, "expected TOML", "correct"),
        ("permits = " + "1" * 5000, "expected TOML", "correct"),
        ("#" * (1 << 20) + "\npermits = 1", "a file of at most 1048576 bytes", "name the settings file"),
    ],
)
def test_a_wrong_file_is_refused_with_place_rule_and_hint(from_toml: Load, toml: str, says: str, hint: str) -> None:
    error = refused(lambda: from_toml(toml))
    first, last = str(error).split("\nhint: ")
    assert says in first
    assert hint in last


@pytest.mark.parametrize(
    ("variable", "text", "says", "hint"),
    [
        ("GREENLANE_INTERVAL_MS", "fast", "GREENLANE_INTERVAL_MS: interval_ms='fast'", "default, 1"),
        ("GREENLANE_INTERVAL_MS", "", "interval_ms='', expected a number", "default, 1"),
        ("GREENLANE_THREADS", "1e3", "threads='1e3', expected a whole number", "default, 64"),
        ("GREENLANE_DEADLINE_OUT", "maybe", "deadline_out='maybe', expected true or false", "default, True"),
        ("GREENLANE_INTERVALL_MS", "1", "GREENLANE_INTERVALL_MS='1'", "did you mean 'GREENLANE_INTERVAL_MS'?"),
        ("GREENLANE_TASK_KYE", "x", "GREENLANE_TASK_KYE='x'", "did you mean 'GREENLANE_TASK_KEY'?"),
        ("GREENLANE_MAX_CONCURENCY", "x", "GREENLANE_MAX_CONCURENCY='x'", "did you mean 'GREENLANE_MAX_CONCURRENCY'?"),
        ("GREENLANE_LANES", "x", "GREENLANE_LANES='x', expected a known name", "greenlane config"),
    ],
)
def test_a_wrong_variable_is_refused_by_its_name(variable: str, text: str, says: str, hint: str) -> None:
    error = refused(lambda: load(environ={"GREENLANE_CONFIG": "", variable: text}))
    first, last = str(error).split("\nhint: ")
    assert says in first
    assert hint in last


def test_a_wrong_flag_is_refused_by_its_name() -> None:
    environ = {"GREENLANE_CONFIG": ""}
    assert "read the flag --threads: threads=" in str(refused(lambda: load({"threads": object()}, environ=environ)))
    assert "did you mean 'threads'?" in str(refused(lambda: load({"thread": 1}, environ=environ)))
    assert "workers=2, expected a known name" in str(refused(lambda: load({"workers": 2}, environ=environ)))


@pytest.mark.parametrize("name", ["absent.toml", ".", "nul\0nul", "/dev/zero"])
def test_a_file_that_cannot_be_read_is_refused(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    error = refused(lambda: load(environ={"GREENLANE_CONFIG": name}))
    assert str(error).startswith("read the settings file: file=")
    assert "unset GREENLANE_CONFIG" in error.hint


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads every file")
def test_a_file_without_permission_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "greenlane.toml"
    file.write_text("permits = 1")
    file.chmod(0)
    assert "Permission denied" in str(refused(lambda: load(environ={}, file=file)))


def test_settings_made_in_code_are_checked_too() -> None:
    assert refused(lambda: Settings(interval_ms=1e6)).setting == "interval_ms"
    assert refused(lambda: Settings(lanes=("fast",))).setting == "lanes"  # type: ignore[arg-type]
    twice = (Lane("a", ("/x",)), Lane("a", ("/y",)))
    assert refused(lambda: Settings(lanes=twice)).setting == "lanes.a"
    assert Settings(heavy_ms=3).heavy_ms == 3.0


# Letters of words that mean something, and what trips parsers; a lone surrogate is what an undecodable byte becomes.
TEXTS = st.sampled_from(["on", "heavy", "1e3", "GET /*", "inf"]) | st.text("a01.-,/ \0\n'[é\u0663\udcff", max_size=12)
ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=5,
)


@hypothesis_settings(derandomize=True, deadline=None)
@given(flags=st.dictionaries(st.sampled_from([*SETTINGS, "lanes", "other"]), ANY, max_size=4))
def test_whatever_the_flags_are_only_a_settings_error_comes_out(flags: dict[str, object]) -> None:
    try:
        load(flags, environ={"GREENLANE_CONFIG": ""})
    except SettingsError as error:
        assert error.hint


@hypothesis_settings(derandomize=True, deadline=None)
@given(text=TEXTS, name=st.sampled_from([setting.env for setting in SETTINGS.values()]))
def test_whatever_the_environment_is_only_a_settings_error_comes_out(name: str, text: str) -> None:
    try:
        load(environ={"GREENLANE_CONFIG": "", name: text})
    except SettingsError as error:
        assert error.hint
