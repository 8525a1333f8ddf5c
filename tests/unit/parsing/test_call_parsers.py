"""What holds for every family of calls, whatever the text and however it is cut."""

import json
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refloat.parsing.families import TOOL_FAMILIES

FAMILIES = tuple(TOOL_FAMILIES)
#: Their calls stand at the beginning of an answer, without marks.
BARE = frozenset(("llama3_json", "llama4_pythonic"))
EXAMPLES = settings(max_examples=12, deadline=None, derandomize=True)

MARKS = sorted({mark for family in TOOL_FAMILIES.values() for mark in family.marks})
NASTY = [
    *MARKS,
    *("</parameter>", "</function>", "</tool_call>", "</arg_value>", "</param>", "<tool_call>"),
    *('"', "'", "\\", "{", "}", "[", "]", "\n", "\t", " ", ",", ":", "(", ")", "\\n", '\\"', "é"),
    *("東京", "🚲", "\u2028", "null", "```", "; ", "}}", '"}', "\x01", "[TOOL_CALLS]", "name"),
]


def texts() -> st.SearchStrategy[str]:
    """Text of nasty parts. A dot keeps tags apart that together could only be read as an end."""
    parts = st.lists(st.sampled_from(NASTY) | st.text(max_size=4), max_size=6)
    # Nothing can stand for Gemma's own quotes, or for the end of CDATA, inside of them.
    forbidden = ('<|"|>', "<escape>", "]]>")
    return parts.map(".".join).filter(lambda text: not any(part in text for part in forbidden))


def values() -> st.SearchStrategy[Any]:
    """JSON values of any depth."""
    numbers = st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False)
    return st.recursive(
        st.none() | st.booleans() | numbers | texts(),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts(), inner, max_size=3),
        max_leaves=5,
    )


def arguments() -> st.SearchStrategy[dict[str, Any]]:
    """What a call of `write_file` may have, by its schema."""
    return st.fixed_dictionaries(
        {},
        optional={
            "path": texts(),
            "content": texts(),
            "ratio": st.floats(allow_nan=False, allow_infinity=False),
            "overwrite": st.booleans(),
            "lines": st.lists(values(), max_size=3),
            "options": st.dictionaries(texts(), values(), max_size=3),
        },
    )


sizes = st.lists(st.integers(1, 9), min_size=1, max_size=8)


@pytest.mark.parametrize("family", FAMILIES)
@EXAMPLES
@given(first=arguments(), second=arguments(), cuts=sizes)
def test_call_written_and_parsed_is_the_same_call_in_any_pieces(
    bench: Any, family: str, first: dict[str, Any], second: dict[str, Any], cuts: list[int]
) -> None:
    calls: list[Any] = [("write_file", first), ("ping", {}), ("write_file", second)]
    text = bench.write(family, *calls)
    make = bench.family(family)
    whole = bench.parse(make, text)
    assert whole.values == calls
    assert whole.content == ""
    assert whole.ended == [0, 1, 2]
    assert bench.parse(make, text, cuts).parts == whole.parts


def soups() -> st.SearchStrategy[str]:
    """What no model writes: marks, pieces of calls and words in any order."""
    pieces = [
        *('{"name": "ping", "arguments": {}}', '{"name": "get_weather", "arguments": {"city": "'),
        *("<function=write_file>", "<parameter=path>", "ping(", "path=", "call:ping{", "ping\n"),
        *("functions.ping:0", "ping[ARGS]{", " to=functions.ping", "<arg_key>path</arg_key>"),
        *("<function", "commentary", "analysis", "word", "[ping()]", "<![CDATA[", "ping"),
    ]
    return st.lists(st.sampled_from([*MARKS, *NASTY, *pieces]), max_size=24).map("".join)


@pytest.mark.parametrize("family", FAMILIES)
@settings(EXAMPLES, max_examples=40)
@given(text=soups(), cuts=sizes, cut=st.booleans())
def test_any_text_is_parsed_the_same_in_any_pieces(
    bench: Any, family: str, text: str, cuts: list[int], cut: bool
) -> None:
    make = bench.family(family)
    whole = bench.parse(make, text, cut=cut)
    assert bench.parse(make, text, cuts, cut=cut).parts == whole.parts
    if not cut:
        assert len(whole.ended) == len(whole.calls)


@pytest.mark.parametrize("family", [name for name in FAMILIES if name != "gpt_oss"])
@settings(EXAMPLES, max_examples=30)
@given(text=soups(), cuts=sizes)
def test_text_without_calls_to_declared_tools_stays_as_it_is(
    bench: Any, family: str, text: str, cuts: list[int]
) -> None:
    make = bench.family(family, declared=())
    assert bench.parse(make, text, cuts).content == text


@pytest.mark.parametrize("family", FAMILIES)
def test_text_between_words_and_calls_is_neither_lost_nor_said_twice(
    bench: Any, family: str
) -> None:
    words = [f"word{number}" for number in range(6)]
    call = bench.write(family, ("get_weather", {"city": "word2"}))
    before = "" if family in BARE else f"{words[0]} {words[1]}\n\n"
    text = f"{before}{call}\n{words[3]} {words[4]}{words[5]}"
    found = bench.parse_anyhow(bench.family(family), text)
    assert found.values == [("get_weather", {"city": "word2"})]
    said = found.content + found.raw(0)
    expected = words[2:] if family in BARE else words
    assert sorted(re.findall(r"word\d", said)) == expected


@pytest.mark.parametrize("family", FAMILIES)
def test_call_cut_by_a_limit_is_a_prefix_of_the_whole_one(bench: Any, family: str) -> None:
    arguments = {"path": "/tmp/Zü\n", "content": 'a "b" \\ {', "lines": [1, 23], "overwrite": True}
    text = bench.write(family, ("write_file", arguments), ("ping", {}))
    make = bench.family(family)
    full = bench.parse(make, text)
    for length in range(len(text)):
        part = bench.parse(make, text[:length], (3,), cut=True)
        assert part.parts == bench.parse(make, text[:length], cut=True).parts
        assert len(part.calls) <= len(full.calls)
        for (name, raw), (whole_name, whole) in zip(part.calls, full.calls, strict=False):
            assert name == whole_name
            assert whole.startswith(raw)


@pytest.mark.parametrize("family", FAMILIES)
def test_single_call_is_all_where_no_more_are_wanted(bench: Any, family: str) -> None:
    text = bench.write(family, ("ping", {}), ("get_weather", {"city": "Oslo"}))
    found = bench.parse_anyhow(bench.family(family, single=True), text + " and more")
    assert found.values == [("ping", {})]
    assert found.content == ""


@pytest.mark.parametrize("family", FAMILIES)
def test_call_to_an_undeclared_tool_is_text(bench: Any, family: str) -> None:
    text = bench.write(family, ("nobody", {"city": "Oslo"}))
    found = bench.parse_anyhow(bench.family(family), text)
    assert found.calls == []
    assert "Oslo" in found.content
    if family != "gpt_oss":
        assert found.content == text


@pytest.mark.parametrize("family", FAMILIES)
def test_call_without_parameters_has_an_empty_object(bench: Any, family: str) -> None:
    found = bench.parse_anyhow(bench.family(family), bench.write(family, ("ping", {})))
    assert found.calls == [("ping", "{}")]


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(
    "value", ["printf ${HOME", "} ]", "</tool_call>", "Zürich 東京 🚲", '\\"\n\t', "null", "1"]
)
def test_string_argument_arrives_exactly(bench: Any, family: str, value: str) -> None:
    found = bench.parse_anyhow(
        bench.family(family), bench.write(family, ("get_weather", {"city": value}))
    )
    assert found.values == [("get_weather", {"city": value})]


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("value", [5, True, None, {"a": {"b": [1]}}])
def test_last_argument_that_is_no_string_keeps_its_braces(
    bench: Any, family: str, value: Any
) -> None:
    key = {int: "ratio", bool: "overwrite", type(None): "note", dict: "options"}[type(value)]
    found = bench.parse_anyhow(
        bench.family(family), bench.write(family, ("write_file", {key: value}))
    )
    assert json.loads(found.raw(0)) == {key: value}


@pytest.mark.parametrize("family", FAMILIES)
def test_long_arguments_stream_as_they_arrive(bench: Any, family: str) -> None:
    text = bench.write(family, ("write_file", {"content": "x" * 400}))
    parser = bench.family(family)()
    middle = text.index("x" * 400) + 200
    parts = bench.fold(parser.push(text[:middle]))
    assert parts.raw(0).count("x") >= 180
