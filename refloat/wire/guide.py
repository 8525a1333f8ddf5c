"""What a generation's text has to be like, in the one form that engines get."""

import msgspec


class Guide(msgspec.Struct, frozen=True, omit_defaults=True):
    """A grammar that the engine holds an answer to, from its next token on."""

    ebnf: str
    """In xgrammar's EBNF; its start rule is `root`."""
    compile_s: float = 0.0
    """What its trial compile took. The engine will spend as much again in the step that begins it, and
    that step is not to pass for a stall."""
