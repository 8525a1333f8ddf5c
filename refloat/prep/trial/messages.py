"""What is said between prep and the child that has the engine's compiler."""

import msgspec

from refloat.wire.prep_messages import GuideJob


class Compile(msgspec.Struct, frozen=True, tag="compile"):
    """Compile a grammar; the answer is `Compiled`."""

    job: int
    ebnf: str


class Compiled(msgspec.Struct, frozen=True, tag="compiled", omit_defaults=True):
    """What came of it."""

    job: int
    took_s: float = 0.0
    refusal: str | None = None
    """Why the compiler does not take it."""


Job = GuideJob | Compile
"""What a child is asked."""
