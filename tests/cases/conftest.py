"""Servers that the cases share. Each test gets them through a fixture that, once the test is over,
sends a normal request to every model of the server: a case has passed only if that is answered."""

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from refloat.testing.client import Answer
from refloat.testing.harness import Server

DATA = Path(__file__).parents[1] / "data"

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
    # 512 tokens of cache in all.
    {"model": str(DATA / "tiny-llm"), "name": "tiny-llm", "num_kv_blocks": 16},
    {"model": str(DATA / "tiny-scripted"), "name": "tiny-scripted"},
    {"model": str(DATA / "tiny-hybrid"), "name": "tiny-hybrid"},
]

#: Insists on taking turns, as templates of the Gemma and Mistral families do.
STRICT_TEMPLATE = (
    "{{ bos_token }}{% for m in messages %}"
    "{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}"
    "{% endif %}[{{ m.role }}]{{ m.content | trim }}{% endfor %}"
    "{% if add_generation_prompt %}[assistant]{% endif %}"
)

FAULT_KINDS = ("raise", "oom", "context_fatal", "segv", "kill")
FAULTY_MODELS = [
    # Loses its worker at the fifth token of a prompt that names the fault; once for each kind.
    scripted_model(
        "frail",
        faults=[
            {"at": "token", "token": 5, "kind": kind, "match": f"[{kind}]"} for kind in FAULT_KINDS
        ],
    ),
    # Its bytes 0x80 and 0xC2 come out as 0x7F and 0xC1 where a prompt says so.
    scripted_model(
        "garbling",
        faults=[
            {"at": "token", "token": 1, "kind": "wrong_output", "match": "[tail]", "times": 1000},
            {"at": "token", "token": 0, "kind": "wrong_output", "match": "[lead]", "times": 1000},
        ],
    ),
]

KEY = "sk-one.two/three="


def still_serves(server: Server, api_key: str | None = None) -> None:
    """A normal request to every model is answered."""
    client = server.client(api_key=api_key)
    for card in client.get("/v1/models").json()["data"]:
        answer = client.chat("Hi", model=card["id"], max_tokens=4)
        assert answer.status == 200, (card["id"], answer.body, server.log_text())


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
def engine_server(
    start_server: StartServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("models") / "strict"
    shutil.copytree(DATA / "tiny-llm", folder)
    settings = json.loads((folder / "tokenizer_config.json").read_text())
    (folder / "tokenizer_config.json").write_text(json.dumps({**settings, "bos_token": None}))
    template = folder.parent / "strict.jinja"
    template.write_text(STRICT_TEMPLATE)
    strict = {"model": str(folder), "name": "strict", "chat_template": str(template)}
    config = {"models": [*ENGINE_MODELS, strict], "server": {"ready_when": "all"}}
    with start_server(config=config) as server:
        yield server


@pytest.fixture(scope="session")
def faulty_server(start_server: StartServer) -> Iterator[Server]:
    config = {"models": FAULTY_MODELS, "server": {"ready_when": "all"}}
    with start_server(config=config) as server:
        yield server


@pytest.fixture(scope="session")
def guarded_server(
    start_server: StartServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    file = tmp_path_factory.mktemp("keys") / "keys"
    file.write_text(f"\n{KEY}\r\n\n")  # with what editors and `echo` leave behind a key
    limits = {"max_body_bytes": 2**20, "metrics": False}
    config = {
        "models": [scripted_model("m")],
        "server": {"api_key_file": str(file), **limits},
    }
    with start_server(config=config) as server:
        yield server


@pytest.fixture
def scripted(scripted_server: Server) -> Iterator[Server]:
    """Scripted models: plain, slow, narrow, small."""
    yield scripted_server
    still_serves(scripted_server)


@pytest.fixture
def engine(engine_server: Server) -> Iterator[Server]:
    """Real models: tiny-llm, tiny-scripted, tiny-hybrid, strict."""
    yield engine_server
    still_serves(engine_server)


@pytest.fixture
def faulty(faulty_server: Server) -> Iterator[Server]:
    """Scripted models that go wrong where a prompt asks for it: frail and garbling."""
    yield faulty_server
    still_serves(faulty_server)


@pytest.fixture
def guarded(guarded_server: Server) -> Iterator[Server]:
    """One scripted model, m, behind a key; bodies of one MiB at most, no metrics."""
    yield guarded_server
    still_serves(guarded_server, KEY)


@pytest.fixture
def api_key() -> str:
    """The key of the guarded server."""
    return KEY


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
