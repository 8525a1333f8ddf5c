"""One script from a scripted model's options, the same for every program that needs it."""

from pathlib import Path

import pytest

from refloat.config.schema import ModelConfig
from refloat.models.error import ModelError
from refloat.models.scripted import scripted_manifest
from refloat.prep.opening import open_model
from refloat.scripted.script import HELLO, ScriptError, script_of
from refloat.scripted.tokens import ScriptedTokenizer
from refloat.wire.messages import PROTOCOL_VERSION
from refloat.wire.prep_messages import PrepConfigure

RULES = [{"match": "weather", "text": "Sunny Zürich."}]


def test_rules_given_in_place_answer_before_the_built_in_ones() -> None:
    script = script_of({"rules": RULES, "step_s": 0.1})
    assert script.answer("the weather?").choices == ("Sunny Zürich.",)
    assert script.answer("Hi").choices == (HELLO,)


def test_rules_in_a_file_and_in_place_exclude_each_other(tmp_path: Path) -> None:
    file = tmp_path / "script.yaml"
    file.write_text("[]")
    with pytest.raises(ScriptError, match="exclude each other"):
        script_of({"rules": RULES, "script": str(file)})
    config = ModelConfig("scripted", script=str(file), engine_options={"rules": RULES})
    with pytest.raises(ModelError, match="exclude each other"):
        scripted_manifest(config)


def test_prep_knows_the_tokens_of_rules_given_in_place() -> None:
    options = {"rules": RULES}
    configure = PrepConfigure(PROTOCOL_VERSION, "", "scripted", options=options)
    _, ready = open_model(configure)
    assert ready.vocab_size == ScriptedTokenizer(script_of(options)).vocab_size
    assert ready.vocab_size > ScriptedTokenizer(script_of({})).vocab_size
