"""Models that cannot be used: said at once and everywhere, and no burden to those beside them."""

import json
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from refloat.testing.client import Answer
from refloat.testing.harness import Server, ServerEndedError
from refloat.testing.patience import eventually

pytestmark = [pytest.mark.process, pytest.mark.engine]

TINY = Path(__file__).parents[1] / "data" / "tiny-llm"
ErrorOf = Callable[[Answer], dict[str, Any]]
StartServer = Callable[..., Server]


def copy_of(folder: Path) -> Path:
    """The tiny model, to be broken."""
    shutil.copytree(TINY, folder)
    return folder


def without_tokenizer(folder: Path) -> None:
    for path in [*folder.glob("openvino_tokenizer.*"), *folder.glob("openvino_detokenizer.*")]:
        path.unlink()
    (folder / "tokenizer.json").unlink()


def with_truncated_weights(folder: Path) -> None:
    weights = folder / "openvino_model.bin"
    weights.write_bytes(weights.read_bytes()[:1000])


def with_wrong_config(folder: Path) -> None:
    (folder / "config.json").write_text("[]")


def without_weights(folder: Path) -> None:
    (folder / "openvino_model.bin").unlink()


def with_empty_network(folder: Path) -> None:
    (folder / "openvino_model.xml").write_text("")


BREAKS: list[Callable[[Path], None]] = [
    without_tokenizer,
    with_truncated_weights,
    with_wrong_config,
    without_weights,
    with_empty_network,
]
NAMES = [change.__name__ for change in BREAKS]


def with_template(folder: Path, text: str | None) -> None:
    """Another chat template, or none at all."""
    (folder / "chat_template.jinja").unlink()
    config = json.loads((folder / "tokenizer_config.json").read_text())
    config.pop("chat_template", None)
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    for graph in folder.glob("openvino_*tokenizer.xml"):
        network = graph.read_text(encoding="utf-8")
        network = re.sub(r'<chat_template value="[^"]*" />', "", network)
        assert "chat_template" not in network
        graph.write_text(network, encoding="utf-8")
    if text is not None:
        (folder / "chat_template.jinja").write_text(text)


@pytest.fixture(scope="module")
def mixed_server(
    start_server: StartServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    root = tmp_path_factory.mktemp("models")
    models = [{"model": "scripted", "name": "good"}]
    for change in BREAKS:
        change(copy_of(root / change.__name__))
        models.append({"model": str(root / change.__name__), "name": change.__name__})
    for name, text in (("no_template", None), ("bad_template", "{% for m in %}")):
        with_template(copy_of(root / name), text)
        models.append({"model": str(root / name), "name": name})
    with start_server(config={"models": models}) as server:
        yield server


@pytest.fixture
def mixed(mixed_server: Server) -> Iterator[Server]:
    yield mixed_server
    assert mixed_server.client().chat("Hi", model="good").status == 200


def status_of(server: Server, model: str) -> dict[str, Any]:
    """What the status route says of a model, once it is no longer loading."""
    client = server.client()

    def settled() -> dict[str, Any] | None:
        found = client.get("/health").json()["models"]
        (one,) = (m for m in found if m["name"] == model)
        return one if one["state"] != "loading" else None

    return eventually(settled, what=f"{model} to be settled")


@pytest.mark.case(2, 23)
@pytest.mark.parametrize("name", NAMES)
def test_unusable_model_is_failed_with_its_reason_everywhere(
    mixed: Server, error_of: ErrorOf, name: str
) -> None:
    client = mixed.client()
    status = status_of(mixed, name)
    assert status["state"] == "failed"
    assert status["reason"]
    answer = client.chat("Hi", model=name)
    assert answer.status == 503
    error = error_of(answer)
    assert error["code"] == "model_failed"
    assert status["reason"] in error["message"]
    states = client.get("/v1/config").json()[name]["model_version_status"]
    assert states[0]["status"]["error_code"] == "FAILED_PRECONDITION"
    assert client.get(f"/v2/models/{name}/ready").status == 503
    assert client.get("/v2/health/ready").status == 200


@pytest.mark.case(23)
def test_server_without_any_usable_model_ends_with_its_own_exit_code(
    start_server: StartServer, tmp_path: Path
) -> None:
    folder = copy_of(tmp_path / "broken")
    with_truncated_weights(folder)
    with pytest.raises(ServerEndedError, match="exit code 3"):
        start_server(arguments=[str(folder)])


@pytest.mark.case(91)
@pytest.mark.parametrize("name", ["no_template", "bad_template"])
def test_model_without_a_usable_template_completes_but_says_why_it_cannot_chat(
    mixed: Server, error_of: ErrorOf, name: str
) -> None:
    client = mixed.client()
    status = status_of(mixed, name)
    assert status["state"] == "ready"
    assert status["chat_unavailable"]
    answer = client.chat("Hi", model=name)
    assert answer.status == 503
    error = error_of(answer)
    assert error["code"] == "chat_template_unavailable"
    assert status["chat_unavailable"] in error["message"]
    completion = {"model": name, "prompt": "Hi", "max_tokens": 4}
    assert client.post("/v1/completions", completion).status == 200
