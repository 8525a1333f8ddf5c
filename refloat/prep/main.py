"""The prep program: one model's tokenizer and template, one link, from start to `os._exit`.

python -m refloat.prep --link-fd N
"""

import argparse
import gc
import os
import traceback
from collections.abc import Sequence
from typing import NoReturn

from refloat.prep.error import PrepError
from refloat.prep.jobs import JobRunner
from refloat.prep.opening import open_model
from refloat.prep.outlet import Outlet
from refloat.prep.trial.desk import TrialDesk
from refloat.wire.child import PREP_OOM_SCORE, report, settle
from refloat.wire.exit_codes import ChildExit
from refloat.wire.frame import FrameError
from refloat.wire.messages import PROTOCOL_VERSION, Hello
from refloat.wire.pipe import EndOfLink, LinkClosedError, Pipe
from refloat.wire.prep_messages import (
    GuideJob,
    PrepConfigure,
    PrepFailed,
    PrepReady,
    ToPrep,
)
from refloat.wire.versions import library_versions

_LIBRARIES = ("openvino", "openvino_tokenizers", "jinja2")


class ProtocolError(Exception):
    """The gateway sent what is not legal here."""


#: The name this process goes by, in `ps` and in its log.
PROGRAM = "refloat-prep"


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run prep; leaves with a code of `ChildExit` and without destructors, some of which crash."""
    parser = argparse.ArgumentParser(prog="refloat.prep")
    parser.add_argument("--link-fd", type=int, required=True)
    options = parser.parse_args(arguments)
    code = ChildExit.INTERNAL
    try:
        code = _serve(options.link_fd)
    except (FrameError, ProtocolError) as error:
        report(PROGRAM, f"protocol: {error}")
        code = ChildExit.PROTOCOL
    except LinkClosedError:
        code = ChildExit.ASKED
    except BaseException:  # noqa: BLE001 - reported; the process ends here whatever it was
        report(PROGRAM, traceback.format_exc())
    os._exit(code)


def _serve(link_fd: int) -> ChildExit:
    has_parent = settle(PROGRAM, oom_score=PREP_OOM_SCORE)
    pipe: Pipe[ToPrep] = Pipe(link_fd, ToPrep)
    if not has_parent or pipe.is_abandoned():
        return ChildExit.ORPHANED
    pipe.send(Hello(PROTOCOL_VERSION, os.getpid(), "prep", library_versions(_LIBRARIES)))
    configure = pipe.recv()
    if isinstance(configure, EndOfLink):
        return ChildExit.ASKED
    if not isinstance(configure, PrepConfigure):
        raise ProtocolError(f"{type(configure).__name__} before prep_configure")
    if configure.version != PROTOCOL_VERSION:
        raise ProtocolError(f"version {configure.version} is spoken, not {PROTOCOL_VERSION}")
    opened = _open(pipe, configure)
    if opened is None:
        return ChildExit.LOAD_FAILED
    runner, ready = opened
    outlet = Outlet(pipe)
    is_real = configure.tokenizer == "openvino"
    desk = TrialDesk(_trial_arguments(configure, ready), outlet.answer, compiles=is_real)
    gc.freeze()
    gc.enable()
    pipe.send(ready)
    desk.open()
    return _loop(pipe, runner, outlet, desk)


def _open(pipe: Pipe[ToPrep], configure: PrepConfigure) -> tuple[JobRunner, PrepReady] | None:
    """Open the model; `None` if it cannot be opened, which is said."""
    try:
        return open_model(configure)
    except PrepError as error:
        report(PROGRAM, str(error))
        pipe.send(PrepFailed(str(error)))
        return None
    except Exception as error:  # noqa: BLE001 - reported, and told to the gateway
        report(PROGRAM, traceback.format_exc())
        pipe.send(PrepFailed(f"{type(error).__name__} while opening the tokenizer"))
        return None


def _trial_arguments(configure: PrepConfigure, ready: PrepReady) -> list[str]:
    """What a throw-away child is told of the model."""
    named = {
        "--model-path": configure.model_path,
        "--vocab-size": str(ready.vocab_size),
    }
    return [word for name, value in named.items() for word in (name, value)]


def _loop(pipe: Pipe[ToPrep], runner: JobRunner, outlet: Outlet, desk: TrialDesk) -> ChildExit:
    while True:
        job = pipe.recv()
        if job is None:
            continue
        if isinstance(job, EndOfLink):
            return ChildExit.ASKED
        if isinstance(job, PrepConfigure):
            raise ProtocolError("prep_configure twice")
        if isinstance(job, GuideJob):
            desk.submit(job)
        else:
            outlet.answer(runner.answer(job))
