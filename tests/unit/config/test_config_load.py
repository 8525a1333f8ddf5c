"""Layers of settings, and the sentences that wrong ones get."""

from pathlib import Path

import pytest

from refloat.config.error import ConfigError
from refloat.config.fields import FIELDS, MODEL_FIELDS, SERVER_FIELDS, WrongValueError
from refloat.config.load import LoadedConfig, load
from refloat.config.show import show


def _file(folder: Path, text: str) -> Path:
    path = folder / "refloat.yaml"
    path.write_text(text)
    return path


def _problems(
    folder: Path | None = None,
    text: str | None = None,
    env: dict[str, str] | None = None,
    options: dict[str, str | bool] | None = None,
) -> list[str]:
    file = _file(folder, text) if folder is not None and text is not None else None
    with pytest.raises(ConfigError) as caught:
        load(file=file, environ=env or {}, options=options or {})
    return list(caught.value.problems)


def test_load_without_anything_serves_the_default_model() -> None:
    loaded = load(environ={}, options={})
    assert [model.model for model in loaded.config.models] == ["smollm2"]
    assert loaded.config.server.port == 8000


def test_load_later_layers_win_and_say_so(tmp_path: Path) -> None:
    file = _file(
        tmp_path,
        "server:\n  port: 1\n  host: 127.0.0.2\n  log_level: error\n"
        "models:\n- model: scripted\n  device: GPU\n  max_num_seqs: 3\n",
    )
    loaded = load(
        file=file,
        environ={"REFLOAT_PORT": "2", "REFLOAT_HOST": "::1", "REFLOAT_DEVICE": "NPU"},
        options={"port": "3", "enable_prefix_caching": False},
    )
    server, model = loaded.config.server, loaded.config.models[0]
    assert (server.port, server.host, server.log_level) == (3, "::1", "error")
    assert (model.device, model.max_num_seqs, model.enable_prefix_caching) == ("NPU", 3, False)
    assert loaded.server_origins == {
        "port": "option --port",
        "host": "environment REFLOAT_HOST",
        "log_level": f"{file}:4",
    }
    assert loaded.model_origins[0]["device"] == "environment REFLOAT_DEVICE"


def test_load_environment_reads_every_kind_of_field() -> None:
    loaded = load(
        environ={
            "REFLOAT_MODEL": "scripted",
            "REFLOAT_METRICS": "off",
            "REFLOAT_CORS_ORIGINS": "https://a.example, https://b.example",
            "REFLOAT_PLUGIN_CONFIG": '{"PERFORMANCE_HINT": "LATENCY"}',
            "REFLOAT_CACHE_SIZE": "1.5",
            "REFLOAT_FAULTS": '[{"at": "load", "kind": "exit"}]',
            "REFLOAT_HOME": "/somewhere",
            "UNRELATED": "1",
        },
        options={},
    )
    server, model = loaded.config.server, loaded.config.models[0]
    assert server.metrics is False
    assert server.cors_origins == ["https://a.example", "https://b.example"]
    assert model.plugin_config == {"PERFORMANCE_HINT": "LATENCY"}
    assert model.cache_size == 1.5
    assert model.faults == [{"at": "load", "kind": "exit"}]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("server:\n  prot: 1\n", "refloat.yaml:2: server.prot is no setting; did you mean port?"),
        (
            "models:\n- model: a\n  max-num-seq: 1\n",
            "refloat.yaml:3: models[0].max-num-seq is no setting; did you mean max_num_seqs?",
        ),
        ("modles: []\n", "refloat.yaml:1: modles is no setting; did you mean models?"),
        (
            "port: 1\n",
            "refloat.yaml:1: port is no setting at the top; it belongs under server",
        ),
        (
            "server:\n  port: 70000\n",
            "refloat.yaml:2: server.port must be a whole number from 0 to 65535, not 70000",
        ),
        (
            "server:\n  port: '80'\n",
            "refloat.yaml:2: server.port must be a whole number from 0 to 65535, not '80'",
        ),
        (
            "server:\n  port: true\n",
            "refloat.yaml:2: server.port must be a whole number from 0 to 65535, not True",
        ),
        (
            "server:\n  log_level: loud\n",
            "refloat.yaml:2: server.log_level must be one of debug, error, info, warning, "
            "not 'loud'",
        ),
        (
            "server:\n  drain_timeout_s: .inf\n",
            "refloat.yaml:2: server.drain_timeout_s must be a number of at least 0, not inf",
        ),
        (
            "models:\n- model: a\n  cache_size: 0\n",
            "refloat.yaml:3: models[0].cache_size must be a number above 0, not 0",
        ),
        ("models:\n- device: CPU\n", "refloat.yaml:2: models[0].model is missing"),
        ("models:\n- smollm2\n", "refloat.yaml:2: models[0] must be a mapping, not 'smollm2'"),
        ("models: smollm2\n", "refloat.yaml:1: models must be a list of mappings"),
        ("server: 3\n", "refloat.yaml:1: server must be a mapping, not 3"),
        (
            "server:\n  port: 1\n  host: localhost\n  port: 2\n",
            "refloat.yaml:4: server.port is given twice (first in line 2)",
        ),
        (
            "models:\n- model: a\n  plugin_config: {A: 1, A: 2}\n",
            "refloat.yaml:3: models[0].plugin_config.A is given twice (first in line 3)",
        ),
        ("a: &x 1\nb: *x\n", "refloat.yaml:2: YAML aliases (`*x`) are not supported"),
        ("server: [1\n", "not valid YAML: expected ',' or ']', but got '<stream end>'"),
        ("server: {port: !!python/name:os.system x}\n", "not valid YAML"),
        ("- 1\n", "the file must hold a mapping with `models` and `server`"),
        ("server:\n  host: 2020-01-01\n", "server.host must be text, not datetime.date"),
        ("[" * 5000, "nested more than 40 levels deep"),
        ("a: " + "x" * 1_100_000, "larger than 1048576 bytes"),
        ("server:\n  port:\n", "server.port must be a whole number from 0 to 65535, not None"),
    ],
)
def test_load_wrong_file_names_line_key_and_what_is_right(
    tmp_path: Path, text: str, problem: str
) -> None:
    problems = _problems(tmp_path, text)
    assert len(problems) == 1
    assert problem in problems[0]


def test_load_reports_every_problem_at_once(tmp_path: Path) -> None:
    problems = _problems(
        tmp_path, "server:\n  prot: 1\n  metrics: 7\n", {"REFLOAT_PROT": "1"}, {"port": "x"}
    )
    assert len(problems) == 4


@pytest.mark.parametrize(
    ("env", "problem"),
    [
        (
            {"REFLOAT_PROT": "1"},
            "environment: REFLOAT_PROT is no setting; did you mean REFLOAT_PORT?",
        ),
        (
            {"REFLOAT_PORT": "http"},
            "environment REFLOAT_PORT must be a whole number from 0 to 65535, not 'http'",
        ),
        ({"REFLOAT_API_KEY_FILE": ""}, "environment REFLOAT_API_KEY_FILE is empty"),
        ({"REFLOAT_METRICS": "maybe"}, "must be true or false, not 'maybe'"),
        ({"REFLOAT_PLUGIN_CONFIG": "[1]"}, "must be a mapping (a JSON object), not [1]"),
        ({"REFLOAT_PLUGIN_CONFIG": "{'A': 1}"}, "must be a mapping (a JSON object)"),
        ({"REFLOAT_PLUGIN_CONFIG": "[" * 100_000}, "must be a mapping (a JSON object)"),
        ({"REFLOAT_CACHE_SIZE": "nan"}, "must be a number above 0"),
        ({"REFLOAT_MAX_NUM_SEQS": "1_000"}, "must be a whole number from 1 to 1024"),
        ({"REFLOAT_MAX_NUM_SEQS": "9" * 5000}, "must be a whole number from 1 to 1024"),
    ],
)
def test_load_wrong_environment_names_variable(env: dict[str, str], problem: str) -> None:
    problems = _problems(env=env)
    assert len(problems) == 1
    assert problem in problems[0]
    assert len(problems[0]) < 250


def test_load_model_beside_file_is_refused(tmp_path: Path) -> None:
    assert "MODEL and --config exclude each other" in _problems(
        tmp_path, "server: {}\n", options={"model": "scripted"}
    )[0]  # fmt: skip


def test_load_model_option_with_several_models_is_refused(tmp_path: Path) -> None:
    problems = _problems(tmp_path, "models: [{model: a}, {model: b}]\n", options={"device": "GPU"})
    assert problems == [
        "option --device is for a single model, but the file has 2: set it there, under the model "
        "that is meant"
    ]


def test_load_missing_file_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nope\.yaml: cannot be read: No such file"):
        load(file=tmp_path / "nope.yaml", environ={}, options={})


def test_load_paths_in_file_are_relative_to_it(tmp_path: Path) -> None:
    (tmp_path / "my-model").mkdir()
    (tmp_path / "smollm2").mkdir()
    file = _file(
        tmp_path,
        "server: {api_key_file: keys.txt}\nmodels:\n- {model: my-model, script: s.yaml}\n"
        "- {model: owner/name}\n- {model: smollm2}\n- {model: ./missing.gguf}\n",
    )
    config = load(file=file, environ={}, options={}).config
    assert config.server.api_key_file == str(tmp_path / "keys.txt")
    assert config.models[0].script == str(tmp_path / "s.yaml")
    assert [model.model for model in config.models] == [
        str(tmp_path / "my-model"),
        "owner/name",
        "smollm2",
        str(tmp_path / "missing.gguf"),
    ]


def test_show_output_loads_to_the_same_configuration(tmp_path: Path) -> None:
    def reload(loaded: LoadedConfig) -> LoadedConfig:
        return load(file=_file(tmp_path, show(loaded)), environ={}, options={})

    first = load(
        environ={"REFLOAT_PLUGIN_CONFIG": '{"A": "b # c", "D": 1}', "REFLOAT_NAME": "ü"},
        options={"model": "scripted", "request_timeout_s": "2.5"},
    )
    assert reload(first).config == first.config
    assert "# environment REFLOAT_NAME" in show(first)
    assert "# option --request-timeout-s" in show(first)


def test_fields_are_unambiguous_and_described() -> None:
    assert not set(SERVER_FIELDS) & set(MODEL_FIELDS)
    assert all(field.description for field in FIELDS.values())


@pytest.mark.parametrize(("text", "value"), [("0", 0), ("1", 1), ("primed", "primed")])
def test_choices_of_several_types_are_read_from_text(text: str, value: int | str) -> None:
    assert FIELDS["spares"].parse(text) == value
    assert FIELDS["spares"].convert(value) == value


@pytest.mark.parametrize("text", ["2", "yes", "Primed", "1.0"])
def test_choices_that_do_not_exist_are_refused_with_those_that_do(text: str) -> None:
    with pytest.raises(WrongValueError, match="one of 0, 1, primed"):
        FIELDS["spares"].parse(text)
