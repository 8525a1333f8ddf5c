"""The bodies of the operator's routes."""

from typing import Annotated, Literal

import msgspec


class ResetBody(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """How to try again; the body may be left out."""

    accept_probe: bool | None = None
    """Default false. What the model's next probe says is right from now on: for a model that was
    stopped because a probe's answer had changed."""


class ResetAnswer(msgspec.Struct):
    """What a reset comes to."""

    model: str
    state: str
    """Before the reset."""
    restarts: bool
    """Whether anything is started again; false for a model that runs as it should."""


class DrainBody(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """How to drain; the body may be left out."""

    deadline_s: Annotated[float, msgspec.Meta(ge=0, le=86_400)] | None = None
    """Seconds that running answers get; default: the setting `drain_timeout_s`."""


class DrainAnswer(msgspec.Struct):
    """The server drains, and ends by itself."""

    deadline_s: float
    status: Literal["draining"] = "draining"


DRAIN_DECODER = msgspec.json.Decoder(DrainBody)
RESET_DECODER = msgspec.json.Decoder(ResetBody)
