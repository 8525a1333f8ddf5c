"""Answers held to a grammar by OpenVINO GenAI's structured output.

A grammar that does not compile is accepted by `add_request` and then makes every later step raise. So
nothing comes here that was not tried before (`prep/trial/`), and whether grammars work with a model at
all is found out by `generate`, which survives what makes `step` fail for ever.
"""

import sys
from typing import Any

import numpy as np
import openvino as ov
import openvino_genai as genai

from refloat.engines.engine_text import clean_message, fault_error
from refloat.wire.faults import is_context_fatal
from refloat.wire.guide import Guide

_WARM = Guide('root ::= "a"')


def structured_output(guide: Guide) -> genai.StructuredOutputConfig:
    """A guide as the engine takes it."""
    return genai.StructuredOutputConfig(grammar=guide.ebnf)


def warm_guides(pipeline: genai.ContinuousBatchingPipeline) -> bool:
    """Have the engine build its tables of the vocabulary now, and not in the midst of answers. Whether
    it can hold answers to grammars: not for every tokenizer. Raises `EngineFaultError` for a lost
    device. Only while no request is there."""
    config = genai.GenerationConfig()
    config.apply_chat_template = False
    config.max_new_tokens = 2
    config.stop_token_ids = {0}
    config.eos_token_id = 0
    config.structured_output_config = structured_output(_WARM)
    untyped: Any = pipeline
    try:
        untyped.generate([ov.Tensor(np.array([[1]], np.int64))], [config])
    except Exception as error:
        if is_context_fatal(str(error)):
            raise fault_error(error) from error
        sys.stderr.write(f"no grammars for this model: {clean_message(str(error))}\n")
        return False
    return True
