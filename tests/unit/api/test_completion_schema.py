"""Completion bodies, and bodies that are no JSON object at all."""

import json
from typing import Any

import pytest

from refloat.api.caller import Caller
from refloat.api.schema.chat import ChatBody
from refloat.api.schema.completions import CompletionBody
from refloat.api.schema.unsupported import CHAT, COMPLETIONS, UNSUPPORTED
from refloat.api.translate import Order, translate_chat, translate_completion
from refloat.generation.request import TextPrompt, TokenPrompt
from refloat.wire.problem import Problem, ProblemError, ProblemKind

CALLER = Caller("req-1", "key-1")


def order(**fields: Any) -> Order:
    body = {"model": "m", "prompt": "Once", **fields}
    return translate_completion(json.dumps(body).encode(), CALLER)


def problem(**fields: Any) -> Problem:
    with pytest.raises(ProblemError) as caught:
        order(**fields)
    return caught.value.problem


WRONG_TYPES: dict[str, Any] = {
    "prompt": 5,
    "echo": "yes",
    "best_of": "2",
    "logprobs": True,
    "suffix": 5,
    "add_special_tokens": 1,
}


def test_wrong_types_leave_no_field_of_its_own_out() -> None:
    shared = set(CompletionBody.__struct_fields__) & set(ChatBody.__struct_fields__) - {"logprobs"}
    assert set(WRONG_TYPES) == set(CompletionBody.__struct_fields__) - shared


@pytest.mark.parametrize("field", WRONG_TYPES)
def test_field_of_wrong_type_is_refused_by_its_name(field: str) -> None:
    assert problem(**{field: WRONG_TYPES[field]}).param == field


@pytest.mark.parametrize(
    ("prompt", "expected"),
    [
        ("a", (TextPrompt("a"),)),
        (["a", "b"], (TextPrompt("a"), TextPrompt("b"))),
        ([1, 2], (TokenPrompt((1, 2)),)),
        ([[1], [2, 3]], (TokenPrompt((1,)), TokenPrompt((2, 3)))),
    ],
)
def test_prompt_comes_in_four_forms(prompt: Any, expected: Any) -> None:
    request = order(prompt=prompt).request
    assert request.prompts == expected
    assert (request.default_max_tokens, request.prompt_param) == (16, "prompt")


NO_FORM: list[tuple[Any, str]] = [
    (None, "prompt"),
    ("", "prompt"),
    ([], "prompt"),
    ([[]], "prompt[0]"),
    (["a", ""], "prompt[1]"),
    (["a", 1], "prompt[1]"),
    ([1, "a"], "prompt[1]"),
    ([1, -1], "prompt[1]"),
    ([1, True], "prompt[1]"),
    ([1, 2**31], "prompt[1]"),
    ([[1], ["a"]], "prompt[1][0]"),
    ([[1], 1], "prompt[1]"),
    (["x"] * 129, "prompt"),
]


@pytest.mark.parametrize(("prompt", "param"), NO_FORM)
def test_prompt_of_no_form_is_refused_by_its_place(prompt: Any, param: str) -> None:
    found = problem(prompt=prompt)
    assert (found.kind, found.param) == (ProblemKind.INVALID_REQUEST, param)


@pytest.mark.parametrize(
    ("fields", "param", "kind"),
    [
        ({"best_of": 0}, "best_of", ProblemKind.INVALID_REQUEST),
        ({"best_of": 129}, "best_of", ProblemKind.INVALID_REQUEST),
        ({"best_of": 2, "n": 3}, "best_of", ProblemKind.INVALID_REQUEST),
        ({"best_of": 2, "stream": True}, "best_of", ProblemKind.INVALID_REQUEST),
        ({"logprobs": 6}, "logprobs", ProblemKind.INVALID_REQUEST),
        ({"logprobs": -1}, "logprobs", ProblemKind.INVALID_REQUEST),
        ({"logprobs": 2}, "logprobs", ProblemKind.UNSUPPORTED_VALUE),
        ({"logprobs": 1, "echo": True}, "echo", ProblemKind.UNSUPPORTED_VALUE),
        ({"suffix": "x"}, "suffix", ProblemKind.UNSUPPORTED_VALUE),
        ({"logit_bias": {"1": 5}}, "logit_bias", ProblemKind.UNSUPPORTED_VALUE),
        ({"prompt": ["x"] * 100, "n": 100}, "n", ProblemKind.INVALID_REQUEST),
        ({"prompt": ["x"] * 100, "best_of": 100}, "best_of", ProblemKind.INVALID_REQUEST),
    ],
)
def test_combination_out_of_range_is_refused(
    fields: dict[str, Any], param: str, kind: ProblemKind
) -> None:
    found = problem(**fields)
    assert (found.kind, found.param) == (kind, param)


def test_options_reach_the_request() -> None:
    made = order(n=2, best_of=3, echo=True, max_tokens=4, suffix="")
    assert (made.request.n, made.request.best_of, made.request.echo) == (2, 3, True)
    logged = order(logprobs=0)
    assert (logged.request.sampling.logprobs, logged.top_logprobs) == (True, 0)
    assert order(logprobs=1).top_logprobs == 1


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"   ",
        b"{",
        b"[]",
        b'"x"',
        b"null",
        b"7",
        b"\x00",
        b'\xef\xbb\xbf{"model": "m", "prompt": "x"}',
        '{"model": "m", "prompt": "x"}'.encode("utf-16"),
        b'{"model": "m", "prompt": "\xe6\x9d"}',
        '{"model": "m", "prompt": "中文"}'.encode("gbk"),
        b'{"model": "m", "prompt": "\\ud83d"}',
        b'{"model": "m", "prompt": "x", "other": "\xff"}',
        b'{"model": "m", "prompt": "x"} trailing',
        b'{"model": "m", "prompt": "x", "temperature": NaN}',
        b'{"model": "m", "prompt": "x", "temperature": 1e999}',
        b'{"model": "m", "prompt": "x", "seed": ' + b"9" * 5000 + b"}",
        b'{"model": "m", "prompt": "x", "seed": ' + b"9" * 40 + b"}",
        b'{"model": "m", "prompt": "x", "other": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"model": "m", "prompt": "x", "other": '
        + b'{"a":' * 50_000
        + b"1"
        + b"}" * 50_000
        + b"}",
        b'{"model": "m", "prompt": ' + b"[" * 100_000,
    ],
    ids=range(22),
)
@pytest.mark.parametrize("translate", [translate_chat, translate_completion])
def test_body_that_is_no_clean_object_is_refused(data: bytes, translate: Any) -> None:
    with pytest.raises(ProblemError) as caught:
        translate(data, CALLER)
    assert caught.value.problem.kind is ProblemKind.INVALID_REQUEST


def test_missing_field_is_named() -> None:
    with pytest.raises(ProblemError) as caught:
        translate_completion(b"{}", CALLER)
    assert caught.value.problem.param == "model"
    with pytest.raises(ProblemError) as caught:
        translate_completion(b'{"model": "m"}', CALLER)
    assert caught.value.problem.param == "prompt"


@pytest.mark.parametrize(("route", "body"), [(CHAT, ChatBody), (COMPLETIONS, CompletionBody)])
def test_unsupported_rows_name_fields_there_are(route: str, body: Any) -> None:
    rows = [row.field for row in UNSUPPORTED if route in row.routes]
    assert len(rows) == len(set(rows))
    for field in rows:
        assert field.split("[")[0].split(".")[0] in body.__struct_fields__


def test_best_of_that_ranks_nothing_may_be_streamed() -> None:
    made = order(n=2, best_of=2, stream=True)
    assert (made.stream, made.request.best_of) == (True, 2)
