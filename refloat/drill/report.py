"""How a drill's findings are shown: a table for people, JSON for scripts."""

import statistics
from collections.abc import Sequence
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from refloat.drill.conduct import Finding

_COLUMNS = (
    "Phase", "Fault", "Recorded as", "Pause p50/max, s", "Lost/rep.", "Text", "Status", "Lies",
    "Held",
)  # fmt: skip
#: Where the output is no terminal, the table is as wide as it needs.
_WIDTH = 140


def console() -> Console:
    """For the table."""
    terminal = Console()
    return terminal if terminal.is_terminal else Console(width=_WIDTH)


def grouped(findings: Sequence[Finding]) -> list[list[Finding]]:
    """Repetitions of one trial together, in the order in which they were run."""
    groups: dict[tuple[str, str], list[Finding]] = {}
    for finding in findings:
        groups.setdefault((finding.trial.phase, finding.trial.act), []).append(finding)
    return list(groups.values())


def show(title: str, findings: Sequence[Finding], console: Console) -> None:
    """The table, and below it every trouble in full."""
    table = Table(*_COLUMNS, title=title, box=SIMPLE_HEAD)
    for group in grouped(findings):
        table.add_row(*row(group))
    console.print(table)
    for finding in findings:
        for trouble in finding.troubles:
            trial = finding.trial
            console.print(f"{trial.act} in {trial.phase}: {trouble}", markup=False)


def row(group: Sequence[Finding]) -> tuple[str, ...]:
    """One trial and its repetitions."""
    trial = group[0].trial
    pauses = [pause for finding in group for pause in finding.pauses_s]
    different = sum(finding.different for finding in group)
    return (
        str(trial.phase),
        str(trial.act),
        ", ".join(dict.fromkeys(cause for finding in group for cause in finding.causes)) or "-",
        f"{statistics.median(pauses):.2f} / {max(pauses):.2f}" if pauses else "-",
        f"{sum(f.lost for f in group)} / {sum(f.repeated for f in group)}",
        f"{different} differ" if different else "identical",
        _statuses(group),
        str(sum(len(finding.lies) for finding in group)),
        "yes" if all(finding.holds for finding in group) else "NO",
    )


def as_json(model: str, findings: Sequence[Finding]) -> dict[str, Any]:
    """Everything, for scripts."""
    return {
        "model": model,
        "held": all(finding.holds for finding in findings),
        "trials": [
            {
                "phase": finding.trial.phase,
                "fault": finding.trial.act,
                "recorded_as": finding.causes,
                "pauses_s": [round(pause, 4) for pause in finding.pauses_s],
                "tokens_lost": finding.lost,
                "tokens_repeated": finding.repeated,
                "texts_that_differ": finding.different,
                "statuses": {str(status): n for status, n in finding.statuses.items()},
                "readiness_lies": finding.lies,
                "troubles": finding.troubles,
            }
            for finding in findings
        ],
    }


def _statuses(group: Sequence[Finding]) -> str:
    counts: dict[int, int] = {}
    for finding in group:
        for status, count in finding.statuses.items():
            counts[status] = counts.get(status, 0) + count
    return ", ".join(f"{count} × {status}" for status, count in sorted(counts.items()))
