"""How long a server takes over grammars that it must not take, and over an agent's tools:
`python -m refloat.bench.hostile MODEL`.

Each is new to the server, so that none is answered from a verdict that is there already; hostile ones
come one directly behind the other. A neighbour asks without a pause meanwhile.
"""

import statistics
import sys
import threading
import time
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from refloat.bench.measure import resident_bytes
from refloat.bench.prompts import TOOLS, large_body
from refloat.testing.client import Client
from refloat.testing.harness import Server
from refloat.testing.outcome import Outcome, ask

_LIMIT_S = 120.0
_CALM_S = 10.0
_Wishes = list[tuple[str, dict[str, Any]]]


def hostile_wishes(salt: str) -> _Wishes:
    """What was seen to hurt an engine, under names; `salt` makes them new."""
    words = "|".join(f"w{n}{salt}[a-z]{{1,50}}" for n in range(5000))
    counts = "|".join(f'[^a]{{0,{n}}}"{salt}x{n}"' for n in range(60, 260))
    deep = '{"a":' * 20_000 + "1" + "}" * 20_000
    wide = {f"{salt}{n}": {"pattern": f"^(a|b){{0,{n % 90}}}.{{0,{n % 70}}}$"} for n in range(400)}
    clashes = {"allOf": [{"pattern": f"(a|{n})*{salt}.{{0,90}}"} for n in range(12)]}
    return [
        ("20,000 parentheses", {"guided_regex": "(" * 20_000 + salt + ")" * 20_000}),
        ("5,000 alternatives with repeats", {"guided_regex": words}),
        ("repeats of repeats", {"guided_regex": f"(.{{1,250}}{salt}){{1,250}}"}),
        ("look-behind", {"guided_regex": f"(?<={salt})b"}),
        ("nested 20,000 deep", {"guided_json": deep.replace("1", f'"{salt}"')}),
        ("200 counted classes", {"guided_grammar": f"root ::= {counts}"}),
        ("broken EBNF", {"guided_grammar": f'root ::= "{salt}" ((((('}),
        ("400 patterns", {"guided_json": {"type": "object", "properties": wide}}),
        ("patterns that clash", {"guided_json": clashes}),
    ]


def _asked(client: Client, fields: dict[str, Any]) -> tuple[float, int]:
    body = {"model": "it", "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 1}
    began_s = time.perf_counter()
    answer = client.post("/v1/chat/completions", {**body, **fields})
    return time.perf_counter() - began_s, answer.status


def _rows(client: Client) -> Iterator[tuple[str, float, int]]:
    tools = large_body("it")["tools"]
    forms: _Wishes = [
        ("a small schema", {"guided_json": {"type": "object", "properties": {"a": {}}}}),
        (f"{TOOLS} tools, a call required", {"tools": tools, "tool_choice": "required"}),
    ]
    strict = [{**tool, "function": {**tool["function"], "strict": True}} for tool in tools]
    forms.append((f"{TOOLS} strict tools, to be called or not", {"tools": strict}))
    for name, fields in forms:
        yield name, *_asked(client, fields)
    for salt in ("p", "q"):
        for name, fields in hostile_wishes(salt):
            yield name, *_asked(client, fields)


@contextmanager
def _neighbour(client: Client) -> Generator[list[Outcome]]:
    """Somebody else's short answers, one after another; all of them are there at the end."""
    outcomes: list[Outcome] = []
    is_over = threading.Event()
    body = client.chat_body("Count.", model="it", max_tokens=8, ignore_eos=True)

    def ask_on() -> None:
        while not is_over.is_set():
            outcomes.append(ask(client, body))

    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(ask_on)
        try:
            yield outcomes
        finally:
            is_over.set()
        asked.result()


def _told(outcomes: Sequence[Outcome]) -> str:
    failed = sum(not outcome.is_right for outcome in outcomes)
    took_ms = [outcome.wall_s * 1000 for outcome in outcomes]
    return (
        f"{len(outcomes)} answers, {failed} failed, "
        f"{statistics.median(took_ms):.0f} ms p50, {max(took_ms):.0f} ms at most"
    )


def _memory(server: Server) -> str:
    sizes = sorted(resident_bytes(server).items())
    return ", ".join(f"{name} {size >> 20} MB" for name, size in sizes)


def main(model: str) -> None:
    """Print the table."""
    with Server.start(
        [model, "--name", "it", "--tool-parser", "hermes"], log_level="info"
    ) as server:
        client = server.client(timeout_s=_LIMIT_S)
        worker = server.worker_pid("it")
        with _neighbour(client) as calm:
            time.sleep(_CALM_S)
        before = _memory(server)
        sys.stdout.write("| what is asked for | s | status |\n|---|---|---|\n")
        with _neighbour(client) as beside:
            for name, spent_s, status in _rows(client):
                sys.stdout.write(f"| {name} | {spent_s:.2f} | {status} |\n")
                sys.stdout.flush()
        survives = "the same" if server.worker_pid("it") == worker else "another one"
        sys.stdout.write(f"\nThe worker is {survives} as before.\n")
        sys.stdout.write(
            f"A neighbour in peace: {_told(calm)}; beside all this: {_told(beside)}.\n"
        )
        sys.stdout.write(f"Memory before: {before}; after: {_memory(server)}.\n")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "smollm2")
