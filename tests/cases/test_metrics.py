"""Metrics: there, in the right format, and true after everything has ended."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from prometheus_client.parser import text_string_to_metric_families

from refloat.testing.harness import Server
from refloat.testing.patience import eventually

pytestmark = pytest.mark.process

ROUTE = "/v1/chat/completions"


@pytest.mark.case(140)
def test_metrics_are_in_the_text_format(scripted: Server) -> None:
    answer = scripted.client().get("/metrics")
    assert answer.status == 200
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    families = {family.name for family in text_string_to_metric_families(answer.body.decode())}
    assert {"refloat_requests", "refloat_request_seconds", "refloat_running"} <= families


@pytest.mark.case(141)
def test_request_time_can_be_averaged(scripted: Server) -> None:
    """Twenty answers, each of twenty steps of ten milliseconds."""
    client = scripted.client()

    def reading() -> list[float]:
        names = ("refloat_request_seconds_count", "refloat_request_seconds_sum")
        seconds = [client.metric(name, route=ROUTE) for name in names]
        ttft = "refloat_time_to_first_token_seconds_count"
        return [*seconds, client.metric(ttft, model="slow")]

    before = reading()
    with ThreadPoolExecutor(5) as pool:
        futures = [pool.submit(client.chat, "Count from 1 to 9", model="slow") for _ in range(20)]
    assert [future.result().status for future in futures] == [200] * 20
    eventually(lambda: reading()[0] == before[0] + 20, what="the count")
    count, seconds, firsts = (now - then for now, then in zip(reading(), before, strict=True))
    assert count == 20
    assert firsts == 20
    # 17 tokens each: the engine alone needs so long
    assert seconds >= 20 * 17 * 0.01


@pytest.mark.case(142)
def test_gauges_fall_and_aborts_count_when_every_client_leaves_at_once(scripted: Server) -> None:
    client = scripted.client()
    aborted = client.metric("refloat_aborted_total", model="slow")
    body = client.chat_body("Count from 1 to 900", model="slow", max_tokens=2000, stream=True)
    held = [client.begin(ROUTE, body) for _ in range(20)]
    try:
        eventually(lambda: client.metric("refloat_running", model="slow") == 20, what="all to run")
        assert client.metric("refloat_kv_blocks_used", model="slow") > 0
    finally:
        for connection in held:
            connection.close()
    eventually(
        lambda: client.metric("refloat_aborted_total", model="slow") == aborted + 20, what="aborts"
    )
    for gauge in ("refloat_running", "refloat_waiting", "refloat_kv_blocks_used"):
        eventually(lambda gauge=gauge: client.metric(gauge, model="slow") == 0, what=gauge)
