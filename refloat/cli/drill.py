"""`refloat drill`: how a model of the user's own bears every fault, as a table."""

from collections.abc import Sequence
from enum import StrEnum
from typing import TypeVar

import msgspec

from refloat.cli.exit_codes import ExitCode
from refloat.cli.progress import say_on_stderr
from refloat.cli.serve import fail
from refloat.config.load import locate_here
from refloat.drill.report import as_json, console, show
from refloat.drill.run import DrillPlan, run_drill
from refloat.drill.trial import Phase
from refloat.faults.plan import FaultAct
from refloat.testing.harness import ServerEndedError
from refloat.testing.patience import NotInTimeError

Choice = TypeVar("Choice", bound=StrEnum)


def parse_choices(text: str, kind: type[Choice]) -> tuple[Choice, ...]:
    """Names from a list with commas; `all` is every one. Raises `ValueError` with those there are."""
    if text == "all":
        return tuple(kind)
    known = {member.value: member for member in kind}
    names = [name.strip() for name in text.split(",")]
    unknown = [name for name in names if name not in known]
    if unknown:
        raise ValueError(f"{unknown[0]!r} is none of: {', '.join(known)}, all")
    return tuple(known[name] for name in names)


def drill(
    model: str,
    *,
    device: str,
    faults: Sequence[FaultAct],
    phases: Sequence[Phase],
    clients: int,
    tokens: int,
    repeats: int,
    exact: bool,
    json_output: bool,
) -> int:
    """Run it, show it; OK only if everything held."""
    plan = DrillPlan(
        locate_here(model),
        faults,
        phases,
        clients=clients,
        tokens=tokens,
        repeats=repeats,
        is_exact=exact,
        settings={"device": device},
    )
    try:
        findings = run_drill(plan, say_on_stderr)
    except (ServerEndedError, NotInTimeError) as error:
        return fail(ExitCode.NO_MODEL, [str(error)])
    if json_output:
        print(msgspec.json.format(msgspec.json.encode(as_json(model, findings)), indent=2).decode())
    else:
        show(f"Drill of {model} on {device}", findings, console())
    held = bool(findings) and all(finding.holds for finding in findings)
    return ExitCode.OK if held else ExitCode.NOT_HELD
