"""What the proofs share: the exact profile, prompts that name their fault, how a proof is asked."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from refloat.testing.client import Client
from refloat.testing.harness import Server
from refloat.testing.outcome import COMPLETIONS, Outcome, ask

DATA = Path(__file__).parents[2] / "data"
TOKENS = 64
#: Ids above every prompt's own, one for each proof; the fault waits for its proof's mark.
FIRST_MARK = 1000
STEP_TOKENS = 64


def prompt_of(mark: int, length: int = 40) -> list[int]:
    """Ordinary ids of tiny-llm, the mark first."""
    return [FIRST_MARK + mark, *(10 + (7 * n) % 900 for n in range(length - 1))]


def cut(mark: int, at: int) -> dict[str, Any]:
    """Lose the worker before the token with number `at` of the proof with this mark."""
    return {"at": "token", "token": at, "kind": "kill", "match_tokens": [FIRST_MARK + mark]}


def model(name: str, folder: str, faults: Iterable[Mapping[str, Any]] = (), **more: Any) -> Any:
    """One real model of a server."""
    return {
        "model": str(DATA / folder),
        "name": name,
        "num_kv_blocks": 128,
        "max_num_batched_tokens": STEP_TOKENS,
        "faults": [dict(fault) for fault in faults],
        **more,
    }


def serving(models: list[Any], home: Path) -> Server:
    """A server of these, patient: on a busy machine the next worker may be long in coming, and the
    proofs are of texts."""
    server = {"ready_when": "all", "hold_timeout_s": 240}
    return Server.start(
        config={"models": models, "server": server}, env={"REFLOAT_HOME": str(home)}
    )


def client_of(server: Server) -> Client:
    """One as patient."""
    return server.client(timeout_s=240)


def complete(client: Client, name: str, mark: int, **fields: Any) -> Outcome:
    """A proof's request: greedy and `TOKENS` long unless it says otherwise."""
    prompt = fields.pop("prompt", None) or prompt_of(mark)
    body = {"temperature": 0, "max_tokens": TOKENS, "ignore_eos": True, **fields}
    return ask(client, {"model": name, "prompt": prompt, **body}, COMPLETIONS)


def same(first: Outcome, second: Outcome) -> None:
    """Both are whole, and equal in all that a client can see but ids and times."""
    assert first.is_right, first.describe()
    assert second.is_right, second.describe()
    assert first.texts == second.texts
    assert first.finish_reasons == second.finish_reasons
    assert first.usage is not None
    assert second.usage is not None
    assert first.usage["completion_tokens"] == second.usage["completion_tokens"]


def cuts(server: Server, request_id: str) -> list[int]:
    """At how many tokens a request's choices went on in another worker."""
    events = server.events("generation_resumed")
    return sorted(entry["offset"] for entry in events if entry["request_id"] == request_id)
