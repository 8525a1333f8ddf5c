"""Servers that the cases share. Each test gets them through a fixture that, once the test is over,
sends a normal request to every model of the server: a case has passed only if that is answered."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from refloat.testing.client import Answer
from refloat.testing.harness import Server

HERE = Path(__file__).parent
DATA = HERE.parent / "data"

StartServer = Callable[..., Server]

LOOP = {"match": "Loop", "text": "again and again ", "finish": "length"}


def scripted_model(name: str, **settings: Any) -> dict[str, Any]:
    """A scripted model's entry in a configuration."""
    return {"model": "scripted", "name": name, **settings}


SCRIPTED_MODELS = [
    scripted_model("plain", context_length=4096, engine_options={"rules": [LOOP]}),
    # Ten milliseconds a token, and prompts that take time.
    scripted_model("slow", engine_options={"step_s": 0.01, "prefill_s_per_1k": 1.0}),
    scripted_model("narrow", max_num_seqs=1, max_queue=2, engine_options={"step_s": 0.01}),
    # 256 tokens of cache in all.
    scripted_model("small", num_kv_blocks=16, max_num_seqs=4),
]

ENGINE_MODELS = [
    {"model": str(DATA / "tiny-llm"), "name": "tiny-llm"},
    {"model": str(DATA / "tiny-scripted"), "name": "tiny-scripted"},
    {"model": str(DATA / "tiny-hybrid"), "name": "tiny-hybrid"},
    # 256 tokens of cache in all.
    {"model": str(DATA / "tiny-llm"), "name": "tiny-tight", "num_kv_blocks": 8},
]


def still_serves(server: Server) -> None:
    """A normal request to every model that is not failed for good is answered."""
    client = server.client()
    for card in client.get("/v1/models").json()["data"]:
        answer = client.chat("Hi", model=card["id"], max_tokens=4)
        assert answer.status == 200, (card["id"], answer.body, server.log_text())


@pytest.hookimpl(tryfirst=True)  # before the marks are read
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests of one server go to one test process (with `--dist loadgroup`): it is started once."""
    for item in items:
        names: list[str] = getattr(item, "fixturenames", [])
        servers = [name for name in names if name.endswith("_server") and name != "start_server"]
        if servers and item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.xdist_group(servers[0]))


@pytest.fixture(scope="session")
def start_server(tmp_path_factory: pytest.TempPathFactory) -> StartServer:
    """Starts a server whose state is in a folder of the test run."""
    home = tmp_path_factory.mktemp("home")

    def start(**options: Any) -> Server:
        options.setdefault("env", {"REFLOAT_HOME": str(home)})
        return Server.start(**options)

    return start


@pytest.fixture(scope="session")
def scripted_server(start_server: StartServer) -> Iterator[Server]:
    config = {"models": SCRIPTED_MODELS, "server": {"ready_when": "all"}}
    with start_server(config=config) as server:
        yield server


@pytest.fixture(scope="session")
def engine_server(start_server: StartServer) -> Iterator[Server]:
    config = {"models": ENGINE_MODELS, "server": {"ready_when": "all"}}
    with start_server(config=config) as server:
        yield server


@pytest.fixture
def scripted(scripted_server: Server) -> Iterator[Server]:
    """Scripted models: plain, slow, narrow, small."""
    yield scripted_server
    still_serves(scripted_server)


@pytest.fixture
def engine(engine_server: Server) -> Iterator[Server]:
    """Real models: tiny-llm, tiny-scripted, tiny-hybrid, tiny-tight."""
    yield engine_server
    still_serves(engine_server)


@pytest.fixture
def serves() -> Callable[[Server], None]:
    """The check that a server still serves, for tests with one of their own."""
    return still_serves


@pytest.fixture
def error_of() -> Callable[[Answer], dict[str, Any]]:
    """The error object of an answer, its form checked."""

    def error(answer: Answer) -> dict[str, Any]:
        assert answer.status >= 400
        assert answer.headers["content-type"] == "application/json"
        body = answer.json()
        found = body["error"]
        assert set(found) >= {"message", "type", "param", "code"}
        assert found["message"]
        text = answer.body.decode().casefold()
        for inside in (
            ".cpp",
            ".py",
            "/src/",
            "/tmp/",
            str(DATA.parents[1]).casefold(),
            "traceback",
            "exception from",
        ):
            assert inside not in text
        return found

    return error
