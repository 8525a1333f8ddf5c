"""The commands and their options. What they do is in their own modules, imported when called."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from refloat import __version__
from refloat.cli.exit_codes import ExitCode
from refloat.cli.options import EPILOG, serve_signature
from refloat.cli.uncollected import uncollected

ModelArgument = Annotated[
    str,
    typer.Argument(
        metavar="MODEL", help="smollm2, a folder, a .gguf file, or owner/name on the hub"
    ),
]
ConfigOption = Annotated[
    Path | None, typer.Option("--config", metavar="FILE", help="YAML file with the settings")
]

app = typer.Typer(
    name="refloat",
    help="Language models on OpenVINO behind the OpenAI API; generations survive their worker.",
    pretty_exceptions_enable=False,
    no_args_is_help=True,
    add_completion=False,
)
models_app = typer.Typer(no_args_is_help=True, help="Models in the cache ($REFLOAT_HOME).")
config_app = typer.Typer(no_args_is_help=True, help="Settings: show them, check a file.")
app.add_typer(models_app, name="models")
app.add_typer(config_app, name="config")
incidents_app = typer.Typer(no_args_is_help=True, help="Evidence of faults ($REFLOAT_HOME).")
app.add_typer(incidents_app, name="incidents")


def run(arguments: Sequence[str]) -> int:
    """Parse and run; the exit code."""
    try:
        app(args=list(arguments), prog_name="refloat")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(ExitCode.INTERNAL)
    return int(ExitCode.OK)


def _print_version(asked: bool) -> None:
    if asked:
        print(f"refloat {__version__}")
        raise typer.Exit(ExitCode.OK)


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Version.")
    ] = False,
) -> None:
    """What holds for every command."""


@app.command(epilog=EPILOG)
@serve_signature
def serve(model: str | None, config: Path | None, options: dict[str, str | bool]) -> None:
    """Serve models over HTTP until SIGTERM, which lets running answers finish first."""
    with uncollected():
        from refloat.cli.serve import serve_models

    raise typer.Exit(serve_models(model, config, options))


@app.command()
def status(
    url: Annotated[str, typer.Option(help="Where the server listens")] = "http://127.0.0.1:8000",
    api_key_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="File with the server's keys")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="The server's own words")] = False,
    timeout_s: Annotated[float, typer.Option(help="Seconds to wait for the answer")] = 10.0,
) -> None:
    """Ask a running server how it is. Exit code 0: ready, 5: not ready, 6: nothing answers."""
    from refloat.cli.status import show_status

    raise typer.Exit(show_status(url, api_key_file, as_json=as_json, timeout_s=timeout_s))


@app.command()
def reset(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="Name under which it is served")],
    url: Annotated[str, typer.Option(help="Where the server listens")] = "http://127.0.0.1:8000",
    api_key_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="File with the server's keys")
    ] = None,
    accept_probe: Annotated[
        bool, typer.Option("--accept-probe", help="What the next probe says is right from now on")
    ] = False,
    timeout_s: Annotated[float, typer.Option(help="Seconds to wait for the answer")] = 10.0,
) -> None:
    """Have a running server try a failed model again, now, and forget its faults so far."""
    from refloat.cli.reset import reset_model

    raise typer.Exit(
        reset_model(model, url, api_key_file, accept_probe=accept_probe, timeout_s=timeout_s)
    )


@app.command()
def bench(
    model: Annotated[str, typer.Argument(metavar="[MODEL]", help="As for serve")] = "smollm2",
    device: Annotated[str, typer.Option(help="OpenVINO device for both sides")] = "CPU",
    streams: Annotated[str, typer.Option(help="Concurrent streams to measure")] = "1,4,16",
    tokens: Annotated[int, typer.Option(min=2, help="Tokens of every answer")] = 64,
    rounds: Annotated[int, typer.Option(min=1, help="Interleaved rounds")] = 20,
    recovery: Annotated[
        bool, typer.Option("--recovery", help="What a worker's death costs, in place of speed")
    ] = False,
    overload: Annotated[
        bool, typer.Option("--overload", help="What a crowd gets, in place of speed")
    ] = False,
    markdown: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also write the report as Markdown")
    ] = None,
) -> None:
    """Measure the server beside the bare engine, in turns, and show ratios with intervals."""
    from refloat.cli.bench import bench as run_bench
    from refloat.cli.bench import parse_streams

    try:
        wanted = parse_streams(streams)
    except ValueError as error:
        raise typer.BadParameter(f"{streams!r} is no list of numbers such as 1,4,16") from error
    raise typer.Exit(
        run_bench(
            model, device=device, streams=wanted, tokens=tokens, rounds=rounds, recovery=recovery,
            overload=overload, markdown=markdown,
        )
    )  # fmt: skip


@app.command()
def drill(
    model: Annotated[
        str, typer.Argument(metavar="[MODEL]", help="As for serve, or scripted")
    ] = "smollm2",
    device: Annotated[str, typer.Option(help="OpenVINO device")] = "CPU",
    faults: Annotated[
        str, typer.Option(help="Kinds of faults, or all")
    ] = "context_fatal,raise,segv,kill,hang,garbage",
    phases: Annotated[
        str, typer.Option(help="When they strike: loading, prefill, decode, last, idle, or all")
    ] = "all",
    clients: Annotated[int, typer.Option(min=1, max=64, help="Requests that meet each fault")] = 4,
    tokens: Annotated[int, typer.Option(min=4, help="Tokens of every answer")] = 32,
    repeats: Annotated[int, typer.Option(min=1, help="Times that each fault strikes")] = 1,
    exact: Annotated[
        bool, typer.Option("--exact", help="Under the exact profile: texts have to be identical")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Everything, for scripts")] = False,
) -> None:
    """Hurt a model on a private server in every way, and show what its clients noticed.

    Exit code 0: every answer was whole and no readiness was untrue; 7: not so."""
    from refloat.cli.drill import drill as run_drill
    from refloat.cli.drill import parse_choices
    from refloat.drill.trial import Phase
    from refloat.faults.plan import FaultAct

    try:
        acts, moments = parse_choices(faults, FaultAct), parse_choices(phases, Phase)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
    raise typer.Exit(
        run_drill(
            model, device=device, faults=acts, phases=moments, clients=clients, tokens=tokens,
            repeats=repeats, exact=exact, json_output=as_json,
        )
    )  # fmt: skip


@app.command()
def soak(
    url: Annotated[str, typer.Argument(metavar="URL", help="Of a server, or of its API (…/v3)")],
    model: Annotated[str, typer.Option(help="Name under which it is served")],
    requests: Annotated[int | None, typer.Option(min=1, help="Stop after so many")] = None,
    minutes: Annotated[float | None, typer.Option(min=0.0, help="Stop after so long")] = None,
    cap_s: Annotated[float, typer.Option(help="Seconds that one request may take")] = 300.0,
    scale: Annotated[
        float, typer.Option(min=0.01, help="Of 12,000 to 14,300 prompt tokens a turn")
    ] = 1.0,
    tools: Annotated[int, typer.Option(min=0, max=512, help="Tool schemas in each turn")] = 46,
    prose: Annotated[bool, typer.Option("--prose", help="Prose in place of data")] = False,
    max_tokens: Annotated[int, typer.Option(min=1, help="Of every answer")] = 200,
    seed: Annotated[int, typer.Option(help="Of the texts")] = 1,
    api_key_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="File with the server's keys")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="The result, for scripts")] = False,
) -> None:
    """Send an agent's turns to any OpenAI endpoint, one after another, until an answer is wrong.

    Exit code 0: none was; 7: one was, and which."""
    from refloat.cli.soak import run_soak
    from refloat.drill.workload import Shape

    shape = Shape(scale, tools, is_prose=prose, max_tokens=max_tokens, seed=seed)
    raise typer.Exit(
        run_soak(
            url, model, shape, requests=requests, minutes=minutes, cap_s=cap_s,
            api_key_file=api_key_file, json_output=as_json,
        )
    )  # fmt: skip


@models_app.command("pull")
def models_pull(model: ModelArgument) -> None:
    """Fetch and convert a model now, so that serving it needs no network."""
    from refloat.cli.models import pull

    raise typer.Exit(pull(model))


@models_app.command("list")
def models_list() -> None:
    """List what is in the cache."""
    from refloat.cli.models import list_models

    raise typer.Exit(list_models())


@models_app.command("rm")
def models_rm(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A source or folder from the list")],
    force: Annotated[
        bool, typer.Option("--force", help="Also one that a running server uses")
    ] = False,
) -> None:
    """Remove a model and what it was made from."""
    from refloat.cli.models import remove

    raise typer.Exit(remove(name, force=force))


@config_app.command("show")
def config_show(config: ConfigOption = None) -> None:
    """Show every setting in force, and where it came from."""
    from refloat.cli.config import show_config

    raise typer.Exit(show_config(config))


@config_app.command("check")
def config_check(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="YAML file to check")],
) -> None:
    """Check a file without serving anything."""
    from refloat.cli.config import check_config

    raise typer.Exit(check_config(file))


@incidents_app.command("list")
def incidents_list(
    most: Annotated[int, typer.Option("--most", min=1, help="How many, newest first")] = 100,
) -> None:
    """List what is on record, newest first. No server is asked."""
    from refloat.cli.incidents import list_incidents

    raise typer.Exit(list_incidents(most=most))


@incidents_app.command("show")
def incidents_show(
    name: Annotated[str, typer.Argument(metavar="ID", help="An id from the list, or its end")],
    as_json: Annotated[bool, typer.Option("--json", help="The record as it is kept")] = False,
) -> None:
    """Show one: cause, evidence, what was done and how long it took, hints."""
    from refloat.cli.incidents import show_incident

    raise typer.Exit(show_incident(name, as_json=as_json))
