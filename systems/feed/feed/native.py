"""The system's native module, built at its first need: features, evaluator, ranking. `_native.pyi` is its manual."""

from __future__ import annotations

import sys
from importlib.machinery import ExtensionFileLoader
from importlib.util import module_from_spec, spec_from_loader
from types import ModuleType
from typing import TYPE_CHECKING

from .build import EXTENSION, build
from .features import FEATURES
from .record import RECORD_BYTES

if TYPE_CHECKING:
    from . import _native

    Array = _native.Array
    Asking = _native.Asking
    Fetched = _native.Fetched
    Forest = _native.Forest
    Matrix = _native.Matrix
    Ranking = _native.Ranking
    Replies = _native.Replies
    candidates = _native.candidates
    features = _native.features
    rank = _native.rank
    ranked = _native.ranked


def _loaded() -> ModuleType:
    loader = ExtensionFileLoader("feed._native", str(build(EXTENSION)))
    spec = spec_from_loader("feed._native", loader)
    assert spec is not None
    module = sys.modules["feed._native"] = module_from_spec(spec)
    loader.exec_module(module)
    if tuple(module.FEATURES) != FEATURES or module.RECORD_BYTES != RECORD_BYTES:
        raise ImportError(
            "loading feed._native: it was built for other features or another record layout, expected those of "
            "features.py and record.py\nhint: python -m feed.layout && python -m feed.build"
        )
    return module


_module = _loaded()
for _name in (
    "Array", "Asking", "Fetched", "Forest", "Matrix", "Ranking", "Replies", "candidates", "features", "rank", "ranked",
):  # fmt: skip
    globals()[_name] = getattr(_module, _name)
