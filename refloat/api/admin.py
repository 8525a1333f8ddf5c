"""What an operator may order. Who counts as one is the gate's affair (`middleware.AuthGate`)."""

from refloat.api.body import read_json_body
from refloat.api.context import ApiContext
from refloat.api.errors import Answer, encode_json
from refloat.api.facts import Call
from refloat.api.lookup import served_model
from refloat.api.schema.admin import (
    DRAIN_DECODER,
    RESET_DECODER,
    DrainAnswer,
    DrainBody,
    ResetAnswer,
    ResetBody,
)
from refloat.api.schema.decode import decode_body
from refloat.observe.log import get_logger

_MAX_BODY_BYTES = 4096

_log = get_logger(__name__)


class Admin:
    """Handlers of the routes under `/admin/`."""

    def __init__(self, context: ApiContext) -> None:
        self._context = context

    async def reset(self, call: Call) -> Answer:
        """Try a model again, now: its faults so far are forgotten."""
        context = self._context
        budget = context.budget
        with await read_json_body(call, limit=_MAX_BODY_BYTES, budget=budget) as body:
            parsed = decode_body(body.data, RESET_DECODER) if body.data.strip() else ResetBody()
        model = served_model(context.fleet, call.scope["path_params"]["model"])
        call.facts.model = model.name
        accept_probe = bool(parsed.accept_probe)
        did = context.control.reset(model.name, accept_probe=accept_probe)
        _log.warning(
            "model_reset",
            model=model.name,
            state=model.availability,
            accept_probe=accept_probe,
            restarts=did,
            tenant=call.facts.tenant,
        )
        state = model.availability.value
        return Answer(encode_json(ResetAnswer(model.name, state, restarts=did)))

    async def drain(self, call: Call) -> Answer:
        """As after SIGTERM: not ready, nothing new, running answers finished, and the end."""
        context = self._context
        with await read_json_body(call, limit=_MAX_BODY_BYTES, budget=context.budget) as body:
            parsed = decode_body(body.data, DRAIN_DECODER) if body.data.strip() else DrainBody()
        context.control.drain(parsed.deadline_s)
        _log.warning("drain_ordered", deadline_s=parsed.deadline_s, tenant=call.facts.tenant)
        allowed_s = context.settings.drain_timeout_s
        answer = DrainAnswer(allowed_s if parsed.deadline_s is None else parsed.deadline_s)
        return Answer(encode_json(answer), status=202)
