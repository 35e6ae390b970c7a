"""Trains the ranking model on the world's own lessons: `python -m feed.train`, or code that needs a model that is not
kept.

Features come from the code that serves (native.features on packed records); the model is kept under the fingerprint of
that code, so a change of features trains again. Cost of a training: about 15 s of two cores.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final, TextIO

import numpy as np
from numpy.typing import NDArray

from feed.model import native_fingerprint
from feed.record import Records
from greenlane_tools.lab.ending import plainly

from . import native
from .features import FEATURES, features_of
from .model import FINGERPRINT_KEY, ModelFiles, load_forest
from .record import unpack
from .user import User
from .world.catalogue import NOW_S
from .world.lessons import Lesson, candidates_of, grades, lessons, ndcg, utility
from .world.world import ITEMS, SEED, World, kept, name

TREES: Final = 500
DEPTH: Final = 6
# Users whose lessons are learned, and others for judging the model. NDCG by users x items: 200 x 200 0.902, 300 x
# 300 0.916, 600 x 100 0.922, 600 x 200 0.929: users teach more than items, and twice the time brings 0.007.
LEARNED: Final = range(1_000_001, 1_000_601)
CANDIDATES_EACH: Final = 100
JUDGED: Final = range(2_000_001, 2_000_031)
# The plain Python form is timed on this many lessons only: it takes 60 times as long.
_TIMED: Final = 40
# To be raised with any change of training that neither names nor fingerprint show.
_EDITION: Final = 1


@dataclass(frozen=True)
class Report:
    """What training saw.

    Args:
        rows: items in all lessons. features_ms, features_python_ms: time for the features of 3,000 items, by the code
        that serves and by plain Python. features_s: time for the features of all lessons. fit_s: time of CatBoost's
        training. ndcg: mean NDCG@100 over the judged users, of the model, of the order by popularity, of the
        candidates' own order. error_bound: of the evaluator in Rust.
    """

    rows: int
    features_ms: float
    features_python_ms: float
    features_s: float
    fit_s: float
    ndcg: dict[str, float]
    error_bound: float


def trained(
    folder: Path,
    seed: int = SEED,
    items: int = ITEMS,
    said: Callable[[str], None] = lambda line: None,
    trees: int = TREES,
    users: Sequence[int] = LEARNED,
) -> ModelFiles:
    """The model of a world, from `folder`, trained there first if need be; `said` is told that it takes a while."""
    size = f"t{trees}-u{len(users)}-e{_EDITION}"
    path = folder / f"model-{name(seed, items)}-{native_fingerprint()}-{size}"
    files = ModelFiles(path)
    if files.report.exists():
        return files
    said("training the ranking model: about 15 s, kept for the next run")
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    shutil.rmtree(aside, ignore_errors=True)
    aside.mkdir(parents=True)
    train(kept(folder, seed, items), ModelFiles(aside), trees, users)
    try:
        aside.rename(path)
    except OSError:
        # Somebody else was quicker.
        shutil.rmtree(aside)
    return files


def train(world: World, files: ModelFiles, trees: int = TREES, users: Sequence[int] = LEARNED) -> Report:
    """Learns from these users' lessons and writes the model's files."""
    from catboost import CatBoost, Pool

    learned = list(lessons(world, users, CANDIDATES_EACH))
    began = time.perf_counter()
    columns = np.concatenate([columns_of(lesson) for lesson in learned])
    features_s = time.perf_counter() - began
    groups = np.repeat(np.arange(len(learned)), [len(lesson.ids) for lesson in learned])
    labels = np.concatenate([lesson.label for lesson in learned])
    model = CatBoost(
        {
            "iterations": trees,
            "depth": DEPTH,
            # Differences between one user's items are what is learned; a pairwise loss (YetiRank) takes five times as
            # long.
            "loss_function": "QueryRMSE",
            "learning_rate": 0.06,
            "nan_mode": "Min",
            "random_seed": world.seed,
            # Sums of floats depend on the number of threads: one world gives one model on each machine.
            "thread_count": 2,
            "verbose": False,
            "allow_writing_files": False,
            "metadata": {FINGERPRINT_KEY: native_fingerprint()},
        }
    )
    began = time.perf_counter()
    model.fit(Pool(columns, labels, group_id=groups, feature_names=list(FEATURES)))
    fit_s = time.perf_counter() - began
    model.save_model(str(files.cbm))
    model.save_model(str(files.json), format="json")
    forest = load_forest(files)
    native_ms, python_ms = features_times(learned[:_TIMED])
    report = Report(len(labels), native_ms, python_ms, features_s, fit_s, judged(world, forest), forest.error_bound)
    files.report.write_text(json.dumps(asdict(report), indent=1))
    return report


def columns_of(lesson: Lesson) -> NDArray[np.float32]:
    """A lesson's features, (n, 60), by the code that serves."""
    return np.asarray(native.features(lesson.records.tobytes(), lesson.user.packed(), lesson.now_s).columns)


def features_times(learned: Sequence[Lesson]) -> tuple[float, float]:
    """Milliseconds for 3,000 rows: by the code that serves, from packed records; by plain Python, from dicts."""
    rows = sum(len(lesson.ids) for lesson in learned)
    began = time.perf_counter()
    for lesson in learned:
        columns_of(lesson)
    native_s = time.perf_counter() - began
    unpacked = [[unpack(record.tobytes()) for record in lesson.records] for lesson in learned]
    began = time.perf_counter()
    for lesson, items in zip(learned, unpacked, strict=True):
        features_of(items, lesson.user, lesson.now_s)
    return 3e6 * native_s / rows, 3e6 * (time.perf_counter() - began) / rows


def judged(world: World, forest: native.Forest, users: Sequence[int] = JUDGED) -> dict[str, float]:
    """Mean NDCG@100 over users whom training did not see: of the model and of what one has without one."""
    found: dict[str, list[float]] = {"model": [], "popularity": [], "candidates": []}
    for number in users:
        user = world.people.user(number)
        records = world.records_of(candidates_of(world, user))
        relevance = grades(utility(records, user))
        found["model"].append(ndcg(relevance[_ranked(records, user, forest)]))
        found["popularity"].append(
            ndcg(relevance[np.argsort(-records["impressions_30d"].astype(np.int64), kind="stable")])
        )
        found["candidates"].append(ndcg(relevance))
    return {which: float(np.mean(values)) for which, values in found.items()}


def _ranked(records: Records, user: User, forest: native.Forest) -> NDArray[np.uint32]:
    return np.asarray(native.rank(records.tobytes(), user.packed(), NOW_S, forest).places)


def main(argv: Sequence[str] | None = None) -> None:
    """Trains if need be and prints what training saw."""
    parser = argparse.ArgumentParser(prog="python -m feed.train", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--folder", type=Path, default=Path("out/feed"), help="where worlds and models are kept")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--items", type=int, default=ITEMS)
    given = parser.parse_args(argv)
    with plainly("training the ranking model", sys.stderr):
        files = trained(given.folder, given.seed, given.items, lambda line: _said(sys.stderr, line))
    _said(sys.stdout, f"{files.folder}\n{files.report.read_text()}")


def _said(where: TextIO, line: str) -> None:
    where.write(line + "\n")
    where.flush()


if __name__ == "__main__":
    main()
