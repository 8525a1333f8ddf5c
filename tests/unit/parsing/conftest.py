"""Shared by the parsers' tests: declared tools, and a text put through a parser in any pieces."""

import itertools
import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any, cast

import pytest

from refloat.parsing.calls import Calls
from refloat.parsing.declared import DeclaredTools
from refloat.parsing.families import TOOL_FAMILIES
from refloat.parsing.parts import (
    CallArguments,
    CallBegin,
    CallEnd,
    Content,
    Parser,
    Part,
    Reasoning,
    merged,
)


def _tool(name: str, **properties: Any) -> dict[str, Any]:
    parameters = {"type": "object", "properties": properties}
    return {"type": "function", "function": {"name": name, "parameters": parameters}}


TOOLS = (
    _tool("get_weather", city={"type": "string"}, days={"type": "integer"}),
    _tool(
        "write_file",
        path={"type": "string"},
        content={"type": "string"},
        ratio={"type": "number"},
        overwrite={"type": "boolean"},
        lines={"type": "array", "items": {"type": "integer"}},
        options={"type": "object"},
        note={"type": ["string", "null"]},
    ),
    _tool("ping"),
)


Call = tuple[str, dict[str, Any]]


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _bare(value: Any) -> str:
    return value if isinstance(value, str) else _json(value)


def _object(name: str, arguments: Any, key: str = "arguments") -> str:
    return f'{{"name": {_json(name)}, "{key}": {_json(arguments)}}}'


def _python(calls: Sequence[Call]) -> str:
    return ", ".join(
        f"{name}({', '.join(f'{key}={value!r}' for key, value in arguments.items())})"
        for name, arguments in calls
    )


def _gemma(value: Any) -> str:
    if isinstance(value, str):
        return f'<|"|>{value}<|"|>'
    if isinstance(value, dict):
        fields = cast("dict[str, Any]", value)
        return "{" + ",".join(f"{_gemma(key)}:{_gemma(part)}" for key, part in fields.items()) + "}"
    if isinstance(value, list):
        entries = cast("list[Any]", value)
        return "[" + ",".join(map(_gemma, entries)) + "]"
    return _json(value)


def _cdata(value: Any) -> str:
    is_text = isinstance(value, str) and any(char in value for char in "<&\n")
    return f"<![CDATA[{value}]]>" if is_text else str(value)


def _fields(arguments: dict[str, Any], form: str, write: Callable[[Any], str]) -> str:
    pairs = arguments.items()
    return "".join(form.replace("KEY", key).replace("VALUE", write(value)) for key, value in pairs)


def _write_kimi(calls: Sequence[Call]) -> str:
    return "".join(
        f"<|tool_call_begin|>functions.{name}:{number}<|tool_call_argument_begin|>"
        f"{_json(arguments)}<|tool_call_end|>"
        for number, (name, arguments) in enumerate(calls)
    )


#: Each family's calls, as its template writes them.
WRITERS: dict[str, Callable[[Sequence[Call]], str]] = {
    "hermes": lambda calls: "\n".join(
        f"<tool_call>\n{_object(*call)}\n</tool_call>" for call in calls
    ),
    "qwen3_coder": lambda calls: "\n".join(
        f"<tool_call>\n<function={name}>\n"
        + _fields(arguments, "<parameter=KEY>\nVALUE\n</parameter>\n", _bare)
        + "</function>\n</tool_call>"
        for name, arguments in calls
    ),
    "seed_oss": lambda calls: "\n".join(
        f"<seed:tool_call>\n<function={name}>\n"
        + _fields(arguments, "<parameter=KEY>VALUE</parameter>\n", _bare)
        + "</function>\n</seed:tool_call>"
        for name, arguments in calls
    ),
    "llama3_json": lambda calls: "; ".join(_object(*call, "parameters") for call in calls),
    "llama4_pythonic": lambda calls: f"[{_python(calls)}]",
    "lfm2": lambda calls: f"<|tool_call_start|>[{_python(calls)}]<|tool_call_end|>",
    "mistral": lambda calls: (
        "[TOOL_CALLS]["
        + ", ".join(f'{_object(*call)[:-1]}, "id": "abcdefghi"}}' for call in calls)
        + "]"
    ),
    "devstral": lambda calls: "".join(
        f"[TOOL_CALLS]{name}[ARGS]{_json(arguments)}" for name, arguments in calls
    ),
    "phi4": lambda calls: f"functools[{', '.join(_object(*call) for call in calls)}]",
    "granite": lambda calls: f"<|tool_call|>[{', '.join(_object(*call) for call in calls)}]",
    "gpt_oss": lambda calls: (
        "<|channel|>analysis<|message|><|end|>"
        + "".join(
            f"<|start|>assistant<|channel|>commentary to=functions.{name} <|constrain|>json<|message|>"
            f"{_json(arguments)}<|call|>"
            for name, arguments in calls
        )
    ),
    "gemma": lambda calls: "".join(
        f"<|tool_call>call:{name}{{"
        + ",".join(f"{key}:{_gemma(value)}" for key, value in arguments.items())
        + "}<tool_call|>"
        for name, arguments in calls
    ),
    "deepseek_v3": lambda calls: (
        "<｜tool▁calls▁begin｜>"
        + "\n".join(
            f"<｜tool▁call▁begin｜>function<｜tool▁sep｜>{name}\n```json\n{_json(arguments)}\n```"
            "<｜tool▁call▁end｜>"
            for name, arguments in calls
        )
        + "<｜tool▁calls▁end｜>"
    ),
    "deepseek_v31": lambda calls: (
        "<｜tool▁calls▁begin｜>"
        + "".join(
            f"<｜tool▁call▁begin｜>{name}<｜tool▁sep｜>{_json(arguments)}<｜tool▁call▁end｜>"
            for name, arguments in calls
        )
        + "<｜tool▁calls▁end｜>"
    ),
    "glm": lambda calls: "\n".join(
        f"<tool_call>{name}\n"
        + _fields(arguments, "<arg_key>KEY</arg_key>\n<arg_value>VALUE</arg_value>\n", _bare)
        + "</tool_call>"
        for name, arguments in calls
    ),
    "kimi_k2": lambda calls: (
        "<|tool_calls_section_begin|>" + _write_kimi(calls) + "<|tool_calls_section_end|>"
    ),
    "minicpm": lambda calls: "\n".join(
        f'<function name="{name}">'
        + _fields(arguments, '<param name="KEY">VALUE</param>', _cdata)
        + "</function>"
        for name, arguments in calls
    ),
}


class Parsed:
    """What came out, folded as an answer that is not streamed."""

    def __init__(self, parts: Iterable[Part]) -> None:
        self.parts = merged(parts)
        self.content = "".join(part.text for part in self.parts if isinstance(part, Content))
        self.reasoning = "".join(part.text for part in self.parts if isinstance(part, Reasoning))
        self.calls = [
            (part.name, self.raw(part.call)) for part in self.parts if isinstance(part, CallBegin)
        ]
        self.ids = [part.id for part in self.parts if isinstance(part, CallBegin)]
        self.ended = [part.call for part in self.parts if isinstance(part, CallEnd)]

    def raw(self, call: int) -> str:
        """A call's arguments as they came."""
        arguments = (part for part in self.parts if isinstance(part, CallArguments))
        return "".join(part.text for part in arguments if part.call == call)

    @property
    def values(self) -> list[tuple[str, Any]]:
        """Calls with their arguments decoded."""
        return [(name, json.loads(raw)) for name, raw in self.calls]


class ParseBench:
    """Makes parsers and runs them."""

    tools = TOOLS
    families = tuple(WRITERS)

    def write(self, family: str, *calls: Call) -> str:
        """Calls as a model of this family writes them."""
        return WRITERS[family](calls)

    def calls(self, *, single: bool = False, declared: Sequence[Any] = TOOLS) -> Calls:
        """A collector whose ids are counted."""
        numbers = itertools.count()
        return Calls(DeclaredTools(declared), lambda: f"id{next(numbers)}", single=single)

    def family(
        self, name: str, *, single: bool = False, declared: Sequence[Any] = TOOLS
    ) -> Callable[[], Parser]:
        """Makes parsers of one family of calls."""
        return lambda: TOOL_FAMILIES[name].parser(self.calls(single=single, declared=declared))

    def parse(
        self,
        make: Callable[[], Parser],
        text: str,
        sizes: Sequence[int] = (),
        *,
        cut: bool = False,
    ) -> Parsed:
        """A text in pieces of these sizes, the last of which repeats; none: all in one."""
        parser = make()
        parts: list[Part] = []
        for piece in _pieces(text, sizes):
            parts += parser.push(piece)
        return Parsed([*parts, *parser.finish(cut=cut)])

    def fold(self, parts: Iterable[Part]) -> Parsed:
        """Parts as an answer."""
        return Parsed(parts)

    def parse_anyhow(self, make: Callable[[], Parser], text: str, *, cut: bool = False) -> Parsed:
        """The same parts, however a text is cut: whole, and in pieces of every size up to 7."""
        whole = self.parse(make, text, cut=cut)
        for size in range(1, 8):
            assert self.parse(make, text, (size,), cut=cut).parts == whole.parts, size
        return whole


def _pieces(text: str, sizes: Sequence[int]) -> Iterable[str]:
    if not sizes:
        yield text
        return
    at = 0
    for size in itertools.chain(sizes, itertools.repeat(sizes[-1])):
        if at >= len(text):
            return
        yield text[at : at + size]
        at += size


@pytest.fixture(scope="session")
def bench() -> ParseBench:
    """See `ParseBench`."""
    return ParseBench()
