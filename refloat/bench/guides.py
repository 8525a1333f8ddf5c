"""What holding answers to a form costs the gateway and prep: `python -m refloat.bench.guides`.

A verdict that is there already, for schemas of many sizes, and the grammar of what may still follow a
text. Loads no model: what a trial takes depends on the tokenizer.
"""

import asyncio
import json
import statistics
import sys
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

from refloat.generation.guides import GuideShelf
from refloat.generation.ports import PrepPort
from refloat.grammar.ebnf import from_ebnf
from refloat.grammar.json_schema import from_json_schema
from refloat.grammar.residual import residual
from refloat.wire.guide import Guide, GuideKind, GuideRequest

_REPEATS = 51
_TEXT: dict[str, Any] = {"type": "string"}
_RECORD: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": _TEXT,
        "score": {"type": "number"},
        "tags": {"type": "array", "items": _TEXT},
    },
    "required": ["name", "score", "tags"],
}
_RECORDS: dict[str, Any] = {"type": "array", "items": _RECORD}


class Cost(NamedTuple):
    """One figure."""

    what: str
    took_s: float


class _Prep:
    """Has a verdict at once; the shelf is what is measured."""

    async def make_guide(self, wish: GuideRequest, *, tenant: str = "") -> Guide:
        return Guide("root ::= x" * 500)


def costs() -> Iterator[Cost]:
    """All figures: the median of some runs each."""
    for tools in (1, 47):
        text = json.dumps([_tool(number) for number in range(tools)])
        what = f"verdict that is there, {tools} tools, {len(text) / 1000:.0f} KB"
        yield Cost(what, asyncio.run(_verdict(text)))
    ebnf = from_json_schema(_RECORDS).to_ebnf()
    document = json.dumps(
        [{"name": "Ärö" * 6, "score": n / 7, "tags": ["a", "b"]} for n in range(200)]
    )
    for chars in (500, 4000):
        took_s = _median(lambda chars=chars: residual(from_ebnf(ebnf), document[:chars]), 5)
        yield Cost(f"what may follow {chars} characters of JSON", took_s)


async def _verdict(text: str) -> float:
    prep: Any = _Prep()
    shelf = GuideShelf(_as_port(prep))
    wish = GuideRequest(GuideKind.CALLS, text, "tool_choice")
    await shelf.guide(wish, "")
    times: list[float] = []
    for _ in range(_REPEATS):
        began = time.perf_counter()
        await shelf.guide(wish, "")
        times.append(time.perf_counter() - began)
    return statistics.median(times)


def _as_port(prep: Any) -> PrepPort:
    return prep


def _tool(number: int) -> dict[str, Any]:
    properties = {f"field_{n}": {**_TEXT, "description": "what it is for " * 14} for n in range(20)}
    parameters = {"type": "object", "properties": properties}
    return {"type": "function", "function": {"name": f"tool_{number}", "parameters": parameters}}


def _median(run: Any, repeats: int) -> float:
    times: list[float] = []
    for _ in range(repeats):
        began = time.perf_counter()
        run()
        times.append(time.perf_counter() - began)
    return statistics.median(times)


def main() -> None:
    """Print the table."""
    sys.stdout.write("| what | ms |\n|---|---|\n")
    for cost in costs():
        sys.stdout.write(f"| {cost.what} | {cost.took_s * 1e3:.2f} |\n")


if __name__ == "__main__":
    main()
