"""The shape of the workload, and what is called a wrong answer of it."""

import json
import re

import pytest

from refloat.drill.soak import SoakResult, chat_path, fault_of
from refloat.drill.workload import Shape, turns
from refloat.testing.outcome import NO_ANSWER, Outcome

RIGHT = Outcome(
    200,
    {0: "yes"},
    {0: "stop"},
    usage={"completion_tokens": 2},
    is_whole=True,
)


def test_round_is_a_tiny_request_and_three_turns_that_grow_with_all_tools() -> None:
    tiny, *grown = turns(Shape())
    assert "tools" not in tiny.body
    assert [len(turn.body["tools"]) for turn in grown] == [46] * 3
    names = [tool["function"]["name"] for tool in grown[0].body["tools"]]
    assert len(set(names)) == 46
    sizes = [len(json.dumps(turn.body)) / 3.2 for turn in grown]
    assert sizes == pytest.approx([12_000, 12_600, 14_300], rel=0.05)
    assert (
        grown[1].body["messages"][: len(grown[0].body["messages"]) - 1]
        == (grown[0].body["messages"][:-1])
    )
    assert all(turn.body["stream_options"] == {"include_usage": True} for turn in (tiny, *grown))


def test_results_look_like_data_or_like_prose() -> None:
    def result(shape: Shape) -> str:
        return next(m["content"] for m in turns(shape)[1].body["messages"] if m["role"] == "tool")

    data, prose = result(Shape()), result(Shape(is_prose=True))
    digits = len(re.findall(r"\d", data)) / len(data)
    marks = len(re.findall(r"[^\w\s]", data)) / len(data)
    assert 0.1 < digits < 0.25
    assert 0.08 < marks < 0.2
    assert not re.search(r"\d", prose)


def test_round_is_the_same_for_a_seed_and_another_for_another() -> None:
    assert turns(Shape(seed=3)) == turns(Shape(seed=3))
    assert turns(Shape(seed=3)) != turns(Shape(seed=4))


def test_scale_makes_it_fit_small_models() -> None:
    small = turns(Shape(scale=0.1, tools=3))[-1].body
    assert len(json.dumps(small)) / 3.2 < 2_500


@pytest.mark.parametrize(
    ("outcome", "word"),
    [
        (Outcome(NO_ANSWER, error={"message": "refused", "type": "transport"}), "no answer"),
        (Outcome(400, error={"message": "check it"}, is_whole=True), "check it"),
        (Outcome(200, {0: "y"}, {}, is_whole=False), "not whole"),
        (Outcome(200, {0: "y"}, {0: "stop"}, is_whole=True), "usage"),
        (Outcome(200, {}, {0: "stop"}, usage={"completion_tokens": 0}, is_whole=True), "empty"),
    ],
)
def test_wrong_answer_is_named(outcome: Outcome, word: str) -> None:
    assert word in (fault_of(outcome) or "")


def test_right_answer_is_none() -> None:
    assert fault_of(RIGHT) is None


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("http://host:8000", "/v1/chat/completions"),
        ("http://host:8000/", "/v1/chat/completions"),
        ("http://host/v3", "/v3/chat/completions"),
        ("https://host/openai/v1/", "/openai/v1/chat/completions"),
    ],
)
def test_chats_go_below_the_path_of_the_url(url: str, path: str) -> None:
    assert chat_path(url) == path


def test_result_without_any_answer_is_still_json() -> None:
    assert SoakResult(wrong="x").as_json()["ttft_p50_s"] is None
