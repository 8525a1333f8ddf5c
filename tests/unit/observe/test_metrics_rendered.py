"""Metrics as text: one after another, and together what the library makes of all."""

from prometheus_client import generate_latest

from refloat.observe.metrics import Metrics


def test_parts_are_the_whole_and_none_is_most_of_it() -> None:
    metrics = Metrics()
    for number in range(8):
        metrics.ttft_seconds.labels(f"m{number}").observe(number)
        metrics.inter_token_seconds.labels(f"m{number}").observe(0.01 * number)
        metrics.requests.labels("/v1/models", str(200 + number)).inc()
    whole = generate_latest(metrics.registry)
    parts = list(metrics.parts())
    assert b"".join(parts) == metrics.render() == whole
    assert len(parts) > 10
    assert max(map(len, parts)) < len(whole) / 2
