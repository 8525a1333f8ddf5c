"""Shared by all tests: a home of their own, and the default model, fetched and converted once."""

import gc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from xdist.scheduler import LoadFileScheduling

from refloat.config.schema import ModelConfig
from refloat.models.resolve import resolve

ROOT = Path(__file__).parents[1]

# How long an example takes says how busy the machine is.
hypothesis.settings.register_profile("refloat", deadline=None)
hypothesis.settings.load_profile("refloat")


# Thousands of tests are collected, in each process of the run, and none is garbage before its end.
gc.disable()

#: Tests of these folders share servers beyond their files. Each is up until its process ends, so all of
#: them run in the same one.
SHARING = ("tests/cases/",)


class ByFileOrFolder(LoadFileScheduling):
    """Tests that share a server run in one process."""

    def _split_scope(self, nodeid: str) -> str:
        folders = (folder for folder in SHARING if nodeid.startswith(folder))
        return next(folders, super()._split_scope(nodeid))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> ByFileOrFolder:
    return ByFileOrFolder(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A long version takes as long as it takes, whatever its short one is allowed. What has to be
    fetched comes first, in one process: the others have time enough without it."""
    for item in items:
        if item.get_closest_marker("soak"):
            item.add_marker(pytest.mark.timeout(0), append=False)
    items.sort(key=lambda item: not any(map(item.get_closest_marker, ("smollm2", "fetches"))))


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


@pytest.fixture(scope="session", autouse=True)
def own_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A `$REFLOAT_HOME` for what a test starts without giving it one: never the developer's own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("REFLOAT_HOME", str(tmp_path_factory.mktemp("own-home")))
        yield


@pytest.fixture(scope="session")
def shared_home() -> Path:
    """A `$REFLOAT_HOME` that outlives the run. For tests that need the default model."""
    return ROOT / ".pytest_cache" / "refloat-home"


@pytest.fixture(scope="session")
def smollm2_folder(shared_home: Path) -> Path:
    """The default model's folder with IR. Marks: `smollm2`, and a timeout for the first fetch."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("REFLOAT_HOME", str(shared_home))
        path = resolve(ModelConfig("smollm2")).path
    assert path is not None
    return path
