"""What was measured so far, on disk: a crash or Ctrl-C costs the run under way and nothing else.

One file per run in results/raw/: a line of JSON, then the samples, gzipped; written aside and renamed. Results of
another build are never mixed in: `build.json` names the sources that they belong to.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import shutil
import sys
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

import greenlane
from greenlane.demo.rates import JobCost
from greenlane.demo.rows import Run
from greenlane.demo.samples import RunKey, read_samples, write_samples
from greenlane.errors import SettingsError

# Parts of the package whose change does not change what is measured.
_APART = (
    *("cli", "export", "page", "report"),
    *("demo/page", "demo/strips", "demo/runner", "demo/tables", "demo/options", "demo/conclusion"),
)
# Of a run, besides its key and samples.
_KEPT = ("seconds", "cpu_ms", "wall_s", "pss_mb", "others_cores")


class Store:
    """The folder of one proof.

    Args:
        folder: made when missing.
        settings: what the runs' meaning depends on (seed, seconds); a stored run of other settings is not used.
    """

    def __init__(self, folder: Path, settings: Mapping[str, object]) -> None:
        self._folder = folder
        self._settings = {**settings, "sources": sources_digest(), "python": sys.version}

    def open(self, fresh: bool) -> bool:
        """Prepares the folder; True when it holds earlier results of the same build.

        Raises:
            SettingsError: it holds results of another build or of other settings, and `fresh` is not set.
        """
        mark = self._folder / "build.json"
        if fresh:
            shutil.rmtree(self._folder, ignore_errors=True)
        if mark.exists() and json.loads(mark.read_text()) != self._settings:
            raise SettingsError("results", str(self._folder), "results of this build and these options",
                                "begin again with --fresh", attempted="resume the proof")  # fmt: skip
        resumed = mark.exists()
        self._folder.mkdir(parents=True, exist_ok=True)
        mark.write_text(json.dumps(self._settings, indent=1))
        return resumed

    def load(self, block: str, key: RunKey) -> Run | None:
        """A stored run."""
        path = self._path(block, key)
        if not path.exists():
            return None
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            head = json.loads(next(lines))
            fields = {name: head[name] for name in _KEPT}
            return Run(key=key, samples=read_samples(lines), **fields)

    def save(self, block: str, run: Run) -> None:
        """Stores a run."""
        path = self._path(block, run.key)
        path.parent.mkdir(parents=True, exist_ok=True)
        aside = path.with_suffix(".part")
        head = {name: getattr(run, name) for name in _KEPT}
        with gzip.open(aside, "wt", encoding="utf-8") as out:
            out.write(json.dumps({**head, "key": asdict(run.key)}) + "\n")
            write_samples(run.samples, out)
        os.replace(aside, path)

    def note(self, name: str) -> object | None:
        """A stored JSON value (calibration, overhead rounds); None = not there."""
        path = self._folder / f"{name}.json"
        return json.loads(path.read_text()) if path.exists() else None

    def keep_note(self, name: str, value: object) -> None:
        """Stores a JSON value."""
        aside = self._folder / f"{name}.part"
        aside.write_text(json.dumps(value, indent=1))
        os.replace(aside, self._folder / f"{name}.json")

    def _path(self, block: str, key: RunKey) -> Path:
        return self._folder / block / f"{key.utilisation_frac:g}-{key.contender}-{key.repetition}.csv.gz"


def sources_digest() -> str:
    """A digest of the installed package: every file that a measured process or the load runs."""
    root = Path(greenlane.__file__).parent
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*")):
        name = path.relative_to(root).as_posix()
        if path.suffix in (".py", ".so") and not name.startswith(_APART):
            digest.update(name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


def costs_as_json(costs: Mapping[str, JobCost]) -> dict[str, dict[str, float | str]]:
    """Calibrated costs as `note` keeps them."""
    return {name: asdict(cost) for name, cost in costs.items()}


def costs_from_json(value: object) -> dict[str, JobCost]:
    """The inverse."""
    assert isinstance(value, dict)
    return {name: JobCost(**cost) for name, cost in value.items()}
