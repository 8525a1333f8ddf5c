"""gpt-oss: messages in channels, of which some are calls."""

from typing import Any

import pytest

ARGUMENTS = '{"city": "Oslo"}'


@pytest.mark.parametrize(
    "header",
    [
        "<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>",
        " to=functions.get_weather<|channel|>commentary json<|message|>",
        "<|start|>assistant<|start|>assistant<|channel|>commentary to=get_weather<|message|>",
        "<|channel|>analysis to=functions.get_weather code<|message|>",
    ],
)
def test_call_is_found_by_its_recipient(bench: Any, header: str) -> None:
    for end in ("", "<|call|>", "<|end|><|start|>assistant<|channel|>final<|message|>"):
        found = bench.parse_anyhow(bench.family("gpt_oss"), header + ARGUMENTS + end)
        assert found.calls == [("get_weather", ARGUMENTS)]
        assert found.content == ""


def test_channels_are_told_apart(bench: Any) -> None:
    text = (
        "<|channel|>analysis<|message|>Think.<|end|><|start|>assistant<|channel|>commentary"
        "<|message|>I will look.<|end|><|start|>assistant<|channel|>final<|message|>Done.<|return|>"
    )
    found = bench.parse_anyhow(bench.family("gpt_oss"), text)
    assert (found.reasoning, found.content) == ("Think.", "I will look.Done.")


@pytest.mark.parametrize(
    "text",
    [
        "<|channel|>final<|message|>word",
        "word",
        "<|message|>word<|message|>",
        "<|end|><|end|>word",
        "<|channel|>analysis<|channel|>final<|message|>word<|start|><|start|>",
        "<|channel|>commentary to=functions.nobody<|message|>word<|call|>",
        "<|start|>word",
    ],
)
def test_unexpected_marks_end_nothing_and_stay_hidden(bench: Any, text: str) -> None:
    found = bench.parse_anyhow(bench.family("gpt_oss"), text)
    assert found.content == "word"


def test_reasoning_that_ends_nowhere_is_reasoning(bench: Any) -> None:
    found = bench.parse_anyhow(
        bench.family("gpt_oss"), "<|channel|>analysis<|message|>so", cut=True
    )
    assert (found.reasoning, found.content) == ("so", "")


def test_header_that_a_limit_cut_is_left_out(bench: Any) -> None:
    text = "<|channel|>analysis<|message|>so<|end|><|start|>assistant<|channel|>commentary to=fun"
    found = bench.parse_anyhow(bench.family("gpt_oss"), text, cut=True)
    assert (found.reasoning, found.content) == ("so", "")


def test_arguments_that_are_no_json_keep_their_blanks(bench: Any) -> None:
    text = "<|channel|>commentary to=functions.ping<|message|>say  it\n again<|call|>"
    found = bench.parse_anyhow(bench.family("gpt_oss"), text)
    assert found.calls == [("ping", "say  it\n again")]
