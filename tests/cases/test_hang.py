"""Requests after which everybody else would wait for ever."""

import random
import statistics
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psutil
import pytest

from refloat.testing.client import Answer, Client
from refloat.testing.harness import Server
from refloat.testing.patience import eventually

pytestmark = pytest.mark.process

ErrorOf = Callable[[Answer], dict[str, Any]]


CHAT = "/v1/chat/completions"


def leave_at_some_moment(client: Client, chance: random.Random) -> None:
    """Begin a request and go: before anything comes, or in mid-stream, or without a stream."""
    stream = chance.random() < 0.8
    body = client.chat_body("Loop", model="plain", stream=stream)
    events = chance.randrange(12)
    if not stream or not events:
        client.begin(CHAT, body).close()
        return
    with client.stream(CHAT, body) as answer:
        for _ in zip(range(events), answer.data(), strict=False):
            pass


def use_and_abuse(server: Server, count: int) -> None:
    """A third of the requests normal, a third left by their clients, a third invalid."""
    client = server.client()

    def one(number: int) -> None:
        if number % 3 == 0:
            assert client.chat("Hi", model="plain").status == 200
        elif number % 3 == 1:
            leave_at_some_moment(client, random.Random(number))
        else:
            assert client.chat("Hi", model="plain", temperature=-5).status == 400

    with ThreadPoolExecutor(8) as pool:
        for done in [pool.submit(one, number) for number in range(count)]:
            done.result()
    for gauge in ("refloat_running", "refloat_waiting", "refloat_kv_blocks_used"):
        eventually(lambda gauge=gauge: client.metric(gauge, model="plain") == 0, what=gauge)
    eventually(lambda: client.metric("refloat_held_bytes") == 0, what="bytes to be given back")


def twenty_answers_s(client: Client) -> float:
    """Seconds for each of twenty normal requests, in the middle."""
    seconds: list[float] = []
    for _ in range(20):
        begin_s = time.monotonic()
        assert client.chat("Hi", model="plain").status == 200
        seconds.append(time.monotonic() - begin_s)
    return statistics.median(seconds)


def held(server: Server) -> tuple[int, int]:
    """Descriptors and bytes of gateway and children together."""
    processes = [psutil.Process(server.process.pid), *server.children()]
    return sum(p.num_fds() for p in processes), sum(p.memory_info().rss for p in processes)


def check_nothing_is_kept(server: Server, count: int) -> None:
    """Descriptors and memory are back where they were after a first round."""
    use_and_abuse(server, 60)  # what is made once and kept
    descriptors, size = held(server)
    use_and_abuse(server, count)
    eventually(lambda: held(server)[0] <= descriptors, what="descriptors to be closed")
    grown = held(server)[1] - size
    assert grown < 32 * 2**20, f"{grown} bytes more than before"


@pytest.mark.case(16)
def test_slots_come_back_from_requests_of_every_fate(scripted: Server) -> None:
    check_nothing_is_kept(scripted, 150)
    twenty_answers_s(scripted.client())


@pytest.mark.soak
@pytest.mark.case(16)
def test_slots_come_back_from_thousands_of_requests(scripted: Server) -> None:
    client = scripted.client()
    before_s = twenty_answers_s(client)
    check_nothing_is_kept(scripted, 5000)
    after_s = twenty_answers_s(client)
    assert after_s < 5 * before_s, (before_s, after_s)


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
