"""Health in every shape that is asked for, all derived from the fleet's snapshots and nothing else."""

from typing import Any, NamedTuple, assert_never

from refloat.api.context import ApiContext
from refloat.api.errors import Answer, encode_json
from refloat.api.facts import Call
from refloat.api.lookup import served_model
from refloat.supervisor.fleet import Availability, Fleet, ModelSnapshot, WorkerSnapshot

VERSION = "1"
_COUNTS = ("waiting", "running", "kv_blocks", "kv_blocks_used", "step_age_seconds")


class OvmsState(NamedTuple):
    """A model's state in OpenVINO Model Server's words."""

    state: str
    error_code: str
    error_message: str


class Health:
    """Handlers of the health and status routes."""

    def __init__(self, context: ApiContext) -> None:
        self._context = context

    async def live(self, call: Call) -> Answer:
        """The gateway's loop turns; that is all this says."""
        return _json({"live": True})

    async def ready(self, call: Call) -> Answer:
        """Whether a request would be served now."""
        fleet = self._context.fleet
        ready = is_ready(fleet, self._context.settings.ready_when)
        models = {m.name: _brief(m) for m in fleet.models()}
        return _json({"ready": ready, "models": models}, 200 if ready else 503)

    async def model(self, call: Call) -> Answer:
        """KServe's model metadata. Text goes in and out over the OpenAI routes, not as tensors."""
        name = served_model(self._context.fleet, call.scope["path_params"]["model"]).name
        metadata = {"name": name, "versions": [VERSION], "platform": "openvino"}
        return _json({**metadata, "inputs": [], "outputs": []})

    async def model_ready(self, call: Call) -> Answer:
        """Whether this model would serve a request now."""
        model = served_model(self._context.fleet, call.scope["path_params"]["model"])
        ready = model.availability is Availability.READY
        return _json({"name": model.name, "ready": ready, **_brief(model)}, 200 if ready else 503)

    async def config(self, call: Call) -> Answer:
        """OpenVINO Model Server's `/v1/config`."""
        return _json({m.name: _ovms_body(m) for m in self._context.fleet.models()})

    async def summary(self, call: Call) -> Answer:
        """For people, and for `refloat status`."""
        context = self._context
        now = context.clock()
        models = [
            {**_model_summary(m, now), "counts": self._counts(m.name)}
            for m in context.fleet.models()
        ]
        ready = is_ready(context.fleet, context.settings.ready_when)
        return _json(
            {
                "status": "ok" if ready else "unready",
                "version": context.version,
                "models": models,
            }
        )

    def _counts(self, model: str) -> dict[str, float]:
        value_of = self._context.metrics.registry.get_sample_value
        counts = {key: value_of(f"refloat_{key}", {"model": model}) for key in _COUNTS}
        return {key: value or 0.0 for key, value in counts.items()}


def is_ready(fleet: Fleet, ready_when: str) -> bool:
    """Server readiness: one model that serves, or all of them."""
    states = [m.availability is Availability.READY for m in fleet.models()]
    return bool(states) and (all(states) if ready_when == "all" else any(states))


def ovms_state(model: ModelSnapshot) -> OvmsState:
    """The table of design §5."""
    reason = model.reason or f"the model is {model.availability}"
    match model.availability:
        case Availability.READY:
            return OvmsState("AVAILABLE", "OK", "OK")
        case Availability.LOADING:
            return OvmsState("LOADING", "OK", "OK")
        case Availability.RECOVERING:
            return OvmsState("LOADING", "UNKNOWN", reason)
        case Availability.FAILED:
            return OvmsState("LOADING", "FAILED_PRECONDITION", reason)
        case Availability.DRAINING:
            return OvmsState("UNLOADING", "OK", "OK")
        case Availability.UNLOADED:
            return OvmsState("END", "OK", "OK")
        case _:
            assert_never(model.availability)


def _ovms_body(model: ModelSnapshot) -> dict[str, Any]:
    state, code, message = ovms_state(model)
    status = {"error_code": code, "error_message": message}
    return {"model_version_status": [{"version": VERSION, "state": state, "status": status}]}


def _brief(model: ModelSnapshot) -> dict[str, Any]:
    brief: dict[str, Any] = {"state": model.availability.value}
    if model.reason is not None:
        brief["reason"] = model.reason
    return brief


def _model_summary(model: ModelSnapshot, now: float) -> dict[str, Any]:
    facts = model.facts
    return {
        "name": model.name,
        "state": model.availability.value,
        "reason": model.reason,
        "cause": model.cause,
        "notice": model.notice,
        "incident_id": model.incident_id,
        "retry_after_s": model.retry_after_s,
        "rung": model.rung,
        "context_length": facts.context_length if facts else None,
        "chat_unavailable": facts.chat_unavailable if facts else None,
        "restarts": {kind.value: count for kind, count in model.restarts.items()},
        "workers": [_worker_summary(worker, now) for worker in model.workers],
    }


def _worker_summary(worker: WorkerSnapshot, now: float) -> dict[str, Any]:
    return {
        "id": worker.worker_id,
        "role": worker.role.value,
        "device": worker.device,
        "state": worker.state.value,
        "for_s": round(max(0.0, now - worker.since_s), 3),
        "cause": worker.cause,
        "reason": worker.waits_for or worker.reason,
        "pid": worker.pid,
        "load_s": worker.load_s,
        "cache": worker.cache,
    }


def _json(value: Any, status: int = 200) -> Answer:
    return Answer(encode_json(value), status)
