"""The bodies of the operator's routes."""

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


RESET_DECODER = msgspec.json.Decoder(ResetBody)
