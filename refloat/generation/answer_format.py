"""How a model's answers are parsed: from what is known of the model to one parser for each choice.

Requests with tools are refused where nobody knows how the model writes calls: markup in the answer
would look like success.
"""

from collections.abc import Sequence

from refloat.generation.reading import Reading
from refloat.generation.request import ChatPrompt, Prompt
from refloat.parsing.answer import TAIL_TOKENS, Format
from refloat.parsing.declared import DeclaredTools
from refloat.parsing.detect import detect
from refloat.parsing.families import NONE
from refloat.parsing.vocabulary import Vocabulary
from refloat.supervisor.fleet import ModelFacts
from refloat.wire.problem import ProblemError, ProblemKind


def format_of(facts: ModelFacts) -> Format:
    """The operator's word where there is one, else what the template shows."""
    shown = detect(facts.template_text or "")
    return Format(
        _chosen(facts.tool_parser, shown.tools), _chosen(facts.reasoning_parser, shown.reasoning)
    )


def _chosen(said: str | None, shown: str | None) -> str | None:
    return shown if said is None else None if said == NONE else said


def check_tools(model: str, prompts: Sequence[Prompt], facts: ModelFacts) -> None:
    """Raises `ProblemError` for tools that the model's calls to could not be told from text."""
    if format_of(facts).tools is not None:
        return
    if any(isinstance(prompt, ChatPrompt) and prompt.tools for prompt in prompts):
        reason = (
            "tool_parser is none"
            if facts.tool_parser == NONE
            else "its chat template shows no format of calls that is known here"
        )
        raise ProblemError.of(
            ProblemKind.UNSUPPORTED_VALUE,
            f"tools: the model {model!r} is not served with tools: {reason}. Set tool_parser for it "
            "(refloat serve --tool-parser NAME), or leave tools out, or send tool_choice: none.",
            param="tools",
        )


def reading_for(
    prompt: Prompt, ids: Sequence[int], facts: ModelFacts, vocabulary: Vocabulary
) -> tuple[Reading | None, Vocabulary]:
    """How one choice's text is read; `None`: it is the answer as it is. And the vocabulary that gives
    the text, with those control marks in it that have to be seen.

    `ids` are the prompt's, whose end tells whether it opened the reasoning.
    """
    if not isinstance(prompt, ChatPrompt):
        return None, vocabulary
    form = format_of(facts)
    tools = DeclaredTools(prompt.tools) if prompt.tools else None
    tail = vocabulary.tail_text(ids[-TAIL_TOKENS:])
    parser = form.parser(tools, vocabulary, tail, single=prompt.single_call)
    if parser is None:
        return None, vocabulary
    marks = vocabulary.special_among(form.marks(with_tools=tools is not None))
    return Reading(parser), vocabulary.showing(marks)
