"""A change of the feature code that would make serving differ from training does not pass unseen."""

from __future__ import annotations

import ast
import copy
import json
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from feed import features as twin
from feed import model
from feed.layout import WRITTEN
from feed.model import (
    FINGERPRINT_KEY,
    FeatureCode,
    ModelFiles,
    SkewError,
    fingerprint,
    load_catboost,
    load_forest,
    native_fingerprint,
)
from feed.record import BY_NAME, unpack
from feed.train import Report, train, trained
from feed.user import User
from feed.world.world import made

_unpacked = cache(unpack)


def of_module(module: ModuleType) -> FeatureCode:
    def code(records: list[bytes], user: User, now_s: int) -> np.ndarray:
        rows = module.features_of(map(_unpacked, records), user, now_s)
        with np.errstate(over="ignore"):
            return np.array(rows, "f4")

    return code


def test_native_code_and_its_twin_have_one_fingerprint() -> None:
    assert native_fingerprint() == fingerprint(of_module(twin))


# --- mutants: the twin with one thing changed

_OTHER: dict[type[ast.operator], ast.operator] = {
    ast.Add: ast.Sub(), ast.Sub: ast.Add(), ast.Mult: ast.Div(), ast.Div: ast.Mult(),
}  # fmt: skip
# Changes that change no number: the first feature's name stands for its field, and so on; and what only Python needs.
_UNTOUCHED = ("FEATURES", "FEATURE_COUNT", "__doc__")


def _mutations(node: ast.AST) -> Iterator[tuple[str, Callable[[ast.AST], None]]]:
    """Each way to change a node, as a name and a function that does it."""
    match node:
        case ast.BinOp(op=op) if type(op) in _OTHER:
            yield (
                f"{type(op).__name__} becomes {type(_OTHER[type(op)]).__name__}",
                lambda at: setattr(at, "op", _OTHER[type(op)]),
            )
        case ast.Constant(value=float(value)):
            yield f"{value} becomes {value * 1.001 + 1e-3}", lambda at: setattr(at, "value", value * 1.001 + 1e-3)
        case ast.Constant(value=str(name)) if name in BY_NAME:
            others = [
                field.name for field in BY_NAME.values() if field.kind == BY_NAME[name].kind and field.name != name
            ]
            if others:
                yield f"{name} becomes {others[0]}", lambda at: setattr(at, "value", others[0])
        case ast.Attribute(attr="log1p"):
            yield "log1p becomes sqrt", lambda at: setattr(at, "attr", "sqrt")
        case ast.IfExp():
            yield "a condition is turned round", _turned_round


def _turned_round(node: ast.AST) -> None:
    assert isinstance(node, ast.IfExp)
    node.test = ast.UnaryOp(ast.Not(), node.test)


def _mutants() -> Iterator[tuple[str, ast.Module]]:
    tree = ast.parse(Path(twin.__file__).read_text())
    bodies = [
        place
        for place, part in enumerate(tree.body)
        if isinstance(part, ast.FunctionDef | ast.ClassDef | ast.AnnAssign)
    ]
    for body in bodies:
        part = tree.body[body]
        if isinstance(part, ast.AnnAssign) and getattr(part.target, "id", "") in _UNTOUCHED:
            continue
        for place, node in enumerate(ast.walk(part)):
            for said, change in _mutations(node):
                mutant = copy.deepcopy(tree)
                change(list(ast.walk(mutant.body[body]))[place])
                yield f"line {getattr(node, 'lineno', 0)}: {said}", ast.fix_missing_locations(mutant)


@pytest.mark.slow
def test_every_mutant_of_the_twin_has_another_fingerprint() -> None:
    rightful = fingerprint(of_module(twin))
    alive, count = [], 0
    for said, mutant in _mutants():
        count += 1
        module = ModuleType("feed.mutant")
        module.__package__ = "feed"
        exec(compile(mutant, "mutant", "exec"), module.__dict__)
        try:
            if fingerprint(of_module(module)) == rightful:
                alive.append(said)
        except (ArithmeticError, ValueError, TypeError, KeyError, AttributeError):
            # A mutant that cannot compute is noticed by anybody.
            continue
    assert count > 100
    assert alive == []


def test_an_exchange_of_two_columns_has_another_fingerprint() -> None:
    code = of_module(twin)
    assert fingerprint(lambda *given: code(*given)[:, ::-1]) != fingerprint(code)


# --- what the fingerprint is for


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> ModelFiles:
    pytest.importorskip("catboost", reason="CatBoost has no wheel for this CPython")
    files = ModelFiles(tmp_path_factory.mktemp("small"))
    train(made(seed=7, items=2_000), files, trees=20, users=range(1, 11))
    return files


@pytest.mark.slow
def test_a_model_trained_on_other_features_is_not_loaded(small: ModelFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    assert load_forest(small).metadata(FINGERPRINT_KEY) == native_fingerprint()
    load_catboost(small)
    monkeypatch.setattr(model, "native_fingerprint", lambda: "0123456789abcdef")
    for load in (load_forest, load_catboost):
        with pytest.raises(
            SkewError, match=r"expected '0123456789abcdef', what this code computes\nhint: python -m feed"
        ):
            load(small)


@pytest.mark.slow
def test_a_model_that_does_not_say_on_what_it_was_trained_is_not_loaded(small: ModelFiles, tmp_path: Path) -> None:
    text = json.loads(small.json.read_bytes())
    del text["model_info"][FINGERPRINT_KEY]
    (tmp_path / "model.json").write_text(json.dumps(text))
    with pytest.raises(SkewError, match=r"features of model\.json=None"):
        load_forest(ModelFiles(tmp_path))


@pytest.mark.slow
def test_training_is_kept_and_beats_what_one_has_without_a_model(tmp_path: Path) -> None:
    told: list[str] = []
    files, again = (trained(tmp_path, 8, 12_000, told.append, trees=100, users=range(1, 81)) for _ in range(2))
    assert files == again and len(told) == 1
    found = Report(**json.loads(files.report.read_text()))
    assert found.ndcg["model"] > 0.8 > 1.3 * found.ndcg["candidates"] > 1.3 * found.ndcg["popularity"]
    assert found.error_bound < 1e-5
    assert sorted(path.name for path in files.folder.iterdir()) == ["model.cbm", "model.json", "report.json"]


def test_native_sources_have_the_declared_layout() -> None:
    for path, text in WRITTEN.items():
        assert path.read_text() == text(), f"{path.name} is out of date: python -m feed.layout"
