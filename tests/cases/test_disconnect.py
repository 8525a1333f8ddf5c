"""Clients that leave take their work with them; servers that leave finish theirs."""

import signal
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from refloat.testing.client import Answer, Client
from refloat.testing.harness import Server
from refloat.testing.patience import eventually

pytestmark = pytest.mark.process

CHAT = "/v1/chat/completions"
ErrorOf = Callable[[Answer], dict[str, Any]]
StartServer = Callable[..., Server]


def is_running(client: Client, model: str, count: int) -> bool:
    """Whether so many generations of a model are with a worker."""
    return client.metric("refloat_running", model=model) == count


def leave(client: Client, model: str, prompt: str, *, stream: bool) -> None:
    """Start a long generation and close the connection once it runs."""
    body = client.chat_body(prompt, model=model, max_tokens=3000, stream=stream, ignore_eos=True)
    connection = client.begin(CHAT, body)
    try:
        eventually(lambda: is_running(client, model, 1), what="the request to run")
    finally:
        connection.close()
    eventually(lambda: is_running(client, model, 0), what="the request to stop")


@pytest.mark.case(39)
@pytest.mark.parametrize("stream", [True, False])
def test_generation_ends_with_its_client(scripted: Server, stream: bool) -> None:
    client = scripted.client()
    aborted = client.metric("refloat_aborted_total", model="narrow")
    leave(client, "narrow", "Count from 1 to 900", stream=stream)
    assert client.chat("Hi", model="narrow").status == 200
    assert client.metric("refloat_aborted_total", model="narrow") == aborted + 1


@pytest.mark.engine
@pytest.mark.case(39)
@pytest.mark.parametrize("stream", [True, False])
def test_generation_on_a_real_engine_ends_with_its_client(engine: Server, stream: bool) -> None:
    client = engine.client()
    leave(client, "tiny-hybrid", "Tell me a story", stream=stream)
    assert client.chat("Hi", model="tiny-hybrid", max_tokens=4).status == 200


@pytest.mark.case(40)
def test_long_prompt_is_given_up_with_its_client(scripted: Server) -> None:
    """The whole prompt would take the engine about 25 s, each chunk of it half a second."""
    client = scripted.client()
    generated = client.metric("refloat_generated_tokens_total", model="slow")
    leave(client, "slow", "x" * 26_000, stream=True)
    assert client.metric("refloat_generated_tokens_total", model="slow") == generated
    assert client.chat("Hi", model="slow", max_tokens=4).status == 200


@pytest.mark.case(41)
def test_retries_after_time_outs_do_not_queue_behind_their_own_orphans(scripted: Server) -> None:
    """Each of them would take the only seat for 20 s."""
    client = scripted.client()
    aborted = client.metric("refloat_aborted_total", model="narrow")
    for _ in range(5):
        body = client.chat_body("Count from 1 to 900", model="narrow", max_tokens=2000)
        connection = client.begin(CHAT, body)
        eventually(lambda: is_running(client, "narrow", 1), what="the retry to run")
        assert client.metric("refloat_waiting", model="narrow") == 0
        connection.close()
        eventually(lambda: is_running(client, "narrow", 0), what="the retry to stop")
    assert client.chat("Hi", model="narrow").status == 200
    assert client.metric("refloat_aborted_total", model="narrow") == aborted + 5


@pytest.mark.case(42)
def test_load_goes_on_when_the_first_who_waits_for_it_leaves(start_server: StartServer) -> None:
    options = {"engine_options": {"load_s": 3}}
    config = {"models": [{"model": "scripted", "name": "cold", **options}]}
    with start_server(config=config, ready=False) as server, ThreadPoolExecutor(1) as pool:
        client = server.client()
        first = client.begin(CHAT, client.chat_body("Hi", model="cold"))
        eventually(lambda: client.metric("refloat_waiting", model="cold") == 1, what="the first")
        second = pool.submit(client.chat, "Hi", model="cold")
        eventually(lambda: client.metric("refloat_waiting", model="cold") == 2, what="the second")
        first.close()
        assert second.result().status == 200
        assert len([e for e in server.events("slot_state") if e["state"] == "loading"]) == 2


DRAINING = {"model": "scripted", "name": "m", "engine_options": {"step_s": 0.02}}


def draining_refusal(server: Server, client: Client) -> Answer:
    """The answer to a new request after SIGTERM."""
    return eventually(
        lambda: answer if (answer := client.chat("Hi", model="m")).status != 200 else None,
        what="the server to drain",
    )


@pytest.mark.case(43)
def test_sigterm_lets_streams_finish_and_takes_nothing_new(
    start_server: StartServer, error_of: ErrorOf
) -> None:
    with start_server(config={"models": [DRAINING]}) as server:
        client = server.client()
        with client.chat_stream("Count from 1 to 90", model="m", max_tokens=300) as stream:
            chunks = stream.data()
            head = [next(chunks) for _ in range(20)]
            server.process.send_signal(signal.SIGTERM)
            refused = draining_refusal(server, client)
            assert refused.status == 503
            assert refused.headers["connection"] == "close"
            assert error_of(refused)["code"] == "draining"
            whole = stream.transcript()
        assert len(head) == 20
        assert whole.done
        assert whole.error is None
        assert whole.text().endswith("88 89 90")
        assert whole.finish_reasons() == [(0, "stop")]
        assert server.process.wait(timeout=60) == 0


@pytest.mark.case(43, 50)
def test_stream_that_outlasts_the_drain_ends_with_an_error(start_server: StartServer) -> None:
    config = {"models": [DRAINING], "server": {"drain_timeout_s": 0.5}}
    with start_server(config=config) as server:
        client = server.client()
        with client.chat_stream("Count from 1 to 900", model="m", max_tokens=2000) as stream:
            next(stream.data())
            server.process.send_signal(signal.SIGTERM)
            whole = stream.transcript()
        assert whole.error is not None
        assert whole.error["code"] == "draining"
        assert whole.error["tokens_emitted"] > 0
        assert whole.finish_reasons() == []
        assert whole.done
        assert server.process.wait(timeout=60) == 0
