"""Shared by all tests: the default model, fetched and converted once for every run and process."""

from pathlib import Path

import pytest

from refloat.config.schema import ModelConfig
from refloat.models.resolve import resolve

ROOT = Path(__file__).parents[1]


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
