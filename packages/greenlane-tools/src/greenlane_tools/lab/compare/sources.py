"""What an argument of the command names: a result folder, a contender within one, a file of samples, a recording."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from greenlane.errors import SettingsError
from greenlane.settings.refusal import nearest
from greenlane_tools.lab.samples import Samples
from greenlane_tools.reader.recording import SUFFIX, open_recording
from greenlane_tools.reader.rows import Job

if TYPE_CHECKING:
    import pyarrow


# --- What is compared: the runs of one side by cell, and where they come from.


CONTENDER = "contender"
REPETITION = "repetition"
CELL = "cell"

#: What was varied, by name: (("utilisation_frac", 0.7),). Runs of one cell differ in their repetition alone.
Cell = tuple[tuple[str, str | int | float], ...]


@dataclass(frozen=True)
class Run:
    """One repetition, or one recording."""

    key: Mapping[str, str | int | float]
    # By scheduled send.
    samples: Samples
    # Of the load, in s; None = until the last scheduled send.
    seconds: float | None = None
    # Of the contender's processes; None = not measured.
    cpu_ms: float | None = None
    # Cores that processes which are no part of the run took meanwhile.
    others_cores: float = 0.0
    # What the load generator says of a schedule that it did not keep; "" = nothing.
    late: str = ""

    @property
    def contender(self) -> str:
        """Whose run it is; "" = unknown."""
        return str(self.key.get(CONTENDER, ""))

    @property
    def repetition(self) -> int:
        """Its number within the cell."""
        return int(self.key.get(REPETITION, 0))

    def cell(self, *, with_contender: bool) -> Cell:
        """What it is one repetition of."""
        left_out = {REPETITION} if with_contender else {REPETITION, CONTENDER}
        # A cell's name may begin with its contender's, which is no part of what was varied.
        key = dict(self.key)
        if CELL in key:
            key[CELL] = str(key[CELL]).removeprefix(f"{self.contender}-")
        return tuple((name, value) for name, value in key.items() if name not in left_out)


@dataclass(frozen=True)
class Subject:
    """One side."""

    # As it is printed.
    name: str
    # Folder or file: what two sides of one origin have measured, they have measured in turn.
    origin: str
    runs: Sequence[Run]
    # As the origin states it; empty = it does not.
    environment: Mapping[str, object] = field(default_factory=dict)
    # By endpoint, where the origin says it.
    deadlines_ms: Mapping[str, float] = field(default_factory=dict)
    # What the origin itself warns of.
    notes: Sequence[str] = ()

    def contenders(self) -> list[str]:
        """In order of appearance."""
        return list(dict.fromkeys(run.contender for run in self.runs))

    def of(self, contender: str) -> Subject:
        """That contender's runs alone."""
        return replace(self, runs=[run for run in self.runs if run.contender == contender])

    def cells(self, *, with_contender: bool) -> dict[Cell, list[Run]]:
        """Runs by cell, by repetition."""
        found: dict[Cell, list[Run]] = {}
        for run in sorted(self.runs, key=lambda run: run.repetition):
            found.setdefault(run.cell(with_contender=with_contender), []).append(run)
        return found


def said(cell: Cell) -> str:
    """A cell in words: "gevent, 0.7 CPU"; "" = nothing was varied."""
    return ", ".join(filter(None, (_said(name, value) for name, value in cell)))


def _said(name: str, value: str | int | float) -> str:
    match name, value:
        # A cell's name repeats what its other columns say.
        case ("cell", _) | (_, "") | ("utilisation_frac", 0) | ("rate_factor", 1):
            return ""
        case ("utilisation_frac", float()):
            return f"{value:g} CPU"
        case ("rate_factor", float()):
            return f"{value:g} × the rate"
        case ("contender", _):
            return str(value)
    return f"{name} {value}"


ATTEMPT: Final = "compare results"
_TABLES: Final = (".parquet", ".csv", ".csv.gz")
_FOLDER: Final = "a result folder of `greenlane lab run`, a file of samples, or a recording"


def subjects(arguments: Sequence[str]) -> list[Subject]:
    """One side each, with names that differ.

    Raises:
        SettingsError: one is not there, is none, is damaged, or is empty.
    """
    # One folder that is named several times, with its contenders, is read once.
    read: dict[Path, Subject] = {}
    found = [_subject(argument, read) for argument in arguments]
    return [replace(subject, name=name) for subject, name in zip(found, _names(arguments, found), strict=True)]


def _subject(argument: str, read: dict[Path, Subject]) -> Subject:
    path, contender = _parted(argument)
    if path not in read:
        read[path] = _read(path)
    subject = read[path]
    if not contender:
        return subject
    known = subject.contenders()
    if contender not in known:
        hint = nearest(contender, known) or f"it has {', '.join(filter(None, known)) or 'none'}"
        raise SettingsError("contender", contender, f"a contender of {path}", hint, attempted=ATTEMPT)
    return subject.of(contender)


def _parted(argument: str) -> tuple[Path, str]:
    """Path and contender; a path that exists is taken as it is, whatever colons it has."""
    path = Path(argument)
    if path.exists() or ":" not in argument:
        return path, ""
    before, _, contender = argument.rpartition(":")
    return Path(before), contender


def _read(path: Path) -> Subject:
    if not path.exists():
        hint = "`greenlane lab run SCENARIO` writes such a folder; FOLDER:CONTENDER names one of its contenders"
        raise SettingsError("result", str(path), "a folder or file that exists", hint, attempted=ATTEMPT)
    if path.is_dir() and ((path / "samples").is_dir() or (path / "run.json").exists()):
        subject = _of_folder(path)
    elif path.is_dir() and any(path.glob("*.parquet")):
        subject = Subject(path.name, str(path), list(_of_tables(sorted(path.glob("*.parquet")))))
    elif path.suffix == SUFFIX or (path.is_dir() and any(path.glob(f"*{SUFFIX}"))):
        recording = open_recording(path)
        about = recording.processes[0].about if recording.processes else {}
        subject = Subject(path.name, str(path), [run_of_jobs(recording)], about, notes=recording.notes)
    elif path.is_file() and path.name.endswith(_TABLES):
        subject = Subject(path.name, str(path), list(_of_tables([path])))
    else:
        raise SettingsError("result", str(path), _FOLDER, "name the folder behind `--out`", attempted=ATTEMPT)
    if not any(len(run.samples) for run in subject.runs):
        hint = "the run was ended before its first cell was finished: start it again, and it resumes"
        raise SettingsError("result", str(path), "at least one request", hint, attempted=ATTEMPT)
    return subject


def _of_folder(path: Path) -> Subject:
    about = _json(path / "run.json")
    done = about.get("done")
    runs = list(_of_tables(sorted((path / "samples").glob("*.parquet")), done if isinstance(done, Mapping) else {}))
    environment, notes = about.get("environment"), about.get("warnings")
    return Subject(
        path.resolve().name,
        str(path.resolve()),
        runs,
        environment if isinstance(environment, Mapping) else {},
        _deadlines_ms(about.get("scenario")),
        [str(note) for note in notes] if isinstance(notes, list) else (),
    )


def _of_tables(paths: Iterable[Path], measured: Mapping[str, object] = MappingProxyType({})) -> Iterator[Run]:
    """The runs in files; `measured`: what was measured around a run, by its file's name."""
    for path in paths:
        facts = measured.get(path.stem)
        try:
            yield from (_with(run, facts) for run in runs_of_table(table_of(path)))
        except OSError as error:
            rule = f"a file that can be read ({error.strerror or 'damaged'})"
            raise SettingsError("file", str(path), rule, "copy it again, or leave it out", attempted=ATTEMPT) from None
        except ValueError as error:
            rule = f"a whole file of samples ({error})"
            hint = "`greenlane lab run` writes such files: was it cut, or made by another tool?"
            raise SettingsError("file", str(path), rule, hint, attempted=ATTEMPT) from None


def _with(run: Run, facts: object) -> Run:
    if not isinstance(facts, Mapping):
        return run
    numbers = {name: facts.get(name) for name in ("seconds", "cpu_ms", "others_cores")}
    known = {name: float(value) for name, value in numbers.items() if isinstance(value, int | float)}
    return Run(run.key, run.samples, late=str(facts.get("late") or ""), **known)


def _json(path: Path) -> Mapping[str, object]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        hint = "copy the folder again, or name its samples folder to compare without it"
        raise SettingsError("file", str(path), f"a JSON object ({error})", hint, attempted=ATTEMPT) from None
    return found if isinstance(found, dict) else {}


def _deadlines_ms(scenario: object) -> dict[str, float]:
    """Deadlines by request class, from the scenario's text; none when that cannot be read."""
    try:
        classes = tomllib.loads(scenario).get("class", []) if isinstance(scenario, str) else []
    except tomllib.TOMLDecodeError:
        return {}
    named = [each for each in classes if isinstance(each, Mapping) and "name" in each]
    return {str(each["name"]): float(each["deadline_ms"]) for each in named if each.get("deadline_ms")}


def _names(arguments: Sequence[str], found: Sequence[Subject]) -> list[str]:
    """As short as they can be: contenders within one folder, folders with their contender, else what was typed."""
    contenders = [_parted(argument)[1] for argument in arguments]
    if all(contenders) and len({subject.origin for subject in found}) == 1:
        names = contenders
    else:
        names = [subject.name + (f":{one}" if one else "") for subject, one in zip(found, contenders, strict=True)]
    if len(set(names)) == len(names):
        return names
    typed = list(arguments)
    return typed if len(set(typed)) == len(typed) else [f"{name} ({place})" for place, name in enumerate(typed, 1)]


# --- Runs from recordings: a job's latency is from its arrival at the process, not from the client's scheduled send.


class Recording(Protocol):
    """What is needed of a recording."""

    @property
    def jobs(self) -> Sequence[Job]:
        """Jobs that ended."""


def run_of_jobs(recording: Recording) -> Run:
    """All jobs as one run; endpoints are routes."""
    jobs = sorted(recording.jobs, key=lambda job: job.arrival_ns)
    start = jobs[0].arrival_ns if jobs else 0
    routes = tuple(dict.fromkeys(job.route for job in jobs))
    number = {route: place for place, route in enumerate(routes)}
    arrival = np.array([job.arrival_ns - start for job in jobs], np.int64)
    done = np.array([job.end_ns - start for job in jobs], np.int64)
    samples = Samples(
        routes,
        stream=np.array([number[job.route] for job in jobs], np.uint16),
        scheduled_ns=arrival,
        # Nobody was late to send: recordings do not see the client.
        sent_ns=arrival,
        first_byte_ns=done,
        done_ns=done,
        status=np.array([_status(job.status) for job in jobs], np.int16),
        worker=np.array([job.process for job in jobs], np.int32),
        work_ms=np.zeros(len(jobs)),
    )
    return Run({}, samples)


def _status(status: int) -> int:
    """HTTP's, with redirections as answers; jobs that are no requests have 0 for well and 1 for failed."""
    if status == 0 or 200 <= status < 400:
        return 200
    return status if status >= 400 else 500


# --- Runs from tables of samples: Parquet as `samples.keep` writes it, CSV with the same columns.

_NEEDED: Final = ("endpoint", "scheduled_ns", "done_ns", "status")
_TYPES: Final = {
    "scheduled_ns": np.int64, "sent_ns": np.int64, "first_byte_ns": np.int64, "done_ns": np.int64,
    "status": np.int16, "worker": np.int32, "work_ms": np.float64,
}  # fmt: skip


def table_of(path: Path) -> pyarrow.Table:
    """The file as a table.

    Raises:
        OSError: it cannot be read.
        ValueError: it is no table, is damaged, or has other columns.
    """
    import pyarrow
    import pyarrow.csv
    import pyarrow.parquet

    try:
        if path.name.endswith((".csv", ".csv.gz")):
            table = pyarrow.csv.read_csv(path)
        else:
            # A file object: no scheme, glob or partition is read into the name.
            with path.open("rb") as file:
                table = pyarrow.parquet.read_table(file)
    except pyarrow.ArrowException as error:
        raise ValueError(str(error).partition("\n")[0]) from None
    if missing := [name for name in _NEEDED if name not in table.column_names]:
        raise ValueError(f"columns {', '.join(missing)} are missing")
    return table


def runs_of_table(table: pyarrow.Table) -> Iterator[Run]:
    """The runs in a table: rows whose other columns are alike.

    Raises:
        ValueError: a column's values are not what its name says.
    """
    if not len(table):
        return
    keys = [name for name in table.column_names if name not in _TYPES and name != "endpoint"]
    codes = [_coded(table, name)[1] for name in keys] or [np.zeros(len(table), np.int64)]
    firsts, which = np.unique(np.stack(codes), axis=1, return_index=True, return_inverse=True)[1:]
    whole = _samples(table)
    for number in np.argsort(firsts):
        samples = whole.chosen(which.reshape(-1) == number)
        # Stretches of time are cut out of them.
        order = np.argsort(samples.scheduled_ns, kind="stable")
        columns = {field.name: getattr(samples, field.name) for field in fields(Samples) if field.name != "streams"}
        ordered = Samples(samples.streams, **{name: values[order] for name, values in columns.items()})
        yield Run({name: table[name][int(firsts[number])].as_py() for name in keys}, ordered)


def _samples(table: pyarrow.Table) -> Samples:
    names, stream = _coded(table, "endpoint")
    columns: dict[str, Any] = {name: _column(table, name) for name in _TYPES}
    return Samples(tuple(map(str, names)), stream=stream.astype(np.uint16), **columns)


def _coded(table: pyarrow.Table, name: str) -> tuple[list[object], NDArray[np.int64]]:
    """A column's different values, and which one each row has."""
    column = table[name].combine_chunks().dictionary_encode()
    if table[name].null_count:
        raise ValueError(f"column {name} has empty values")
    if hasattr(column, "combine_chunks"):
        column = column.combine_chunks()
    return column.dictionary.to_pylist(), column.indices.to_numpy().astype(np.int64)


def _column(table: pyarrow.Table, name: str) -> NDArray[np.generic]:
    kind = _TYPES[name]
    if name not in table.column_names:
        return np.zeros(len(table), kind)
    if table[name].null_count:
        raise ValueError(f"column {name} has empty values")
    try:
        found: NDArray[np.generic] = table[name].to_numpy().astype(kind)
        return found
    except (ValueError, TypeError):
        raise ValueError(f"column {name} holds {table[name].type}, not numbers") from None
