"""The ranking model as files: kept by training, loaded by who ranks, refused when trained on other features."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from .fingerprint import native_fingerprint

if TYPE_CHECKING:
    from catboost import CatBoost

    from .native import Forest

# Under this name the fingerprint of the features lies in both files of a model.
FINGERPRINT_KEY: Final = "feed_features"


class SkewError(Exception):
    """A model was trained on other features than this code computes: its scores would mean nothing."""

    #: What a command ends with.
    exit_code = 1


@dataclass(frozen=True)
class ModelFiles:
    """Where a model lies.

    Args:
        folder: `model.cbm` (CatBoost's own) and `model.json` (what our evaluator reads), `report.json` (what training
        saw).
    """

    folder: Path

    @property
    def cbm(self) -> Path:
        """CatBoost's own format."""
        return self.folder / "model.cbm"

    @property
    def json(self) -> Path:
        """CatBoost's JSON format."""
        return self.folder / "model.json"

    @property
    def report(self) -> Path:
        """What training measured, as JSON."""
        return self.folder / "report.json"


def load_catboost(files: ModelFiles) -> CatBoost:
    """The model for CatBoost's `predict`; give it `native.features(…).columns`, which it reads without a copy.

    Raises:
        SkewError: it was trained on other features.
    """
    from catboost import CatBoost

    model = CatBoost()
    model.load_model(str(files.cbm))
    # The wheel's metadata is a mapping with keys() and [] only.
    stored = model.get_metadata()
    _check(files.cbm, stored[FINGERPRINT_KEY] if FINGERPRINT_KEY in stored.keys() else None)
    return model


def load_forest(files: ModelFiles) -> Forest:
    """The model for our evaluator, `native.rank`.

    Raises:
        SkewError: it was trained on other features.
    """
    from .native import Forest

    forest = Forest(files.json.read_bytes())
    _check(files.json, forest.metadata(FINGERPRINT_KEY))
    return forest


def _check(path: Path, trained_on: str | None) -> None:
    here = native_fingerprint()
    if trained_on != here:
        raise SkewError(
            f"loading a model: features of {path.name}={trained_on!r}, expected {here!r}, what this code computes\n"
            "hint: python -m feed.train"
        )
