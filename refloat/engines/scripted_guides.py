"""Whether what the scripted model is going to say keeps to a guide. It says what its script says: an
answer that does not is refused, not bent.
"""

from functools import lru_cache
from typing import NamedTuple

from refloat.grammar import residual
from refloat.grammar.ebnf import from_ebnf
from refloat.grammar.grammar import Grammar
from refloat.wire.guide import Guide


class Saying(NamedTuple):
    """What will be said."""

    text: str
    is_whole: bool
    """The model ends it by itself; else it is cut."""


def keeps_to(guide: Guide, saying: Saying) -> bool:
    """Whether a whole text is in the guide, and a cut one the beginning of something in it."""
    return residual.keeps_to(_read(guide.ebnf), saying.text, is_whole=saying.is_whole)


@lru_cache(maxsize=64)
def _read(ebnf: str) -> Grammar:
    return from_ebnf(ebnf)
