"""`compiled`: the whole service in Rust (native/service), the bound that a rewrite reaches; only its start is Python.

It has the fingerprint of the model checked here, before it starts: the binary itself knows no Python to compare with.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import NoReturn

from .model import ModelFiles, load_forest
from .native import SERVICE, build
from .site import addresses_of

NAME = "compiled"


def serve(addresses: Path, port: int, deadline_ms: float, threads: int = 1) -> NoReturn:
    """Becomes the compiled service: same process, same arguments as the others' `python -m feed.service`.

    Args:
        addresses: the site's file.
        port: where it listens.
        deadline_ms: of requests that bring none.
        threads: of its event loop.

    Raises:
        SkewError: the model was trained on other features.
    """
    program = str(build(SERVICE))
    load_forest(ModelFiles(Path(addresses_of(addresses).model)))
    flags = {"addresses": addresses, "port": port, "deadline-ms": deadline_ms, "threads": threads}
    os.execv(program, [program, *(str(part) for name, value in flags.items() for part in (f"--{name}", value))])
