"""`refloat soak`: an agent's workload against any OpenAI endpoint, until an answer is wrong."""

from pathlib import Path

import msgspec

from refloat.cli.exit_codes import ExitCode
from refloat.cli.progress import say_on_stderr
from refloat.cli.serve import fail
from refloat.config.keys import KeyFileError, read_api_keys
from refloat.drill.soak import SoakPlan, soak
from refloat.drill.workload import Shape, turns


def run_soak(
    url: str,
    model: str,
    shape: Shape,
    *,
    requests: int | None,
    minutes: float | None,
    cap_s: float,
    api_key_file: Path | None,
    json_output: bool,
) -> int:
    """Ask, and say how it ended."""
    try:
        key = read_api_keys(api_key_file)[0] if api_key_file else None
    except KeyFileError as error:
        return fail(ExitCode.USAGE, [str(error)])
    plan = SoakPlan(
        url,
        model,
        turns(shape),
        cap_s=cap_s,
        requests=requests,
        duration_s=None if minutes is None else minutes * 60,
        api_key=key,
    )
    result = soak(plan, say_on_stderr)
    if json_output:
        print(msgspec.json.format(msgspec.json.encode(result.as_json()), indent=2).decode())
    elif result.wrong is None:
        print(f"{result.requests} requests in {result.wall_s:.0f} s, none answered wrongly.")
    else:
        print(
            f"Request {result.requests} ({result.wrong_turn}) was answered wrongly: {result.wrong}"
        )
    return ExitCode.OK if result.wrong is None else ExitCode.NOT_HELD
