"""Rungs of safer settings as an operator writes them (`ladder:` of a model), read strictly.

When a worker goes down or up the ladder is decided in `supervisor/ladder.py`.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import msgspec
from msgspec import Meta

_AtLeastOne = Annotated[int, Meta(ge=1)]


class LadderError(ValueError):
    """A ladder that cannot be meant; the message names the rung and the field."""


class LadderRung(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What is other on this rung than on the one above it."""

    properties: dict[str, Any] = {}
    """OpenVINO properties beside those of `plugin_config`; null takes one away."""
    max_num_batched_tokens: _AtLeastOne | None = None
    """In place of the model's own."""
    max_num_seqs: _AtLeastOne | None = None
    """In place of the model's own."""
    device: Annotated[str, Meta(min_length=1)] | None = None
    """In place of the model's own."""


def parse_ladder(rungs: Sequence[Mapping[str, Any]]) -> tuple[LadderRung, ...]:
    """A ladder from its configuration, the highest rung first. Raises `LadderError`."""
    return tuple(_parse_rung(index, rung) for index, rung in enumerate(rungs))


def _parse_rung(index: int, given: Mapping[str, Any]) -> LadderRung:
    try:
        rung = msgspec.convert(given, LadderRung)
    except msgspec.ValidationError as error:
        raise LadderError(f"ladder[{index}]: {error}") from error
    if rung == LadderRung():
        raise LadderError(f"ladder[{index}]: changes nothing")
    return rung
