"""Reasoning between tags, wherever the opening one stands and however the text is cut."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refloat.parsing.families import REASONING_FAMILIES
from refloat.parsing.reasoning.tagged import TaggedReasoning, Tags, prompt_opens
from refloat.parsing.reasoning.think import THINK, THINK_KIMI

TAGGED = {name: family.tags for name, family in REASONING_FAMILIES.items() if family.tags}


def _make(tags: Tags, *, opened: bool = False) -> Callable[[], TaggedReasoning]:
    return lambda: TaggedReasoning(tags, opened=opened)


@pytest.mark.parametrize("tags", TAGGED.values(), ids=TAGGED)
def test_reasoning_and_answer_are_told_apart(bench: Any, tags: Tags) -> None:
    answer = f"{tags.answer_opens}answer{tags.answer_closes}"
    text = f"\n{tags.opens}\nplan < plan\n{tags.closes}\n\n{answer}"
    found = bench.parse_anyhow(_make(tags), text)
    assert (found.reasoning, found.content) == ("plan < plan", "answer")


def test_block_that_the_prompt_opened_needs_no_opening_tag(bench: Any) -> None:
    for text in ("thoughts</think>answer", "\nthoughts\n</think>\n\nanswer"):
        found = bench.parse_anyhow(_make(THINK, opened=True), text)
        assert (found.reasoning, found.content) == ("thoughts", "answer")


def test_block_that_is_opened_twice_is_opened_once(bench: Any) -> None:
    found = bench.parse_anyhow(_make(THINK, opened=True), "<think>\nthoughts</think>answer")
    assert (found.reasoning, found.content) == ("thoughts", "answer")


def test_answer_without_reasoning_is_text_to_the_character(bench: Any) -> None:
    for text in ("  plain", "", " ", "a <think>b</think> c", "<thin", "</think>"):
        assert bench.parse_anyhow(_make(THINK), text).content == text


def test_text_that_ends_inside_is_reasoning(bench: Any) -> None:
    for cut in (False, True):
        found = bench.parse_anyhow(_make(THINK), "<think>so </th", cut=cut)
        assert (found.reasoning, found.content) == ("so </th", "")


def test_closing_tag_quoted_inside_loses_no_character(bench: Any) -> None:
    found = bench.parse_anyhow(_make(THINK), "<think>the tag '</think>' ends it</think>ok")
    assert (found.reasoning, found.content) == ("the tag '", "' ends it</think>ok")


def test_empty_block_is_no_reasoning(bench: Any) -> None:
    found = bench.parse_anyhow(_make(THINK), "<think>\n\n</think>\n\nok")
    assert (found.reasoning, found.content) == ("", "ok")


def test_mark_of_a_call_ends_a_block_that_was_not_closed(bench: Any) -> None:
    found = bench.parse_anyhow(_make(THINK_KIMI), "<think>so\n<|tool_calls_section_begin|>x")
    assert (found.reasoning, found.content) == ("so", "<|tool_calls_section_begin|>x")


@pytest.mark.parametrize(
    ("tail", "opens"),
    [
        ("<|im_start|>assistant\n<think>\n", True),
        ("<｜Assistant｜><think>", True),
        ("<|im_start|>assistant\n", False),
        ("<think>\n\n</think>\n\n", False),
        ("what is <think>?<|im_end|>\n<|im_start|>assistant\n", False),
    ],
)
def test_prompt_opens_a_block_only_at_its_very_end(tail: str, opens: bool) -> None:
    assert prompt_opens(THINK, tail) is opens


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    pieces=st.lists(
        st.sampled_from(["<think>", "</think>", "<", "/think>", "a", " ", "\n", "<response>", "é"]),
        max_size=14,
    ),
    cuts=st.lists(st.integers(1, 6), min_size=1, max_size=6),
    opened=st.booleans(),
)
def test_any_text_keeps_all_but_tags_and_blanks(
    bench: Any, pieces: list[str], cuts: list[int], opened: bool
) -> None:
    text = "".join(pieces)
    whole = bench.parse(_make(THINK, opened=opened), text)
    assert bench.parse(_make(THINK, opened=opened), text, cuts).parts == whole.parts
    said = "".join((whole.reasoning + whole.content).split())
    lost = "".join(text.split())
    for tag in ("<think>", "</think>"):
        lost, said = lost.replace(tag, ""), said.replace(tag, "")
    assert said == lost
