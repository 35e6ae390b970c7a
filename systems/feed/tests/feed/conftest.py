"""One small site for all system tests: real Redis servers, real model services, a model of few trees."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from feed.first_level.server import Law
from feed.model import ModelFiles
from feed.running import Running, started
from feed.site import Plan, Site
from feed.train import train
from feed.world.world import World, kept, made

# Enough that a user has some 2,000 candidates, few enough that filling the stores takes 1 s.
ITEMS = 3_000
USERS = 40
# Generous: a busy machine must not degrade an answer that the test did not degrade.
DEADLINE_MS = 20_000.0


@pytest.fixture(scope="session")
def world() -> World:
    return made(seed=1, items=ITEMS)


@pytest.fixture(scope="session")
def model_of_few_trees(world: World, tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("catboost", reason="CatBoost has no wheel for this CPython")
    files = ModelFiles(tmp_path_factory.mktemp("model"))
    train(world, files, trees=30, users=range(1, 31))
    return files.folder


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("feed")


@pytest.fixture(scope="session")
def site(folder: Path, model_of_few_trees: Path) -> Iterator[Site]:
    if shutil.which("redis-server") is None:
        pytest.skip("no redis-server")
    kept(folder, items=ITEMS)
    with Site(Plan(folder, items=ITEMS, users=USERS, law=Law(1, 2), model=model_of_few_trees)) as running:
        running.addresses.write(folder / "site.json")
        yield running


@pytest.fixture(scope="session")
def serve(site: Site, folder: Path) -> Iterator[Callable[[str], Running]]:
    """Starts the service in a variant, once for all tests; all end with the session."""
    running: dict[str, Running] = {}

    def serving(variant: str) -> Running:
        if variant == "native-go" and shutil.which("go") is None:
            pytest.skip("Go is not installed: scripts/toolchain go names the command")
        if variant not in running:
            log = folder / f"{variant}.log"
            # Also of questions that name none, as pages ask them.
            options = ["--deadline-ms", str(DEADLINE_MS)]
            running[variant] = started(
                variant, folder / "site.json", log, workers=2, deadline_ms=DEADLINE_MS, options=options
            )
        return running[variant]

    yield serving
    for one in running.values():
        os.kill(one.process.pid, signal.SIGTERM)
    for one in running.values():
        one.process.end()


@pytest.fixture
def inline(serve: Callable[[str], Running]) -> Running:
    return serve("inline")
