"""What a large prompt costs before the engine sees it: `python -m refloat.bench.prompts MODEL`.

An agent's body of 290 KB with 47 tools, read, checked, rendered by the model's chat template and
tokenized by a whole server (`/tokenize`). Answers nothing, so the model's speed plays no part.
"""

import json
import random
import statistics
import sys
import time
from typing import Any

from refloat.testing.client import Client
from refloat.testing.harness import Server

BODY_BYTES = 290_000
TOOLS = 47
_ROUNDS = 9
_RESULT_LINES = 60
_LIMIT_S = 300.0


def large_body(model: str, size_bytes: int = BODY_BYTES, tools: int = TOOLS) -> dict[str, Any]:
    """A conversation of tool calls and results that look like data; the same every time."""
    chance = random.Random(7)
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": "You are an agent that keeps an archive. Use the tools."},
        {"role": "user", "content": "Find out what changed in the archive since yesterday."},
    ]
    declared = [_tool(number) for number in range(tools)]
    body = {"model": model, "messages": messages, "tools": declared}
    missing = size_bytes - len(json.dumps(body))
    while missing > 0:
        turn = _round_trip(chance, len(messages), missing)
        messages += turn
        missing -= len(json.dumps(turn))
    return body


def _tool(number: int) -> dict[str, Any]:
    fields = {
        f"field_{n}": {
            "type": ("string", "integer", "boolean")[n % 3],
            "description": f"What field {n} of tool {number} is for, in a sentence as people write.",
        }
        for n in range(16)
    }
    parameters = {"type": "object", "properties": fields, "required": ["field_0"]}
    function = {
        "name": f"tool_{number}",
        "description": "Does something to an entry of the archive. " * 8,
        "parameters": parameters,
    }
    return {"type": "function", "function": function}


def _round_trip(chance: random.Random, number: int, most: int) -> list[dict[str, Any]]:
    arguments = json.dumps({"field_0": f"entry {number}"})
    function = {"name": f"tool_{number % TOOLS}", "arguments": arguments}
    call_id = f"c{number:08}"
    call = {"id": call_id, "type": "function", "function": function}
    lines = [
        f"    {chance.getrandbits(64):016x}  2026-03-{chance.randrange(1, 29):02}T10:22:07Z  line {n}"
        for n in range(_RESULT_LINES)
    ]
    content = "\n".join(lines)[: max(most - 250, 1)]
    return [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": call_id, "content": content},
    ]


def _median_ms(client: Client, body: dict[str, Any]) -> tuple[float, dict[str, Any]]:
    """Of some requests after the first, and the answer."""
    answer = client.post("/v1/tokenize", body)
    if answer.status != 200:
        raise RuntimeError(answer.body.decode())
    spent: list[float] = []
    for _ in range(_ROUNDS):
        began_s = time.perf_counter()
        client.post("/v1/tokenize", body)
        spent.append(time.perf_counter() - began_s)
    return statistics.median(spent) * 1e3, answer.json()


def main(model: str) -> None:
    """Print the table."""
    with Server.start([model, "--name", "it"], log_level="info") as server:
        client = server.client(timeout_s=_LIMIT_S)
        body = large_body("it")
        small, _ = _median_ms(client, {"model": "it", "messages": body["messages"][:2]})
        whole, told = _median_ms(client, body)
        ids = told["tokens"]
        text = client.post("/v1/detokenize", {"model": "it", "tokens": ids}).json()["prompt"]
        plain = {"model": "it", "prompt": text, "add_special_tokens": False}
        tokenized, _ = _median_ms(client, plain)
    size = len(json.dumps(body))
    rows = [
        ("two short messages", small, ""),
        (f"{size // 1000} KB, {TOOLS} tools", whole, f"{len(ids)} tokens"),
        ("the same prompt as one text: no template", tokenized, f"{len(text)} characters"),
    ]
    sys.stdout.write("| what is read, rendered and tokenized | ms, p50 | |\n|---|---|---|\n")
    for what, spent_ms, size_text in rows:
        sys.stdout.write(f"| {what} | {spent_ms:.1f} | {size_text} |\n")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "smollm2")
