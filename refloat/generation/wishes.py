"""What a wish for an answer's form goes together with, and what prep has to know of it. Pure."""

from collections.abc import Sequence

import msgspec

from refloat.generation.answer_format import format_of
from refloat.generation.request import ChatPrompt, GenerationRequest, Prompt
from refloat.parsing.answer import TAIL_TOKENS
from refloat.parsing.families import GPT_OSS, REASONING_FAMILIES
from refloat.parsing.reasoning.tagged import prompt_opens
from refloat.parsing.vocabulary import Vocabulary
from refloat.supervisor.fleet import ModelFacts
from refloat.wire.guide import GuideRequest, ReasoningSpan
from refloat.wire.problem import ProblemError, ProblemKind


def check_wish(request: GenerationRequest, facts: ModelFacts) -> None:
    """What can be judged before the grammar is made. Raises `ProblemError`."""
    wish, said = request.guide, request.sampling
    if wish is None:
        return
    if not facts.capabilities.guided:
        raise _unsupported(wish.param, "this model's engine cannot hold answers to a grammar")
    clashes = {
        "echo": request.echo,
        "ignore_eos": said.ignore_eos,
        "min_tokens": said.min_tokens > 0,
    }
    for field, is_set in clashes.items():
        if is_set:
            message = f"{field} and {wish.param} exclude each other."
            raise ProblemError.of(ProblemKind.INVALID_REQUEST, message, param=field)
    if not facts.eos_token_ids and not said.stop_token_ids:
        raise _unsupported(wish.param, "no token is known that would end this model's answer")
    form = format_of(facts)
    is_chat = any(isinstance(prompt, ChatPrompt) for prompt in request.prompts)
    if is_chat and GPT_OSS in (form.reasoning, form.tools) and not wish.kind.is_of_tools:
        raise _unsupported(wish.param, "not in this model's format of answers (channels)")


def wish_for(
    wish: GuideRequest,
    prompt: Prompt,
    ids: Sequence[int],
    facts: ModelFacts,
    vocabulary: Vocabulary,
) -> GuideRequest:
    """The wish with what is known of the model: how it writes calls, and what may stand before the
    answer proper. `ids` are the prompt's."""
    if not isinstance(prompt, ChatPrompt):
        return wish
    form = format_of(facts)
    if wish.kind.is_of_tools:
        wish = msgspec.structs.replace(wish, family=form.tools)
    elif prompt.tools:  # which it may call as well: the form is that of its answer proper
        tools = msgspec.json.encode(prompt.tools).decode()
        single = prompt.single_call
        wish = msgspec.structs.replace(wish, family=form.tools, tools=tools, single=single)
    tags = REASONING_FAMILIES[form.reasoning].tags if form.reasoning is not None else None
    if tags is None:
        return wish
    tail = vocabulary.tail_text(ids[-TAIL_TOKENS:])
    if tail.rstrip().endswith(
        tags.closes
    ):  # reasoning was switched off, and so the prompt closed it
        return wish
    span = ReasoningSpan(tags.opens, tags.closes, is_open=prompt_opens(tags, tail))
    return msgspec.structs.replace(wish, reasoning=span)


def _unsupported(param: str, why: str) -> ProblemError:
    return ProblemError.of(ProblemKind.UNSUPPORTED_VALUE, f"{param}: {why}.", param=param)
