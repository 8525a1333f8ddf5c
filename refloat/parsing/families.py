"""Every family by the name that operators write, as data. Which one a model needs: `detect.py`."""

from collections.abc import Callable
from typing import NamedTuple

from refloat.parsing.calls import Calls
from refloat.parsing.parts import Parser
from refloat.parsing.reasoning import gemma as gemma_reasoning
from refloat.parsing.reasoning import granite as granite_reasoning
from refloat.parsing.reasoning import harmony
from refloat.parsing.reasoning import mistral as mistral_reasoning
from refloat.parsing.reasoning import seed_oss as seed_oss_reasoning
from refloat.parsing.reasoning.tagged import Tags
from refloat.parsing.reasoning.think import THINK, THINK_KIMI
from refloat.parsing.tools import (
    deepseek,
    gemma,
    glm,
    granite,
    hermes,
    kimi_k2,
    lfm2,
    llama,
    minicpm,
    mistral,
    phi4,
    qwen3_coder,
)

#: Says for either setting: do not parse.
NONE = "none"
#: Reasoning and calls are one format, which cannot be read by halves.
GPT_OSS = "gpt_oss"
#: Characters of an id, where a family's templates insist on a number of them.
_LONG_ID, _MISTRAL_ID = 24, 9


class ToolFamily(NamedTuple):
    """How a family writes calls."""

    parser: Callable[[Calls], Parser]
    marks: tuple[str, ...]
    """What a tokenizer may have as control marks, and the parser has to see."""
    id_chars: int = _LONG_ID


class ReasoningFamily(NamedTuple):
    """How a family writes reasoning."""

    tags: Tags | None
    """`None`: it has a parser of its own (`GPT_OSS`)."""
    marks: tuple[str, ...]


def _tagged(tags: Tags) -> ReasoningFamily:
    marks = (tags.opens, tags.closes, *tags.also_ends, tags.answer_opens, tags.answer_closes)
    return ReasoningFamily(tags, tuple(mark for mark in marks if mark))


_MISTRAL = ToolFamily(mistral.mistral, mistral.MARKS, _MISTRAL_ID)

TOOL_FAMILIES: dict[str, ToolFamily] = {
    "hermes": ToolFamily(hermes.hermes, hermes.MARKS),
    "qwen3_coder": ToolFamily(qwen3_coder.qwen3_coder, qwen3_coder.MARKS),
    "seed_oss": ToolFamily(qwen3_coder.seed_oss, qwen3_coder.MARKS),
    "llama3_json": ToolFamily(llama.llama, llama.MARKS),
    "llama4_pythonic": ToolFamily(llama.llama, llama.MARKS),
    "mistral": _MISTRAL,
    "devstral": _MISTRAL,
    "phi4": ToolFamily(phi4.phi4, phi4.MARKS),
    GPT_OSS: ToolFamily(harmony.HarmonyParser, harmony.MARKS),
    "gemma": ToolFamily(gemma.gemma, gemma.MARKS),
    "granite": ToolFamily(granite.granite, granite.MARKS),
    "deepseek_v3": ToolFamily(deepseek.deepseek_v3, deepseek.MARKS),
    "deepseek_v31": ToolFamily(deepseek.deepseek_v31, deepseek.MARKS),
    "glm": ToolFamily(glm.glm, glm.MARKS),
    "kimi_k2": ToolFamily(kimi_k2.kimi_k2, kimi_k2.MARKS),
    "lfm2": ToolFamily(lfm2.lfm2, lfm2.MARKS),
    "minicpm": ToolFamily(minicpm.minicpm, minicpm.MARKS),
}

REASONING_FAMILIES: dict[str, ReasoningFamily] = {
    "think": _tagged(THINK),
    "kimi_k2": _tagged(THINK_KIMI),
    "granite": _tagged(granite_reasoning.GRANITE),
    GPT_OSS: ReasoningFamily(None, harmony.MARKS),
    # The line's end behind the channel's name is no part of the mark as a token.
    "gemma": ReasoningFamily(gemma_reasoning.GEMMA, ("<|channel>", "<channel|>")),
    "mistral": _tagged(mistral_reasoning.MISTRAL),
    "seed_oss": _tagged(seed_oss_reasoning.SEED_OSS),
}
