"""What one model's losses cost another model of the same server: latency with and without them.

Both are scripted, so that what is measured is the server and not the device they would share.
"""

from typing import Any, NamedTuple

from refloat.bench.measure import Progress
from refloat.bench.paired import Estimate, estimate, paired
from refloat.testing.harness import Server
from refloat.testing.outcome import ask

_ASKED = 20
"""Requests of a round; the neighbour's worker is killed before the first."""


class Neighbour(NamedTuple):
    """Latency of a request to the model that loses nothing."""

    calm_s: Estimate
    """While nothing happens."""
    beside_s: Estimate
    """While the other model's worker is killed and built anew."""
    ratio: Estimate
    failed: int
    """Requests of it that were not answered right, over all rounds."""


def neighbour(*, rounds: int, progress: Progress) -> Neighbour:
    """Two models, one of which loses its worker in every second round."""
    calm: list[float] = []
    beside: list[float] = []
    failed = 0
    models: list[dict[str, Any]] = [{"model": "scripted", "name": n} for n in ("frail", "calm")]
    for model in models:
        model["engine_options"] = {"step_s": 0.002}
    config = {"models": models, "server": {"ready_when": "all"}}
    with Server.start(config=config) as server:
        client = server.client()
        body = client.chat_body("Repeat: twenty tokens or so", model="calm")
        for round_number in range(-1, rounds):
            for kills in (False, True):
                if kills:
                    # progress between two losses, else they are taken for a model that cannot run
                    assert ask(client, {**body, "model": "frail"}).is_right
                    server.kill_worker("frail")
                outcomes = [ask(client, body) for _ in range(_ASKED)]
                failed += sum(not outcome.is_right for outcome in outcomes)
                if round_number >= 0:
                    (beside if kills else calm).extend(outcome.wall_s for outcome in outcomes)
                server.wait_ready()
            progress(f"beside a failing model, round {round_number + 1} of {rounds}")
    return Neighbour(
        estimate(calm), estimate(beside), paired(beside, calm, lambda b, c: b / c), failed
    )
