"""How each family writes calls, as data: what stands before, between and behind them, and one call."""

from collections.abc import Callable
from typing import NamedTuple

from refloat.grammar.calls import gemma as gemma_calls
from refloat.grammar.calls.pythonic import as_python, pythonic_call
from refloat.grammar.calls.tagged import IN_JSON, TagForm, tagged_arguments, text_rule
from refloat.grammar.calls.tool import Tool
from refloat.grammar.calls.untagged import text_without, without
from refloat.grammar.json_text import DIGIT, constant
from refloat.grammar.nodes import (
    EMPTY,
    NEVER,
    Literal,
    Node,
    char_class,
    optional,
    repeat,
    sequence,
)
from refloat.parsing.reasoning import harmony
from refloat.parsing.tools import (
    deepseek,
    gemma,
    glm,
    granite,
    hermes,
    kimi_k2,
    lfm2,
    llama,
    mistral,
    phi4,
    qwen3_coder,
)

_ID_CHARS = 9


class CallForm(NamedTuple):
    """One family."""

    call: Callable[[Tool], Node]
    before: Node = EMPTY
    between: Node = EMPTY
    behind: Node = EMPTY
    is_single: bool = False
    """A call ends the answer, so that there is never a second one."""
    dialect: Callable[[Node], Node] | None = None
    """How JSON has to differ inside."""
    text: Node = NEVER
    """Of the rule for bare text."""
    opens: tuple[str, ...] = ()
    """Marks behind which the parser looks for calls."""
    bare: tuple[str, ...] = ()
    """What an answer begins with, one of these, if it is a call without a mark."""
    answer: Node = NEVER
    """An answer without calls, where it has a form of its own."""


def _text(text: str) -> Node:
    return Literal(text) if text else EMPTY


def _json_object(
    key: str, opens: str = "", closes: str = "", extra: Node = EMPTY
) -> Callable[[Tool], Node]:
    """`{"name": ..., "arguments": {...}}` between marks."""

    def call(tool: Tool) -> Node:
        return sequence(
            _text(opens + '{"name": '),
            constant(tool.name),
            _text(f', "{key}": '),
            tool.arguments(),
            extra,
            _text("}" + closes),
        )

    return call


def _named(before: str, between: Node, behind: str) -> Callable[[Tool], Node]:
    """A name and a JSON object behind it."""

    def call(tool: Tool) -> Node:
        return sequence(_text(before), Literal(tool.name), between, tool.arguments(), _text(behind))

    return call


def _tagged(opens: str, opened: str, form: TagForm, closes: str) -> Callable[[Tool], Node]:
    def call(tool: Tool) -> Node:
        arguments = tagged_arguments(tool, form)
        return sequence(_text(opens + tool.name + opened), arguments, _text(closes))

    return call


def _gemma(tool: Tool) -> Node:
    return sequence(_text(gemma.OPEN), gemma_calls.gemma_call(tool), _text(gemma.CLOSE))


def _without_tags(node: Node) -> Node:
    return without(node, "<", IN_JSON)


def _qwen_like(opens: str, closes: str, pad: str) -> CallForm:
    key, value, call = "<parameter=", "</parameter>", "</function>"
    form = TagForm(key, ">" + pad, pad + value, "\n", (value, key, call))
    return CallForm(
        _tagged(f"{opens}\n{qwen3_coder.FUNCTION}", ">\n", form, f"{call}\n{closes}"),
        between=_text("\n"),
        dialect=_without_tags,
        text=text_rule(form),
        opens=(opens, qwen3_coder.FUNCTION),
    )


_GLM_TAGS = TagForm(
    glm.KEY,
    f"{glm.KEY_END}\n{glm.VALUE}",
    glm.VALUE_END,
    "\n",
    (glm.VALUE_END, glm.KEY, glm.CLOSE),
)
_PARAM = '<param name="'
_MINICPM_TAGS = TagForm(
    _PARAM, '">', "</param>", "", ("</param>", _PARAM, "</function>"), cdata=True
)
_MISTRAL_ID = sequence(
    _text(', "id": "'),
    repeat(char_class(((0x30, 0x39), (0x41, 0x5A), (0x61, 0x7A))), _ID_CHARS, _ID_CHARS),
    _text('"'),
)
_HARMONY_CALL = f"{harmony.CHANNEL}commentary to=functions."
_HARMONY_THOUGHT = sequence(
    _text(f"{harmony.CHANNEL}analysis{harmony.MESSAGE}"),
    text_without(harmony.MARKS),
    _text(f"{harmony.END}{harmony.START}assistant"),
)
_HARMONY_ANSWER = sequence(
    optional(_HARMONY_THOUGHT),
    _text(f"{harmony.CHANNEL}final{harmony.MESSAGE}"),
    text_without(harmony.MARKS),
)

FORMS: dict[str, CallForm] = {
    "hermes": CallForm(
        _json_object("arguments", f"{hermes.OPEN}\n", f"\n{hermes.CLOSE}"),
        between=_text("\n"),
        opens=(hermes.OPEN,),
    ),
    "qwen3_coder": _qwen_like(qwen3_coder.OPEN, qwen3_coder.CLOSE, "\n"),
    "seed_oss": _qwen_like(qwen3_coder.SEED_OPEN, qwen3_coder.SEED_CLOSE, ""),
    "llama3_json": CallForm(
        _json_object("parameters"), between=_text("; "), opens=llama.MARKS, bare=llama.BARE
    ),
    "llama4_pythonic": CallForm(
        pythonic_call,
        _text("["),
        _text(", "),
        _text("]"),
        dialect=as_python,
        opens=llama.MARKS,
        bare=llama.BARE,
    ),
    "mistral": CallForm(
        _json_object("arguments", extra=optional(_MISTRAL_ID)),
        _text(f"{mistral.OPEN}["),
        _text(", "),
        _text("]"),
        opens=(mistral.OPEN,),
    ),
    "devstral": CallForm(_named(mistral.OPEN, _text(mistral.ARGUMENTS), ""), opens=(mistral.OPEN,)),
    "phi4": CallForm(
        _json_object("arguments"),
        _text(phi4.WORD),
        _text(", "),
        _text("]"),
        opens=(phi4.OPEN, phi4.WORD),
    ),
    "gpt_oss": CallForm(
        _named(_HARMONY_CALL, _text(f" {harmony.CONSTRAIN}json{harmony.MESSAGE}"), ""),
        before=optional(_HARMONY_THOUGHT),
        is_single=True,
        answer=_HARMONY_ANSWER,
    ),
    "gemma": CallForm(
        _gemma,
        opens=(gemma.OPEN, gemma.OLD_OPEN),
    ),
    "granite": CallForm(
        _json_object("arguments"),
        _text(f"{granite.OPENINGS[0]}["),
        _text(", "),
        _text("]"),
        opens=granite.OPENINGS,
    ),
    "deepseek_v3": CallForm(
        _named(
            f"{deepseek.OPEN}function{deepseek.SEPARATOR}",
            _text("\n```json\n"),
            f"\n```{deepseek.CLOSE}",
        ),
        _text(deepseek.SECTION),
        _text("\n"),
        _text(deepseek.SECTION_END),
        opens=(deepseek.SECTION, deepseek.OPEN),
    ),
    "deepseek_v31": CallForm(
        _named(deepseek.OPEN, _text(deepseek.SEPARATOR), deepseek.CLOSE),
        before=_text(deepseek.SECTION),
        behind=_text(deepseek.SECTION_END),
        opens=(deepseek.SECTION, deepseek.OPEN),
    ),
    "glm": CallForm(
        _tagged(glm.OPEN, "\n", _GLM_TAGS, glm.CLOSE),
        between=_text("\n"),
        dialect=_without_tags,
        text=text_rule(_GLM_TAGS),
        opens=(glm.OPEN,),
    ),
    "kimi_k2": CallForm(
        _named(
            f"{kimi_k2.OPEN}functions.",
            sequence(_text(":"), repeat(DIGIT, 1, 3), _text(kimi_k2.ARGUMENTS)),
            kimi_k2.CLOSE,
        ),
        before=_text(kimi_k2.SECTION),
        behind=_text(kimi_k2.SECTION_END),
        opens=(kimi_k2.SECTION, kimi_k2.OPEN),
    ),
    "lfm2": CallForm(
        pythonic_call,
        _text(f"{lfm2.OPEN}["),
        _text(", "),
        _text(f"]{lfm2.CLOSE}"),
        dialect=as_python,
        opens=(lfm2.OPEN,),
    ),
    "minicpm": CallForm(
        _tagged('<function name="', '">', _MINICPM_TAGS, "</function>"),
        between=_text("\n"),
        dialect=_without_tags,
        text=text_rule(_MINICPM_TAGS),
        opens=('<function name="',),
    ),
}
"""By the family's name in `refloat.parsing.families`."""
