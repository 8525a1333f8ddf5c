"""A whole drill: a private server with the user's model and a fault plan, trial after trial."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from refloat.drill.conduct import Course, Finding, conduct
from refloat.drill.trial import Phase, plan_for, trials
from refloat.faults.plan import FaultAct
from refloat.testing.exact import EXACT_PROPERTIES
from refloat.testing.harness import Server


@dataclass(frozen=True)
class DrillPlan:
    """What to try, on what."""

    model: str
    acts: Sequence[FaultAct]
    phases: Sequence[Phase]
    clients: int = 4
    tokens: int = 32
    repeats: int = 1
    is_exact: bool = False
    settings: dict[str, Any] = field(default_factory=dict[str, Any])
    """More of the model's settings, as in the YAML file."""


def run_drill(plan: DrillPlan, progress: Callable[[str], None]) -> list[Finding]:
    """Run every trial. Raises `ServerEndedError` if the model cannot be served, or the gateway dies."""
    chosen = trials(plan.acts, plan.phases, plan.repeats)
    settings = dict(plan.settings)
    if plan.is_exact:
        properties = {**EXACT_PROPERTIES, **settings.get("plugin_config", {})}
        settings["plugin_config"] = properties
    model = {**settings, "model": plan.model, "name": "drill"}
    model["faults"] = plan_for(chosen, plan.tokens)
    course = Course("drill", plan.clients, plan.tokens, plan.is_exact)
    findings: list[Finding] = []
    progress("starting a private server")
    with Server.start(config={"models": [model], "server": {"hold_timeout_s": 600.0}}) as server:
        for trial in chosen:
            progress(f"{trial.act} in {trial.phase} ({trial.number + 1} of {len(chosen)})")
            findings.append(conduct(server, trial, course))
    return findings
