"""What parsing calls and reasoning costs for each token: `python -m refloat.bench.parsers`.

Every text is taken in pieces of four characters, as tokens are on average. Loads no model.
"""

import json
import sys
import time
from typing import NamedTuple

from refloat.parsing.answer import Format
from refloat.parsing.declared import DeclaredTools
from refloat.parsing.vocabulary import Vocabulary

CHARS_PER_TOKEN = 4
_REPEATS = 5
_TOOLS = DeclaredTools(
    [
        {
            "function": {
                "name": "write",
                "parameters": {"properties": {"text": {"type": "string"}, "n": {"type": "array"}}},
            }
        }
    ]
)
_TEXT = 'def f(a):\n    return {"a": [a < 1, "it\'s"]}  # <tag> & "quotes"\n' * 150
_PROSE = "The ship left the harbour before the rain; nobody saw its light.\n\n" * 150
_JSON = json.dumps({"text": _TEXT, "n": list(range(2_000))})


class Sample(NamedTuple):
    """A text and what it is parsed by."""

    name: str
    tools: str
    reasoning: str | None
    text: str


def samples() -> list[Sample]:
    """Long texts of each kind."""
    numbers = json.dumps(list(range(2_000)))
    return [
        Sample("text beside tools", "hermes", "think", _PROSE),
        Sample("reasoning", "hermes", "think", f"<think>{_PROSE}</think>ok"),
        _call("hermes", f'<tool_call>{{"name": "write", "arguments": {_JSON}}}</tool_call>'),
        _call("mistral", f"[TOOL_CALLS]write[ARGS]{_JSON}"),
        _call("gpt_oss", f"<|channel|>commentary to=functions.write<|message|>{_JSON}<|call|>"),
        _call(
            "qwen3_coder",
            f"<function=write>\n<parameter=text>\n{_TEXT}\n</parameter>\n<parameter=n>\n{numbers}\n"
            "</parameter>\n</function>",
        ),
        _call(
            "glm",
            f"<tool_call>write<arg_key>text</arg_key><arg_value>{_TEXT}</arg_value><arg_key>n"
            f"</arg_key><arg_value>{numbers}</arg_value></tool_call>",
        ),
        _call("llama4_pythonic", f"[write(text={_TEXT!r}, n={numbers})]"),
        _call("gemma", f'<|tool_call>call:write{{text:<|"|>{_TEXT}<|"|>,n:{numbers}}}<tool_call|>'),
    ]


def cost_us(sample: Sample) -> float:
    """Microseconds for each token: the best of some runs, since others only ever disturb."""
    vocabulary = Vocabulary(b"", [0], frozenset(), strip_leading_space=False, exact=True)
    step, text = CHARS_PER_TOKEN, sample.text
    pieces = [text[at : at + step] for at in range(0, len(text), step)]
    best = float("inf")
    for _ in range(_REPEATS):
        parser = Format(sample.tools, sample.reasoning).parser(_TOOLS, vocabulary)
        assert parser is not None
        began_s = time.perf_counter()
        for piece in pieces:
            parser.push(piece)
        parser.finish(cut=False)
        best = min(best, time.perf_counter() - began_s)
    return best / len(pieces) * 1e6


def _call(tools: str, text: str) -> Sample:
    return Sample(f"arguments, {tools}", tools, None, text)


def main() -> None:
    """Print the table."""
    sys.stdout.write("| what | µs for a token |\n|---|---|\n")
    for sample in samples():
        sys.stdout.write(f"| {sample.name} | {cost_us(sample):.1f} |\n")


if __name__ == "__main__":
    main()
