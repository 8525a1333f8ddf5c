"""GLM: keys and values between tags of their own."""

from typing import Any


def test_values_are_typed_and_tags_in_them_are_text(bench: Any) -> None:
    text = (
        "<tool_call>write_file<arg_key>content</arg_key><arg_value>a</arg_value>b </tool_call>c"
        "</arg_value>\n<arg_key>lines</arg_key><arg_value>[1]</arg_value></tool_call>"
    )
    found = bench.parse_anyhow(bench.family("glm"), text)
    expected = {"content": "a</arg_value>b </tool_call>c", "lines": [1]}
    assert found.values == [("write_file", expected)]


def test_call_without_arguments_needs_no_line_end(bench: Any) -> None:
    found = bench.parse_anyhow(bench.family("glm"), "<tool_call>ping</tool_call> ok")
    assert found.calls == [("ping", "{}")]
    assert found.content == "ok"


def test_tag_without_a_name_is_text(bench: Any) -> None:
    for text in ("<tool_call>", "<tool_call>a b c", "<tool_call></tool_call>", "<tool_call>ping"):
        assert bench.parse_anyhow(bench.family("glm"), text).content == text
