"""`refloat reset`: tell a running server to try a model again."""

from pathlib import Path
from urllib.parse import quote

import msgspec

from refloat.cli.ask import NoAnswerError, ServerRefusedError, Target, ask
from refloat.cli.exit_codes import ExitCode
from refloat.cli.serve import fail


class _Reset(msgspec.Struct):
    """What is used of the answer."""

    model: str
    state: str
    restarts: bool


def reset_model(
    model: str, url: str, api_key_file: Path | None, *, accept_probe: bool, timeout_s: float
) -> int:
    """Order the reset. 0: done or nothing to do, 2: refused, 6: no answer."""
    try:
        target = Target.of(url, api_key_file, timeout_s=timeout_s)
    except ValueError as error:
        return fail(ExitCode.USAGE, [str(error)])
    path = f"/admin/models/{quote(model)}/reset"
    try:
        body = ask(target, path, {"accept_probe": accept_probe})
        done = msgspec.json.decode(body, type=_Reset)
    except ServerRefusedError as error:
        return fail(ExitCode.USAGE, [f"{url}: {error}"])
    except NoAnswerError as error:
        return fail(ExitCode.UNREACHABLE, [f"{url}: {error}"])
    except (msgspec.DecodeError, RecursionError):
        return fail(ExitCode.UNREACHABLE, [f"{url}: what answers there is no Refloat server"])
    if done.restarts:
        print(f"{done.model} was {done.state}; it is started again")
    else:
        print(f"{done.model} is {done.state}; there is nothing to start again")
    return ExitCode.OK
