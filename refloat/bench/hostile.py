"""How long a server takes over grammars that it must not take, and over an agent's tools:
`python -m refloat.bench.hostile MODEL`.

Each is new to the server, so that none is answered from a verdict that is there already; hostile ones
come one directly behind the other.
"""

import sys
import time
from collections.abc import Iterator
from typing import Any

from refloat.bench.prompts import TOOLS, large_body
from refloat.testing.client import Client
from refloat.testing.harness import Server

_LIMIT_S = 120.0
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


def main(model: str) -> None:
    """Print the table."""
    with Server.start(
        [model, "--name", "it", "--tool-parser", "hermes"], log_level="info"
    ) as server:
        worker = server.worker_pid("it")
        sys.stdout.write("| what is asked for | s | status |\n|---|---|---|\n")
        for name, spent_s, status in _rows(server.client(timeout_s=_LIMIT_S)):
            sys.stdout.write(f"| {name} | {spent_s:.2f} | {status} |\n")
            sys.stdout.flush()
        survives = "the same" if server.worker_pid("it") == worker else "another one"
        sys.stdout.write(f"\nThe worker is {survives} as before.\n")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "smollm2")
