"""A real worker killed in mid-stream with a loaded spare beside it: the text is the undisturbed one."""

from pathlib import Path
from typing import Any

import pytest

from refloat.testing.exact import EXACT_PROPERTIES
from refloat.testing.harness import Server
from refloat.testing.patience import eventually
from tests.engine.resume.servers import complete, cuts, model, same

pytestmark = [pytest.mark.engine, pytest.mark.process, pytest.mark.timeout(120)]


def workers(server: Server) -> dict[str, dict[str, Any]]:
    """The workers of `m`, by role."""
    found = server.client().get("/health").json()["models"][0]["workers"]
    return {worker["role"]: worker for worker in found if worker["state"] == "ready"}


def test_text_is_identical_when_a_spare_takes_over(tmp_path: Path) -> None:
    at = 23
    kill = {"at": "token", "token": at, "kind": "kill", "match_tokens": [1001]}
    settings = model("m", "tiny-llm", [kill], plugin_config=EXACT_PROPERTIES, spares=1)
    env = {"REFLOAT_HOME": str(tmp_path)}
    with Server.start(config={"models": [settings]}, env=env) as server:
        eventually(lambda: len(workers(server)) == 2, what="a spare")
        before = workers(server)
        killed = complete(
            server.client(), "m", 1, stream=True, stream_options={"include_usage": True}
        )
        assert cuts(server, killed.request_id) == [at]
        assert workers(server)["serving"]["id"] == before["spare"]["id"]
        same(killed, complete(server.client(), "m", 1))
