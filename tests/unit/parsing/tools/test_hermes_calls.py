"""Qwen 2.5 and 3, Hermes: JSON between `<tool_call>` tags."""

from typing import Any


def test_text_around_and_between_calls_is_kept_in_order(bench: Any) -> None:
    call = '<tool_call>\n{"name": "ping", "arguments": {}}\n</tool_call>'
    found = bench.parse_anyhow(bench.family("hermes"), f"A{call}B{call}C")
    assert found.content == "ABC"
    assert found.calls == [("ping", "{}")] * 2


def test_blanks_before_a_call_come_only_if_text_follows_and_those_behind_never(bench: Any) -> None:
    call = '<tool_call>{"name": "ping"}</tool_call>'
    for text, content in (
        (f"A \n{call}\n B", "A \nB"),
        (f"A\n{call} {call}\n", "A"),
        (f"\n{call}B", "B"),
        ("A \n", "A \n"),
        (f"A{call}B \n", "AB \n"),
    ):
        assert bench.parse_anyhow(bench.family("hermes"), text).content == content


def test_arguments_before_the_name_are_the_calls(bench: Any) -> None:
    text = '<tool_call>{"arguments": {"city": "Oslo"}, "name": "get_weather"}</tool_call>'
    assert bench.parse_anyhow(bench.family("hermes"), text).values == [
        ("get_weather", {"city": "Oslo"})
    ]


def test_arguments_as_a_json_string_are_unpacked(bench: Any) -> None:
    text = '<tool_call>{"name": "get_weather", "arguments": "{\\"city\\": \\"Oslo\\"}"}</tool_call>'
    assert bench.parse_anyhow(bench.family("hermes"), text).raw(0) == '{"city": "Oslo"}'


def test_arguments_that_are_missing_or_null_are_an_empty_object(bench: Any) -> None:
    for text in ('{"name": "ping"}', '{"name": "ping", "arguments": null}'):
        found = bench.parse_anyhow(bench.family("hermes"), f"<tool_call>{text}</tool_call>")
        assert found.calls == [("ping", "{}")]
        assert found.content == ""


def test_braces_too_many_or_too_few_do_not_leak(bench: Any) -> None:
    whole = '{"name": "get_weather", "arguments": {"city": "Oslo"}}'
    for text in (whole[:-1], whole + "}", whole + "}]\n"):
        found = bench.parse_anyhow(bench.family("hermes"), f"<tool_call>\n{text}\n</tool_call>x")
        assert found.values == [("get_weather", {"city": "Oslo"})]
        assert found.content == "x"


def test_raw_line_end_inside_a_string_becomes_json(bench: Any) -> None:
    text = '<tool_call>{"name": "get_weather", "arguments": {"city": "a\nb\\d"}}</tool_call>'
    assert bench.parse_anyhow(bench.family("hermes"), text).values == [
        ("get_weather", {"city": "a\nb\\d"})
    ]


def test_closing_tag_that_never_comes_ends_no_call_early(bench: Any) -> None:
    text = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Oslo"}}'
    found = bench.parse_anyhow(bench.family("hermes"), text)
    assert found.values == [("get_weather", {"city": "Oslo"})]
    assert found.ended == [0]


def test_broken_arguments_are_passed_on_as_they_are(bench: Any) -> None:
    text = '<tool_call>{"name": "get_weather", "arguments": {"city": [1}}</tool_call>x'
    found = bench.parse_anyhow(bench.family("hermes"), text)
    assert found.raw(0).startswith('{"city": [1}')
    assert found.content == "x"


def test_rubbish_behind_whole_arguments_is_no_part_of_them(bench: Any) -> None:
    text = '<tool_call>{"name": "get_weather", "arguments": {"city": "Oslo"} so}</tool_call>x'
    found = bench.parse_anyhow(bench.family("hermes"), text)
    assert found.values == [("get_weather", {"city": "Oslo"})]
    assert found.content == "x"


def test_sample_json_in_an_answer_is_text(bench: Any) -> None:
    text = 'Use {"name": "get_weather", "arguments": {"city": "Oslo"}} like this: <tool_call> ...'
    assert bench.parse_anyhow(bench.family("hermes"), text).content == text


def test_call_cut_before_its_name_is_left_out(bench: Any) -> None:
    text = 'Wait.\n<tool_call>\n{"name": "get_wea'
    assert bench.parse_anyhow(bench.family("hermes"), text, cut=True).content == "Wait."
    # The model itself ended there: then it was never meant to be a call.
    assert bench.parse_anyhow(bench.family("hermes"), text).content == text
