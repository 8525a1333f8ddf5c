"""The large body that is measured is what the report says of it, and is accepted."""

import json

from refloat.api.schema.tokens import TOKENIZE_DECODER, prompt_of
from refloat.bench.prompts import BODY_BYTES, TOOLS, large_body
from refloat.generation.request import ChatPrompt


def test_large_body_has_its_size_and_its_tools() -> None:
    data = json.dumps(large_body("m")).encode()
    assert 0.99 < len(data) / BODY_BYTES < 1.01
    assert data == json.dumps(large_body("m")).encode()
    prompt = prompt_of(TOKENIZE_DECODER.decode(data))
    assert isinstance(prompt, ChatPrompt)
    assert len(prompt.tools or ()) == TOOLS
