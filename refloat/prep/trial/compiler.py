"""The engine's own grammar compiler, with a model's own vocabulary, and without the model.

OpenVINO GenAI gives no way to its compiler but a generation. So there is one token of generation by a
network that says nothing at all, with the model's tokenizer: a logit for each token, all of them zero.
"""

import json
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import openvino as ov
import openvino_genai as genai
from openvino import opset13

from refloat.prep.trial.error import CompileError

_opset: Any = opset13
_model: Any = ov.Model
_save: Any = ov.save_model
#: An engine's logits are often padded beyond its vocabulary; a mask never reaches beyond these.
_PADDING = 256
#: Which token ends an answer does not matter to the compiler, but there has to be one.
_STOP = 0


class GrammarCompiler:
    """Compiles grammars for one tokenizer, to see whether they can be and how long that takes."""

    def __init__(self, folder: Path, vocab_size: int) -> None:
        """`folder` is the model's. Its tables are built here, once."""
        tokenizer = genai.Tokenizer(str(folder))
        with tempfile.TemporaryDirectory(prefix="refloat-trial-") as home:
            _write_network(Path(home), vocab_size + _PADDING)
            pipeline: Any = genai.LLMPipeline
            self._pipeline = pipeline(home, tokenizer, "CPU", ATTENTION_BACKEND="SDPA")
        self._prompt = genai.TokenizedInputs(
            ov.Tensor(np.array([[0]], np.int64)), ov.Tensor(np.array([[1]], np.int64))
        )
        self.compile('root ::= "a"')

    def compile(self, ebnf: str) -> float:
        """Seconds that it took. Raises `CompileError`."""
        config = genai.GenerationConfig()
        config.max_new_tokens = 1
        config.do_sample = False
        config.apply_chat_template = False
        config.stop_token_ids = {_STOP}
        config.eos_token_id = _STOP
        config.structured_output_config = genai.StructuredOutputConfig(grammar=ebnf)
        began = time.monotonic()
        generate: Any = self._pipeline.generate
        try:
            generate(self._prompt, config)
        except Exception as error:
            raise CompileError(str(error)) from error
        return time.monotonic() - began


def _write_network(home: Path, width: int) -> None:
    inputs = [
        _opset.parameter([-1, -1], np.int64, name="input_ids"),
        _opset.parameter([-1, -1], np.int64, name="attention_mask"),
        _opset.parameter([-1, -1], np.int64, name="position_ids"),
        _opset.parameter([-1], np.int32, name="beam_idx"),
    ]
    for node in inputs:
        node.output(0).set_names({node.get_friendly_name()})
    shape = _opset.concat([_opset.shape_of(inputs[0]), np.array([width], np.int64)], 0)
    logits = _opset.broadcast(np.zeros((1, 1, 1), np.float32), shape)
    logits.output(0).set_names({"logits"})
    _save(_model([_opset.result(logits)], inputs, "silent"), str(home / "openvino_model.xml"))
    (home / "config.json").write_text(json.dumps({"model_type": "llama", "vocab_size": width}))
