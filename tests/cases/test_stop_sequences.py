"""Stop strings: nothing of one goes out, nothing else is held back for ever."""

from collections.abc import Callable
from typing import Any

import pytest

from refloat.testing.client import Answer
from refloat.testing.harness import Server

pytestmark = pytest.mark.process

ErrorOf = Callable[[Answer], dict[str, Any]]
COUNTED = " ".join(str(number) for number in range(1, 41))


def in_both_modes(server: Server, prompt: str, **fields: Any) -> tuple[str, str]:
    """Text and finish reason, found to be the same in both modes."""
    client = server.client()
    choice = client.chat(prompt, **fields).json()["choices"][0]
    with client.chat_stream(prompt, **fields) as stream:
        whole = stream.transcript()
    assert whole.text() == choice["message"]["content"]
    assert whole.finish_reasons() == [(0, choice["finish_reason"])]
    return whole.text(), choice["finish_reason"]


@pytest.mark.case(107)
@pytest.mark.parametrize(
    ("stop", "text", "reason"),
    [
        (["4 5 6 7"], "1 2 3 ", "stop"),
        ("4 5 6 7", "1 2 3 ", "stop"),
        (["4 5 6 8"], COUNTED, "stop"),
        (["7 8", "4 5 6 7 8 9 10"], "1 2 3 4 5 6 ", "stop"),
        (["12", "1"], "", "stop"),
        (["40!"], COUNTED, "stop"),
    ],
)
def test_nothing_of_a_stop_string_goes_out_and_held_text_is_not_lost(
    scripted: Server, stop: Any, text: str, reason: str
) -> None:
    fields = {"model": "plain", "stop": stop}
    assert in_both_modes(scripted, "Count from 1 to 40", **fields) == (text, reason)


@pytest.mark.case(107)
def test_text_held_for_a_stop_string_is_flushed_at_the_token_limit(scripted: Server) -> None:
    fields = {"model": "plain", "stop": ["3 4 5 X"], "max_tokens": 8}
    assert in_both_modes(scripted, "Count from 1 to 40", **fields) == ("1 2 3 4 ", "length")


@pytest.mark.engine
@pytest.mark.case(107)
def test_stop_string_of_several_real_tokens_does_not_go_out(engine: Server) -> None:
    fields = {
        "model": "tiny-scripted",
        "stop": ["4 5 6 7"],
        "chat_template_kwargs": {"enable_thinking": False},
    }
    assert in_both_modes(engine, "Count from 1 to 9", **fields) == ("1 2 3 ", "stop")


@pytest.mark.case(109)
@pytest.mark.parametrize("stop", ["", [""], ["a", ""], [None], ["x"] * 17, ["x" * 2000]])
@pytest.mark.parametrize("stream", [False, True])
def test_stop_that_means_nothing_is_refused(
    scripted: Server, error_of: ErrorOf, stop: Any, stream: bool
) -> None:
    answer = scripted.client().chat("Hi", model="plain", stop=stop, stream=stream)
    assert answer.status == 400
    assert error_of(answer)["param"].startswith("stop")


@pytest.mark.case(109)
@pytest.mark.parametrize("stop", [[], None, ["@", "#", "$", "%", "&"]])
def test_stop_that_asks_for_nothing_changes_nothing(scripted: Server, stop: Any) -> None:
    fields = {"model": "plain", "stop": stop}
    assert in_both_modes(scripted, "Count from 1 to 40", **fields) == (COUNTED, "stop")
