"""Engines by name. Each is imported only when asked for, since an import may cost half a second."""

from refloat.engines.base import Engine, EngineFactory, LoadError
from refloat.engines.faulty import FaultHooks, FaultyEngine, TextOf
from refloat.faults.plan import FaultPlanError, parse_plan
from refloat.wire.messages import EngineSpec


def _openvino_cb() -> Engine:
    from refloat.engines.openvino_cb import OpenVinoEngine

    return OpenVinoEngine()


def _scripted() -> Engine:
    from refloat.engines.scripted import ScriptedEngine

    return ScriptedEngine()


ENGINES: dict[str, EngineFactory] = {"openvino_cb": _openvino_cb, "scripted": _scripted}


def import_engine(name: str) -> None:
    """Import what an engine is made of, and build nothing. Unknown names do nothing: building one
    says what is wrong with it."""
    factory = ENGINES.get(name)
    if factory is not None:
        factory()


def build_engine(spec: EngineSpec, hooks: FaultHooks) -> Engine:
    """The engine that a spec names, not yet loaded, behind its fault plan if it has one.

    Raises `LoadError` for an unknown name or a plan that cannot be meant.
    """
    factory = ENGINES.get(spec.engine)
    if factory is None:
        known = ", ".join(sorted(ENGINES))
        raise LoadError(f"engine {spec.engine!r} is unknown; known: {known}", permanent=True)
    try:
        plan = parse_plan(spec.faults)
    except FaultPlanError as error:
        raise LoadError(str(error), permanent=True) from error
    engine = factory()
    if not plan:
        return engine
    return FaultyEngine(engine, plan, hooks, _text_of(engine))


def _text_of(engine: Engine) -> TextOf | None:
    from refloat.engines.scripted import ScriptedEngine

    if isinstance(engine, ScriptedEngine):
        return lambda tokens: engine.tokenizer.decode(tokens)
    return None
