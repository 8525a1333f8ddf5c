"""Cross-field checks, names and key files."""

from pathlib import Path

import pytest

from refloat.config.check import check, is_loopback
from refloat.config.keys import KeyFileError, read_api_keys
from refloat.config.names import locate_model, model_name
from refloat.config.schema import Config, ModelConfig, ServerConfig


def _errors(*models: ModelConfig, server: ServerConfig | None = None) -> str:
    config = Config(
        models=list(models) or [ModelConfig("scripted")], server=server or ServerConfig()
    )
    return "\n".join(check(config).errors)


def test_check_default_configuration_is_clean() -> None:
    findings = check(Config(models=[ModelConfig("scripted")]))
    assert findings.errors == ()
    assert findings.warnings == ()


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "", "192.168.1.5", "gateway.example"])
def test_check_open_host_without_key_is_refused(host: str) -> None:
    assert "no key is set" in _errors(server=ServerConfig(host=host))
    assert _errors(server=ServerConfig(host=host, allow_open=True)) == ""


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1", "[::1]", "localhost"])
def test_is_loopback_of_this_machine_is_true(host: str) -> None:
    assert is_loopback(host)


def test_check_open_host_with_key_is_fine(tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    keys.write_text("secret-1\n")
    assert _errors(server=ServerConfig(host="0.0.0.0", api_key_file=str(keys))) == ""


def test_check_equal_names_are_refused() -> None:
    assert "2 models are called 'scripted'" in _errors(
        ModelConfig("scripted"), ModelConfig("scripted")
    )
    assert _errors(ModelConfig("scripted"), ModelConfig("scripted", name="b")) == ""


@pytest.mark.parametrize("name", ["", " a", "a\nb", "x" * 201])
def test_check_unusable_name_is_refused(name: str) -> None:
    assert "name" in _errors(ModelConfig("scripted", name=name))


def test_check_model_errors_name_the_setting(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    model = ModelConfig(
        "smollm2",
        chat_template="/nope.jinja",
        script="/nope.yaml",
        engine_options={"a": 1},
        cache_dir=str(file),
        context_length=100,
        max_output_tokens=100,
        device=" ",
    )
    errors = _errors(model)
    for part in ("chat_template", "script:", "engine_options", "cache_dir", "device", "no room"):
        assert part in errors


def test_check_small_cache_warns() -> None:
    model = ModelConfig("scripted", num_kv_blocks=4, context_length=4096, cache_size=1.0)
    warnings = "\n".join(check(Config(models=[model])).warnings)
    assert "holds at most 128 tokens" in warnings
    assert "cache_size has no effect" in warnings


def test_check_budget_smaller_than_body_is_refused() -> None:
    server = ServerConfig(memory_budget_bytes=1024 * 1024, max_body_bytes=2 * 1024 * 1024)
    assert "could never be taken" in _errors(server=server)


@pytest.mark.parametrize(
    ("content", "keys"),
    [
        (b"one", ("one",)),
        (b"one\n", ("one",)),
        (b" one \r\n\n two\n", ("one", "two")),
        (b"one\none\n", ("one",)),
    ],
)
def test_api_keys_white_space_around_is_no_part(
    tmp_path: Path, content: bytes, keys: tuple[str, ...]
) -> None:
    path = tmp_path / "keys"
    path.write_bytes(content)
    assert read_api_keys(path) == keys


@pytest.mark.parametrize("content", [b"", b"\n \n", b"topsecret space\n", "schlüssel\n".encode()])
def test_api_keys_unusable_file_is_refused_without_showing_it(
    tmp_path: Path, content: bytes
) -> None:
    path = tmp_path / "keys"
    path.write_bytes(content)
    with pytest.raises(KeyFileError) as caught:
        read_api_keys(path)
    assert "topsecret" not in str(caught.value)


def test_api_keys_missing_file_is_an_error_of_the_setting() -> None:
    assert "api_key_file: /nope cannot be read" in _errors(
        server=ServerConfig(api_key_file="/nope")
    )


@pytest.mark.parametrize(
    ("model", "name"),
    [
        ("smollm2", "smollm2"),
        ("/models/Qwen3-8B-int4", "Qwen3-8B-int4"),
        ("/models/tiny.Q4_1.gguf", "tiny.Q4_1"),
        ("owner/name", "owner/name"),
        ("owner/name:file.gguf", "owner/name"),
    ],
)
def test_model_name_without_one_comes_from_the_model(model: str, name: str) -> None:
    assert model_name(ModelConfig(model)) == name
    assert model_name(ModelConfig(model, name="mine")) == "mine"


def test_locate_model_keyword_wins_over_folder(tmp_path: Path) -> None:
    (tmp_path / "smollm2").mkdir()
    assert locate_model("smollm2", tmp_path) == "smollm2"
    assert locate_model("./smollm2", tmp_path) == str(tmp_path / "smollm2")


@pytest.mark.parametrize("model", ["x" * 5000, "nul\0byte", "~nobody-of-that-name/x"])
def test_locate_model_of_no_path_leaves_it_alone(model: str, tmp_path: Path) -> None:
    assert locate_model(model, tmp_path) == model
