"""What an argument of the command names: a result folder, a contender within one, a file of samples, a recording."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Final

from greenlane.errors import SettingsError
from greenlane.settings.refusal import nearest
from greenlane_tools.lab.compare.recorded import run_of_jobs
from greenlane_tools.lab.compare.subject import Run, Subject
from greenlane_tools.lab.compare.tables import runs_of_table, table_of
from greenlane_tools.reader.recording import SUFFIX, open_recording

__all__ = ["ATTEMPT", "subjects"]

ATTEMPT: Final = "compare results"
_TABLES: Final = (".parquet", ".csv", ".csv.gz")
_FOLDER: Final = "a result folder of `greenlane lab run`, a file of samples, or a recording"


def subjects(arguments: Sequence[str]) -> list[Subject]:
    """One side each, named so that they can be told apart.

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
        hint = "the run was ended before its first cell was finished: start it again, it goes on where it was"
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
