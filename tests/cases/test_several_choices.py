"""Requests for more than one answer."""

import pytest

from refloat.testing.harness import Server

pytestmark = pytest.mark.process


@pytest.mark.engine
@pytest.mark.case(55)
@pytest.mark.parametrize("model", ["tiny-llm", "tiny-hybrid"])
def test_each_choice_finishes_once_and_usage_is_their_sum(engine: Server, model: str) -> None:
    client = engine.client()
    fields = {"model": model, "n": 3, "max_tokens": 5, "temperature": 1, "seed": 3}
    with client.chat_stream("Hi", stream_options={"include_usage": True}, **fields) as stream:
        streamed = stream.transcript()
    whole = client.chat("Hi", **fields).json()
    assert streamed.done
    assert sorted(index for index, _ in streamed.finish_reasons()) == [0, 1, 2]
    assert streamed.usage is not None
    assert streamed.usage["completion_tokens"] == 15
    assert whole["usage"]["completion_tokens"] == 15
    assert [choice["index"] for choice in whole["choices"]] == [0, 1, 2]
    assert len({choice["message"]["content"] for choice in whole["choices"]}) > 1


@pytest.mark.case(55)
def test_choices_are_streamed_as_they_are_answered_whole(scripted: Server) -> None:
    client = scripted.client()
    fields = {"model": "plain", "n": 3, "max_tokens": 5}
    with client.chat_stream("Hi", stream_options={"include_usage": True}, **fields) as stream:
        streamed = stream.transcript()
    whole = client.chat("Hi", **fields).json()
    texts = [choice["message"]["content"] for choice in whole["choices"]]
    assert [streamed.text(index) for index in range(3)] == texts
    assert sorted(streamed.finish_reasons()) == [(index, "length") for index in range(3)]
    assert streamed.usage is not None
    assert streamed.usage["completion_tokens"] == whole["usage"]["completion_tokens"] == 15
