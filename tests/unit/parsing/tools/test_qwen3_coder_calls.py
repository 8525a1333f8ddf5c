"""Qwen3-Coder: parameters between tags, typed by the schema."""

from typing import Any

import pytest


def _call(parameters: str) -> str:
    return f"<tool_call>\n<function=write_file>\n{parameters}</function>\n</tool_call>"


@pytest.mark.parametrize(
    ("key", "text", "value"),
    [
        ("ratio", "2", 2),
        ("ratio", "x", "x"),
        ("overwrite", "True", True),
        ("lines", "[1, 2]", [1, 2]),
        ("options", "{'a': None}", {"a": None}),
        ("content", "5", "5"),
        ("note", "null", None),
        ("note", "5", "5"),
        ("undeclared", "[1]", [1]),
        ("undeclared", "text", "text"),
        ("content", "", ""),
        ("content", "  two\n\nlines \n", "  two\n\nlines \n"),
    ],
)
def test_value_has_the_type_that_its_schema_says(
    bench: Any, key: str, text: str, value: Any
) -> None:
    text = _call(f"<parameter={key}>\n{text}\n</parameter>\n")
    found = bench.parse_anyhow(bench.family("qwen3_coder"), text)
    assert found.values == [("write_file", {key: value})]


def test_missing_closing_tag_swallows_no_parameter(bench: Any) -> None:
    text = _call("<parameter=path>x<parameter=content>y</parameter>")
    found = bench.parse_anyhow(bench.family("qwen3_coder"), text)
    assert found.values == [("write_file", {"path": "x", "content": "y"})]


def test_closing_tags_inside_a_value_are_part_of_it(bench: Any) -> None:
    code = "if a:\n  '</parameter>' in b, '</function>', '<parameter=c>', '</tool_call>'"
    text = _call(f"<parameter=content>\n{code}\n</parameter>\n")
    assert bench.parse_anyhow(bench.family("qwen3_coder"), text).values == [
        ("write_file", {"content": code})
    ]


def test_call_without_its_wrapper_is_a_call(bench: Any) -> None:
    text = "Now.\n<function=write_file>\n<parameter=path>\na\n</parameter>\n</function>"
    found = bench.parse_anyhow(bench.family("qwen3_coder"), text)
    assert found.values == [("write_file", {"path": "a"})]
    assert found.content == "Now."


def test_call_that_its_model_did_not_close_is_whole(bench: Any) -> None:
    found = bench.parse_anyhow(
        bench.family("qwen3_coder"), "<tool_call>\n<function=write_file>\n<parameter=path>\na"
    )
    assert found.values == [("write_file", {"path": "a"})]


def test_call_that_a_limit_cut_is_not_closed(bench: Any) -> None:
    text = "<tool_call>\n<function=write_file>\n<parameter=path>\na"
    found = bench.parse_anyhow(bench.family("qwen3_coder"), text, cut=True)
    assert found.raw(0) == '{"path": "a'
    assert found.ended == []
