"""Requests after which everybody else would wait for ever."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from refloat.testing.client import Answer
from refloat.testing.harness import Server
from refloat.testing.patience import eventually

pytestmark = pytest.mark.process

ErrorOf = Callable[[Answer], dict[str, Any]]


def use_and_abuse(server: Server, count: int) -> None:
    """A third of the requests normal, a third left by their clients, a third invalid."""
    client = server.client()

    def one(number: int) -> None:
        if number % 3 == 0:
            assert client.chat("Hi", model="plain").status == 200
        elif number % 3 == 1:
            connection = client.begin(
                "/v1/chat/completions", client.chat_body("Loop", model="plain")
            )
            connection.close()
        else:
            assert client.chat("Hi", model="plain", temperature=-5).status == 400

    with ThreadPoolExecutor(8) as pool:
        for done in [pool.submit(one, number) for number in range(count)]:
            done.result()
    for gauge in ("refloat_running", "refloat_waiting", "refloat_kv_blocks_used"):
        eventually(lambda gauge=gauge: client.metric(gauge, model="plain") == 0, what=gauge)
    for _ in range(20):
        assert client.chat("Hi", model="plain").status == 200


@pytest.mark.case(16)
def test_slots_come_back_from_requests_of_every_fate(scripted: Server) -> None:
    for _ in range(2):
        use_and_abuse(scripted, 150)


@pytest.mark.soak
@pytest.mark.case(16)
def test_slots_come_back_from_thousands_of_requests(scripted: Server) -> None:
    for _ in range(5):
        use_and_abuse(scripted, 1000)


EMPTY_PROMPTS: list[Any] = ["", [], [[]], [""], ["Hi", ""]]


@pytest.mark.case(18)
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("prompt", EMPTY_PROMPTS)
def test_empty_prompt_is_refused(
    scripted: Server, error_of: ErrorOf, prompt: Any, stream: bool
) -> None:
    body = {"model": "plain", "prompt": prompt, "stream": stream}
    answer = scripted.client().post("/v1/completions", body)
    assert answer.status == 400
    assert error_of(answer)["param"].startswith("prompt")


@pytest.mark.engine
@pytest.mark.case(18)
def test_empty_prompts_do_not_reach_a_real_engine(engine: Server) -> None:
    client = engine.client()
    for prompt in EMPTY_PROMPTS:
        assert client.post("/v1/completions", {"model": "tiny-llm", "prompt": prompt}).status == 400
    assert client.chat("", model="tiny-llm", max_tokens=4).status == 200
    assert client.post("/v1/completions", {"model": "tiny-llm", "prompt": "Hi"}).status == 200


@pytest.mark.case(19)
def test_runaway_answer_ends_at_the_context_and_others_are_served_meanwhile(
    scripted: Server,
) -> None:
    client = scripted.client()
    with client.chat_stream("Loop", model="plain") as runaway:
        assert client.chat("Hi", model="plain").status == 200
        whole = runaway.transcript()
    assert whole.finish_reasons() == [(0, "length")]
    assert whole.text().startswith("again and again again")
    usage = client.chat("Loop", model="plain").json()["usage"]
    assert usage["total_tokens"] == 4096
