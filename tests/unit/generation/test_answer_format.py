"""Which parser a choice gets, and which requests are refused for want of one."""

from dataclasses import replace
from typing import Any

import pytest

from refloat.generation.answer_format import check_tools, format_of, reading_for
from refloat.generation.request import ChatPrompt, TextPrompt
from refloat.models.manifest import SamplingDefaults
from refloat.parsing.vocabulary import Vocabulary
from refloat.supervisor.fleet import ModelFacts
from refloat.wire.messages import Capabilities
from refloat.wire.problem import ProblemError, ProblemKind

TOOL: dict[str, Any] = {"type": "function", "function": {"name": "ping"}}
CHAT = ChatPrompt([{"role": "user", "content": "x"}])
CALLING = ChatPrompt([{"role": "user", "content": "x"}], tools=[TOOL])
FACTS = ModelFacts(
    context_length=64,
    vocab_size=4,
    eos_token_ids=(),
    bos_token_id=None,
    sampling=SamplingDefaults(),
    fingerprint="fp",
    capabilities=Capabilities(),
    cache=None,
    max_num_seqs=1,
    max_output_tokens=None,
    template_text="<tool_call></tool_call></think>",
)
UNKNOWN = replace(FACTS, template_text="{{ messages }}")
#: `<|im_end|>`, `<tool_call>` (a control mark here), `<think>`, a word.
WORDS = ("<|im_end|>", "<tool_call>", "<think>", "word")


def _vocabulary() -> Vocabulary:
    bounds = [0]
    for word in WORDS:
        bounds.append(bounds[-1] + len(word))
    blob = "".join(WORDS).encode()
    return Vocabulary(blob, bounds, frozenset((0, 1)), strip_leading_space=False, exact=True)


def test_template_decides_unless_the_operator_does() -> None:
    shown = format_of(FACTS)
    assert (shown.tools, shown.reasoning) == ("hermes", "think")
    said = format_of(replace(FACTS, tool_parser="glm", reasoning_parser="none"))
    assert (said.tools, said.reasoning) == ("glm", None)
    assert (format_of(UNKNOWN).tools, format_of(UNKNOWN).reasoning) == (None, None)


@pytest.mark.parametrize(
    ("facts", "word"),
    [(UNKNOWN, "no format"), (replace(FACTS, tool_parser="none"), "tool_parser is none")],
)
def test_tools_are_refused_where_calls_cannot_be_read(facts: ModelFacts, word: str) -> None:
    check_tools("m", [CHAT, TextPrompt("x")], facts)
    with pytest.raises(ProblemError) as caught:
        check_tools("m", [CALLING], facts)
    problem = caught.value.problem
    assert (problem.kind, problem.param) == (ProblemKind.UNSUPPORTED_VALUE, "tools")
    assert word in problem.message
    check_tools("m", [CALLING], FACTS)


def test_only_chats_are_read_and_only_what_is_needed_is_shown() -> None:
    vocabulary = _vocabulary()
    assert reading_for(TextPrompt("x"), [3], FACTS, vocabulary) == (None, vocabulary)
    assert reading_for(CALLING, [3], UNKNOWN, vocabulary) == (None, vocabulary)
    reading, shown = reading_for(CHAT, [3], FACTS, vocabulary)
    assert reading is not None
    assert shown.text_of(1) == ""
    _, shown = reading_for(CALLING, [3], FACTS, vocabulary)
    assert (shown.text_of(1), shown.text_of(0)) == ("<tool_call>", "")


def test_prompt_that_ends_in_an_open_block_is_told_by_its_ids() -> None:
    for ids, thinks in (([3, 2], True), ([2, 3], False)):
        reading, _ = reading_for(CHAT, ids, FACTS, _vocabulary())
        assert reading is not None
        [part] = reading.push("so it is")
        assert (type(part).__name__ == "Reasoning") is thinks


def test_answer_with_calls_has_called_once_all_are_whole() -> None:
    reading, _ = reading_for(CALLING, [3], FACTS, _vocabulary())
    assert reading is not None
    reading.push('<tool_call>{"name": "ping", "argu')
    assert not reading.has_called
    reading.push('ments": {}}</tool_call><tool_call>{"name": "ping", "arguments": {"a"')
    assert not reading.has_called
    reading.push(": 1}}")
    assert reading.has_called
    assert not reading.is_done
