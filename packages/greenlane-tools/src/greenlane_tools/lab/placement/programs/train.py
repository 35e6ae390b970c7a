"""Trains the model of the function `catboost`: `python -m greenlane_tools.lab.placement.programs.train FILE`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

from greenlane_tools.lab.placement import work

_TREES: Final = 500
_DEPTH: Final = 6
_SEED: Final = 1


def main(path: str) -> None:
    """Train and write it; the file appears whole."""
    import numpy
    from catboost import CatBoost

    source = numpy.random.default_rng(_SEED)
    values = work.table(_SEED)
    weights = source.normal(size=work.FEATURES)
    logs = numpy.log1p(values)
    wanted = logs @ weights + logs[:, 0] * logs[:, 1] + source.normal(size=work.ITEMS)
    model = CatBoost(
        {
            "iterations": _TREES,
            "depth": _DEPTH,
            "loss_function": "RMSE",
            "random_seed": _SEED,
            "thread_count": 1,
            "allow_writing_files": False,
            "verbose": False,
        }
    )
    model.fit(values, wanted)
    unfinished = Path(f"{path}.part")
    model.save_model(str(unfinished))
    unfinished.replace(path)


if __name__ == "__main__":
    main(sys.argv[1])
