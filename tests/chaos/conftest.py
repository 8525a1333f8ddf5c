"""Servers for the cells, one for a process of the test run."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from refloat.testing.harness import Server
from tests.chaos.cells import QUICK, model_of, terminal_events

StartServer = Callable[..., Server]


@pytest.fixture(scope="session")
def start_chaos(tmp_path_factory: pytest.TempPathFactory) -> StartServer:
    """Starts a server whose state is in a folder of the test run."""
    home = tmp_path_factory.mktemp("chaos")

    def start(models: list[dict[str, Any]], *, ready: bool = True, **server: Any) -> Server:
        config = {"models": models, "server": {"ready_when": "all", **server}}
        return Server.start(config=config, env={"REFLOAT_HOME": str(home)}, ready=ready)

    return start


@pytest.fixture(scope="session")
def chaos_server(start_chaos: StartServer) -> Iterator[Server]:
    """A model for each phase in service, and `idle`."""
    models = [model_of(phase) for phase in ("queued", "prefill", "decode", "last")]
    models.append({"model": "scripted", "name": "idle", **QUICK})
    with start_chaos(models) as server:
        yield server
        assert all(count == 1 for _, count in terminal_events(server))
