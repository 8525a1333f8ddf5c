"""Which family's format a chat template teaches its model. Pure: template text in, names out.

A format is recognised by what its template shows of it, never by the model's name. What is not
recognised is `None`, which is told to whoever asks for tools; a guess would leak markup.
"""

from functools import lru_cache
from typing import NamedTuple

from refloat.parsing.families import GPT_OSS


class Detected(NamedTuple):
    """Names of families; `None`: the template shows none that is known."""

    tools: str | None
    reasoning: str | None


class Sign(NamedTuple):
    """A family, and what all has to be in its templates, and what may not."""

    family: str
    has: tuple[str, ...]
    has_not: tuple[str, ...] = ()


#: The first that fits counts: narrow ones stand before wide ones.
TOOL_SIGNS: tuple[Sign, ...] = (
    Sign(GPT_OSS, ("<|channel|>", "<|message|>", "to=", "functions")),
    Sign("gemma", ("<|tool_call>", "call:")),
    Sign("gemma", ("<start_function_call>", "call:")),
    Sign("kimi_k2", ("<|tool_call_begin|>", "<|tool_call_argument_begin|>")),
    Sign("deepseek_v3", ("<｜tool▁call▁begin｜>", "<｜tool▁sep｜>", "```json")),
    Sign("deepseek_v31", ("<｜tool▁call▁begin｜>", "<｜tool▁sep｜>")),
    Sign("mistral", ("[TOOL_CALLS]",)),
    Sign("seed_oss", ("<seed:tool_call>", "<function=", "<parameter=")),
    Sign("glm", ("<tool_call>", "<arg_key>", "<arg_value>")),
    Sign("qwen3_coder", ("<tool_call>", "<function=", "<parameter=")),
    Sign("minicpm", ('<function name="', '<param name="')),
    Sign("lfm2", ("<|tool_call_start|>",)),
    Sign("lfm2", ("<|tool_list_start|>",)),
    Sign("lfm2", ("List of tools: [", "<|im_start|>")),
    Sign("phi4", ("<|tool|>", "<|/tool|>")),
    Sign("phi4", ("functools[",)),
    Sign("granite", ("<|tool_call|>", "JSON list")),
    Sign(
        "hermes",
        ("<tool_call>", "</tool_call>"),
        ("<function=", "<invoke", "<arg_key>", "<tool_calls>"),
    ),
    Sign("llama4_pythonic", ("[func_name1(param",)),
    Sign("llama3_json", ('{"name": function name, "parameters":',)),
    Sign("llama4_pythonic", ("<|python_start|>",)),
)

REASONING_SIGNS: tuple[Sign, ...] = (
    Sign(GPT_OSS, ("<|channel|>", "<|message|>", "analysis")),
    Sign("gemma", ("<|channel>thought", "<channel|>")),
    Sign("seed_oss", ("<seed:think>", "</seed:think>")),
    Sign("mistral", ("[THINK]", "[/THINK]")),
    Sign("granite", ("<think>", "<response>", "<|start_of_role|>")),
    Sign("kimi_k2", ("</think>", "<|tool_calls_section_begin|>")),
    Sign("think", ("</think>",)),
)


@lru_cache(maxsize=64)
def detect(template: str) -> Detected:
    """The families of a template."""
    return Detected(_first(TOOL_SIGNS, template), _first(REASONING_SIGNS, template))


def _first(signs: tuple[Sign, ...], template: str) -> str | None:
    for sign in signs:
        if all(text in template for text in sign.has) and not any(
            text in template for text in sign.has_not
        ):
            return sign.family
    return None
