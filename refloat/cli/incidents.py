"""`refloat incidents`: what is in the folder of incidents. Needs no server."""

import sys
from typing import TYPE_CHECKING

from refloat.cli.exit_codes import ExitCode
from refloat.cli.serve import fail
from refloat.config.home import incidents_dir
from refloat.observe.incident_record import Incident, IncidentSummary, encode_incident
from refloat.observe.incidents import IncidentStore, UnknownIncidentError

if TYPE_CHECKING:
    from rich.console import Console


def list_incidents(*, most: int) -> int:
    """Newest first: a table on a terminal, else lines with tabs. 2: the folder cannot be read."""
    try:
        found = IncidentStore(incidents_dir()).summaries(most)
    except OSError as error:
        return _unreadable(error)
    if not sys.stdout.isatty():
        for summary in found:
            print("\t".join(_row(summary)))
        return ExitCode.OK
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table("Incident", "Model", "Cause", "Came out", "After", "Generations")
    for summary in found:
        table.add_row(*map(escape, _row(summary)))
    Console().print(table if found else "No incident is on record.")
    return ExitCode.OK


def show_incident(name: str, *, as_json: bool) -> int:
    """One incident by its id, or the end of it. 2: there is none of that name, or the folder cannot be
    read."""
    store = IncidentStore(incidents_dir())
    try:
        incident = store.read(store.find(name))
    except (UnknownIncidentError, ValueError) as error:
        return fail(ExitCode.USAGE, [f"{error}; see `refloat incidents list`"])
    except OSError as error:
        return _unreadable(error)
    if as_json:
        sys.stdout.write(encode_incident(incident).decode())
    else:
        _print(incident, str(store.path(incident.id)))
    return ExitCode.OK


def _unreadable(error: OSError) -> int:
    return fail(ExitCode.USAGE, [f"{incidents_dir()} cannot be read: {error.strerror}"])


def _row(summary: IncidentSummary) -> tuple[str, ...]:
    after = "-" if summary.duration_s is None else f"{summary.duration_s:.1f} s"
    return (
        summary.id,
        summary.model,
        summary.cause,
        summary.outcome or "open",
        after,
        _fates(summary.generations) or "-",
    )


def _fates(generations: dict[str, str]) -> str:
    """`15 finished, 1 failed: poison_request`."""
    fates = list(generations.values())
    return ", ".join(f"{fates.count(fate)} {fate}" for fate in dict.fromkeys(fates))


def _print(incident: Incident, folder: str) -> None:
    from rich.console import Console

    # words of engines and kernels are shown as they are, without markup and colour
    console = Console(markup=False, highlight=False, soft_wrap=True)
    for name, value in _facts(incident, folder):
        console.print(f"{name + ':':<13}{value}")
    for hint in incident.hints:
        console.print(f"{'hint:':<13}{hint}")
    _print_actions(incident, console)
    for title, lines in _lists(incident):
        console.print(f"\n{title}")
        for line in lines:
            console.print(f"  {line}")


def _facts(incident: Incident, folder: str) -> list[tuple[str, str]]:
    phase = incident.phase or "not known"
    step = f", step {incident.step} ({incident.step_tokens} tokens)" if incident.step else ""
    device = " ".join(
        filter(None, (incident.device.name, incident.device.address, incident.device.driver))
    )
    took = "" if incident.duration_s is None else f" after {incident.duration_s:.3f} s"
    return [
        ("incident", incident.id),
        ("model", incident.model),
        ("opened", incident.opened),
        ("cause", f"{incident.cause}: {incident.reason}"),
        ("came out", f"{incident.outcome or 'open'}{took}"),
        ("worker", f"{incident.worker_id} (pid {incident.pid}, was {incident.state})"),
        ("doing", f"{phase}{step}"),
        ("exit status", "not known" if incident.exit_status is None else str(incident.exit_status)),
        ("device", device),
        ("engine", incident.engine),
        ("versions", " ".join(f"{k}={v}" for k, v in incident.versions.items())),
        ("properties", " ".join(f"{k}={v}" for k, v in incident.properties.items()) or "none"),
        ("rung", str(incident.rung or "0 (as configured)")),
        ("generations", _fates(incident.generations) or "none touched"),
        ("folder", folder),
    ]


def _print_actions(incident: Incident, console: "Console") -> None:
    console.print("\nwhat was done (seconds from detection, duration)")
    for action in incident.actions:
        console.print(
            f"  {action.at_s:>10.3f}  {action.duration_s:>10.3f}  {action.name} "
            f"(worker {action.worker_id})"
        )


def _lists(incident: Incident) -> list[tuple[str, list[str]]]:
    batch = [
        f"{entry.generation}: {entry.prompt_tokens} prompt + {entry.emitted_tokens} emitted tokens"
        f"{', in the step' if entry.in_step else ''}: "
        f"{incident.generations.get(str(entry.generation), 'no more is known')}"
        for entry in incident.batch
    ]
    losses = [
        f"{loss.at_s:.3f} s: worker {loss.worker_id} while {loss.state}: {loss.cause}: {loss.reason}"
        for loss in incident.losses[1:]
    ]
    kernel = [f"{'*' if note.names_worker else ' '} {note.line}" for note in incident.kernel]
    missing = [f"{entry.what}: {entry.why}" for entry in incident.missing]
    lists = [
        ("generations it had", batch),
        (f"lost on the way back ({incident.losses_total - 1} in all)", losses),
        ("kernel log (* names the worker)", kernel),
        ("files", list(incident.files)),
        ("could not be had", missing),
    ]
    return [(title, lines) for title, lines in lists if lines]
