"""Calls by grammar: what a family writes is a word, and every word is read as declared calls."""

import json
import random
from functools import cache
from typing import Any

import pytest

from refloat.grammar.errors import GrammarError
from refloat.grammar.grammar import Grammar
from refloat.grammar.json_schema import from_json_schema
from refloat.grammar.residual import matches
from refloat.grammar.tool_calls import text_or_calls, tool_calls
from refloat.grammar.words import word
from refloat.parsing.families import TOOL_FAMILIES

FAMILIES = sorted(TOOL_FAMILIES)
#: Formats in which strings are bare text.
TAGGED = ("qwen3_coder", "seed_oss", "glm", "minicpm")
TEXTS = (
    "",
    "Köln",
    'say "hi"\n\tand {go} [on]',
    "it's \\ a\\n",
    "x = 1 < 2",
    "</div>",
    " 7 ",
    "😀",
)


def _tool(name: str, required: list[str], **properties: Any) -> dict[str, Any]:
    parameters = {"type": "object", "properties": properties, "required": required}
    return {"type": "function", "function": {"name": name, "parameters": parameters}}


TOOLS: tuple[dict[str, Any], ...] = (
    _tool(
        "write_file",
        ["path", "mode"],
        path={"type": "string", "description": 'with "quotes" </tool_call>'},
        content={"type": "string"},
        mode={"enum": ["r", "w+", "append"]},
        level={"enum": [1, 2.5, None, "auto"]},
        size={"type": "integer", "minimum": 0, "maximum": 300},
        ratio={"type": "number"},
        force={"type": "boolean"},
        note={"type": ["string", "null"]},
        code={"type": "string", "pattern": "^[A-Z]{2}-[0-9]+$"},
        lines={"type": "array", "items": {"type": "integer"}, "maxItems": 3},
        names={"type": "array", "items": {"type": "string"}},
        options={
            "type": "object",
            "properties": {"deep": {"$ref": "#/$defs/deep"}, "why": {"type": "string"}},
            "required": ["deep"],
        },
        either={"anyOf": [{"type": "integer"}, {"type": "string"}]},
    ),
    _tool("ping", []),
    {"type": "function", "function": {"name": "bare-one"}},
)
TOOLS[0]["function"]["parameters"]["$defs"] = {
    "deep": {"type": "object", "properties": {"n": {"type": "boolean"}, "more": {"type": "array"}}}
}


def random_call(chance: random.Random) -> tuple[str, dict[str, Any]]:
    """A call that fits, in the order of the schema."""
    kind = chance.random()
    if kind < 0.2:
        return ("ping", {}) if kind < 0.1 else ("bare-one", {})
    text = chance.choice(TEXTS)
    arguments: dict[str, Any] = {
        "path": text,
        "content": chance.choice(TEXTS),
        "mode": chance.choice(["r", "w+", "append"]),
        "level": chance.choice([1, 2.5, "auto"]),
        "size": chance.randint(0, 300),
        "ratio": chance.choice([0.5, -1.25, 3, 1e-07]),
        "force": chance.random() < 0.5,
        "note": chance.choice(["some", "5"]),
        "code": "AB-12",
        "lines": [chance.randint(-9, 9) for _ in range(chance.randint(0, 3))],
        "names": [chance.choice(TEXTS[:2])],
        "options": {"deep": {"n": True}, "why": "x"},
        "either": chance.choice([5, "five"]),
    }
    needed = ("path", "mode")
    kept = {
        key: value for key, value in arguments.items() if key in needed or chance.random() < 0.6
    }
    return "write_file", kept


#: Values that a template writes in a way which the parser reads, but the grammar does not write.
_WRITTEN_OTHERWISE = {
    "minicpm": ("force", "names", "options"),
    "lfm2": ("code",),
    "llama4_pythonic": ("code",),
}


def _sized(family: str) -> int:
    return 1 if family == "gpt_oss" else 3


def _rendered(bench: Any, family: str, calls: list[Any]) -> str:
    """As the template writes it, without the mark that ends the answer itself."""
    return bench.write(family, *calls).removesuffix("<|call|>")


@cache
def _parameters() -> dict[str, Grammar]:
    functions: list[dict[str, Any]] = [tool["function"] for tool in TOOLS]
    nothing: dict[str, Any] = {"type": "object", "properties": {}}
    return {f["name"]: from_json_schema(f.get("parameters") or nothing) for f in functions}


def _fits(name: str, arguments: str) -> bool:
    text = json.dumps(json.loads(arguments), ensure_ascii=False)
    return matches(_parameters()[name], text)


def check_family(bench: Any, family: str, seeds: range) -> None:
    """Renderings are words, and words are calls."""
    grammar = tool_calls(family, TOOLS)
    parser = bench.family(family, declared=TOOLS)
    for seed in seeds:
        chance = random.Random(seed)
        calls = [random_call(chance) for _ in range(chance.randint(1, _sized(family)))]
        for _, arguments in calls:
            for key in _WRITTEN_OTHERWISE.get(family, ()):
                arguments.pop(key, None)
        text = _rendered(bench, family, calls)
        assert matches(grammar, text), text
        assert bench.parse(parser, text).values == calls
        written = word(grammar, chance, 300)
        parsed = bench.parse(parser, written)
        assert parsed.calls, written
        assert not parsed.content.strip(), written
        assert len(parsed.ended) == len(parsed.calls)
        for name, arguments in parsed.calls:
            assert _fits(name, arguments), (written, name, arguments)


def test_every_family_has_its_grammar() -> None:
    for family in FAMILIES:
        assert tool_calls(family, TOOLS).to_ebnf()


@pytest.mark.parametrize("family", FAMILIES)
def test_grammar_and_parser_agree(bench: Any, family: str) -> None:
    check_family(bench, family, range(2))


@pytest.mark.soak
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("family", FAMILIES)
def test_grammar_and_parser_agree_at_length(bench: Any, family: str) -> None:
    check_family(bench, family, range(100, 300))


@pytest.mark.parametrize("family", FAMILIES)
def test_named_single_call_is_that_function_once(bench: Any, family: str) -> None:
    grammar = tool_calls(family, TOOLS, named="ping", single=True)
    parser = bench.family(family, declared=TOOLS)
    assert matches(grammar, _rendered(bench, family, [("ping", {})]))
    assert not matches(grammar, _rendered(bench, family, [("bare-one", {})]))
    assert not matches(grammar, _rendered(bench, family, [("ping", {}), ("ping", {})]))
    assert not matches(grammar, "")
    for seed in range(3):
        text = word(grammar, random.Random(seed), 80)
        assert bench.parse(parser, text).values == [("ping", {})]


@pytest.mark.parametrize("family", TAGGED)
def test_text_that_could_end_its_value_is_not_allowed(bench: Any, family: str) -> None:
    grammar = tool_calls(family, TOOLS)
    end = {"glm": "</arg_value>", "minicpm": "]]></param>"}.get(family, "</parameter>")
    call = ("write_file", {"path": f"a\n{end}", "mode": "r"})
    assert not matches(grammar, _rendered(bench, family, [call]))
    call = ("write_file", {"path": f"a\n{end[:2]}<", "mode": "r"})
    assert matches(grammar, _rendered(bench, family, [call]))


@pytest.mark.parametrize("family", FAMILIES)
def test_text_may_stand_alone_or_before_calls(bench: Any, family: str) -> None:
    grammar = text_or_calls(family, TOOLS)
    parser = bench.family(family, declared=TOOLS)
    calls = _rendered(bench, family, [("ping", {})])
    assert matches(grammar, calls)
    assert not matches(grammar, calls.replace("ping", "absent"))
    if family != "gpt_oss":
        assert matches(grammar, "Hello < there [TOOL fun {1}")
    if family not in ("gpt_oss", "llama3_json", "llama4_pythonic"):
        assert matches(grammar, "I look it up.\n" + calls)
    for seed in range(2):
        text = word(grammar, random.Random(seed), 120)
        for name, arguments in bench.parse(parser, text).calls:
            assert _fits(name, arguments), text


def test_what_cannot_be_enforced_is_refused_with_its_path() -> None:
    odd = _tool("odd", [], a={"type": "string", "format": "color"})
    with pytest.raises(GrammarError) as caught:
        tool_calls("hermes", [TOOLS[1], odd])
    assert caught.value.path == ("1", "function", "parameters", "properties", "a", "format")
    for family, tools, named in (
        ("none", TOOLS, None),
        ("hermes", TOOLS, "absent"),
        ("hermes", [], None),
        ("hermes", [_tool("a b", [])], None),
        ("qwen3_coder", [_tool("t", [], **{"a>b": {}})], None),
        ("gemma", [_tool("t", [], a={"prefixItems": [{}]})], None),
        ("lfm2", [_tool("t", [], **{"a b": {}})], None),
    ):
        with pytest.raises(GrammarError):
            tool_calls(family, tools, named=named)


@pytest.mark.case(120)
@pytest.mark.parametrize("family", FAMILIES)
def test_description_changes_nothing_in_the_grammar(family: str) -> None:
    def described(text: str) -> str:
        path = {"type": "string", "description": text, "title": text, "examples": [text]}
        tool = _tool("open", ["path"], path=path)
        tool["function"]["description"] = text
        tool["function"]["parameters"]["description"] = text
        return tool_calls(family, [tool]).to_ebnf()

    plain = described("")
    for text in ('"quoted" [and] {braced}\n', "</tool_call>", "🙂 \\u0000 ::= |" + "x" * 2000):
        assert described(text) == plain
