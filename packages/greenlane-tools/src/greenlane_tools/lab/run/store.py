"""The folder of a result: a crash or Ctrl-C costs the run under way and nothing else.

    run.json              the scenario's text, what it ran on, what was calibrated, which runs are planned and done
    samples/RUN.parquet   the requests of one run, kept at once
    rows.json, page.html  written at the end, by the caller

Finished runs are kept when the same scenario runs again on the same build and machine; of another they are refused.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import json
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from greenlane.errors import GreenlaneError, SettingsError
from greenlane_tools.lab import samples
from greenlane_tools.lab.run.faults import Done
from greenlane_tools.lab.run.rows import Closed, Run, Turn
from greenlane_tools.lab.scenario.catalogue import ATTEMPTED
from greenlane_tools.lab.written import trying

_STATE: Final = "run.json"
_SAMPLES: Final = "samples"
# Fields of a `Run` besides its requests that are numbers and words.
_PLAIN: Final = (
    *("seconds", "cpu_ms", "wall_s", "pss_mb", "others_cores", "lag_p99_ms", "late", "began_ns", "clock_step_ms"),
    "loop_ns",
    *("dead", "said"),
)


class Store:
    """The folder of one result.

    Args:
        folder: made when missing.
        identity: what a run's meaning depends on; a stored run of another is not used.
        about: further fields of run.json, for people.
    """

    def __init__(self, folder: Path, identity: Mapping[str, object], about: Mapping[str, object]) -> None:
        self._folder = folder
        self._state: dict[str, Any] = {
            **about, "identity": json.loads(json.dumps(identity)), "notes": {}, "planned": [], "done": {},
        }  # fmt: skip

    def open(self, fresh: bool) -> int:
        """Prepares the folder; gives how many finished runs it holds.

        Args:
            fresh: forget what is there.

        Raises:
            SettingsError: it cannot be written, or holds runs of another scenario, build or machine.
        """
        with trying(self._folder, ATTEMPTED):
            if fresh:
                self._forget()
            (self._folder / _SAMPLES).mkdir(parents=True, exist_ok=True)
            self._resume()
            self._write()
        return len(self._state["done"])

    def samples_folder(self) -> Path:
        """Where requests are kept."""
        return self._folder / _SAMPLES

    def plan(self, turns: Iterable[Turn]) -> None:
        """Says which runs are to be made."""
        self._state["planned"] = [turn.label for turn in turns]
        with self.writing():
            self._write()

    def load(self, turn: Turn) -> Run | None:
        """A finished run; None = it is to be made."""
        facts = self._state["done"].get(turn.label)
        if facts is None:
            return None
        try:
            _, found = samples.read(self._path(turn))
        except (OSError, ValueError):  # somebody cleared up: made again
            return None
        return Run(turn=turn, samples=found, faults=tuple(Done(**one) for one in facts["faults"]),
                   contrast=tuple(Closed(**one) for one in facts["contrast"]), dead=tuple(facts["dead"]),
                   **{name: facts[name] for name in _PLAIN if name != "dead" and name in facts})  # fmt: skip

    def save(self, run: Run) -> None:
        """Keeps a run."""
        with self.writing():
            samples.keep(self._path(run.turn), run.turn.key(), run.samples)
            self._state["done"][run.turn.label] = {
                **{name: getattr(run, name) for name in _PLAIN},
                "faults": [asdict(one) for one in run.faults],
                "contrast": [asdict(one) for one in run.contrast],
            }
            self._write()

    def note(self, name: str) -> Any:
        """A stored JSON value (what was calibrated); None = not there."""
        return self._state["notes"].get(name)

    def keep_note(self, name: str, value: object) -> None:
        """Stores a JSON value."""
        self._state["notes"][name] = value
        with self.writing():
            self._write()

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """What cannot be written there meanwhile becomes a GreenlaneError that names the folder."""
        try:
            yield
        except OSError as error:
            raise GreenlaneError(
                ATTEMPTED, name="--out", value=str(self._folder),
                rule=f"a folder that can be written ({error.strerror or error})",
                hint="free some space there; finished runs are kept, and the same command resumes",
            ) from None  # fmt: skip

    def _path(self, turn: Turn) -> Path:
        return self._folder / _SAMPLES / f"{turn.label}.parquet"

    def _forget(self) -> None:
        shutil.rmtree(self._folder / _SAMPLES, ignore_errors=True)
        (self._folder / _STATE).unlink(missing_ok=True)

    def _resume(self) -> None:
        path = self._folder / _STATE
        if not path.exists():
            return
        try:
            before = json.loads(path.read_text("utf-8"))
            differs = _differing(before["identity"], self._state["identity"])
            kept = {name: before[name] for name in ("notes", "done")}
        except (ValueError, KeyError, TypeError):
            differs, kept = "run.json cannot be read", {}
        if differs:
            rule = f"results of this scenario, build and machine ({differs})"
            hint = "--fresh forgets what is there; another --out keeps it"
            raise SettingsError("--out", str(self._folder), rule, hint, attempted=ATTEMPTED)
        self._state |= kept

    def _write(self) -> None:
        part = self._folder / f".{_STATE}.part"
        part.write_text(json.dumps(self._state, indent=1) + "\n", encoding="utf-8")
        os.replace(part, self._folder / _STATE)


def _differing(before: Mapping[str, object], now: Mapping[str, object]) -> str:
    names = [name for name in now if before.get(name) != now[name]]
    return "" if not names else f"{', '.join(names)} differ{'s' if len(names) == 1 else ''}"


# --- A digest of the installed packages: what a measured process or the load runs.

# What of each package runs while something is measured: a change of the rest does not change a result.
_MEASURED: Final = {
    "greenlane": ("*.so", "*.py", "[!c]*/**/*.py"),
    "greenlane_serve": ("*.py", "[!c]*/**/*.py"),
    "greenlane_tools": ("*.so", "demo/*.py", "lab/load/*.py", "lab/run/relay.py", "lab/run/server.py"),
}


def digest(*extra: bytes) -> str:
    """Sixteen digits of the packages' files that matter, and of `extra`."""
    found = hashlib.sha256()
    for package, patterns in _MEASURED.items():
        spec = importlib.util.find_spec(package)
        for folder in (spec.submodule_search_locations or ()) if spec else ():
            for path in sorted({path for pattern in patterns for path in Path(folder).glob(pattern)}):
                found.update(f"{package}/{path.relative_to(folder)}".encode() + b"\0" + path.read_bytes())
    for part in extra:
        found.update(part)
    return found.hexdigest()[:16]
