"""The worker program: one engine, one link, from start to `os._exit`. The loop itself is in `loop.py`.

python -m refloat.worker --link-fd N --progress-fd M
"""

import argparse
import gc
import os
import sys
import time
from collections.abc import Sequence
from typing import NoReturn

from refloat.engines.base import Engine, LoadError
from refloat.engines.engine_text import load_error
from refloat.engines.faulty import FaultHooks
from refloat.engines.registry import build_engine
from refloat.wire.child import settle
from refloat.wire.exit_codes import ChildExit
from refloat.wire.faults import FaultKind
from refloat.wire.frame import FrameError
from refloat.wire.messages import (
    PROTOCOL_VERSION,
    Configure,
    EngineSpec,
    FaultFired,
    Hello,
    Loaded,
    LoadFailed,
    Prime,
    Shutdown,
    ToWorker,
)
from refloat.wire.pipe import EndOfLink, LinkClosedError, Pipe
from refloat.wire.progress import Phase, ProgressWriter
from refloat.wire.versions import library_versions
from refloat.worker.loop import ProtocolError, WorkerLoop
from refloat.worker.prime import prime

_LIBRARIES = ("openvino", "openvino_genai", "openvino_tokenizers")
_GC_THRESHOLD = 50_000
_JUNK = b"\xff" * 64

#: Held until `os._exit`: destroying a pipeline may call into a dead device context.
_undestroyed: list[Engine] = []


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the worker; leaves with a code of `ChildExit` and without any destructor."""
    parser = argparse.ArgumentParser(prog="refloat.worker")
    parser.add_argument("--link-fd", type=int, required=True)
    parser.add_argument("--progress-fd", type=int, required=True)
    options = parser.parse_args(arguments)
    code = ChildExit.INTERNAL
    try:
        code = _serve(options.link_fd, options.progress_fd)
    except (FrameError, ProtocolError) as error:
        _report(f"protocol: {error}")
        code = ChildExit.PROTOCOL
    except LinkClosedError:
        code = ChildExit.ASKED
    except BaseException:  # noqa: BLE001 - reported; the process ends here whatever it was
        _report_failure()
    os._exit(code)


def _serve(link_fd: int, progress_fd: int) -> ChildExit:
    has_parent = settle("refloat-worker")
    pipe: Pipe[ToWorker] = Pipe(link_fd, ToWorker)
    if not has_parent or pipe.is_abandoned():
        return ChildExit.ORPHANED
    progress = ProgressWriter(progress_fd)
    _enter(progress, Phase.STARTING)
    pipe.send(Hello(PROTOCOL_VERSION, os.getpid(), "worker", library_versions(_LIBRARIES)))
    command = pipe.recv()
    if isinstance(command, Prime):
        command = prime(pipe, progress, command)
    if isinstance(command, EndOfLink | Shutdown):
        return ChildExit.ASKED
    if not isinstance(command, Configure):
        raise ProtocolError(f"{type(command).__name__} before configure")
    if command.version != PROTOCOL_VERSION:
        raise ProtocolError(f"version {command.version} is spoken, not {PROTOCOL_VERSION}")
    engine = _load(pipe, progress, command.spec)
    if engine is None:
        return ChildExit.LOAD_FAILED
    loop = WorkerLoop(
        pipe,
        progress,
        engine,
        max_batched_tokens=engine.capabilities.step_tokens or command.spec.max_num_batched_tokens,
        prefix_caching=command.spec.enable_prefix_caching,
    )
    return loop.run()


def _load(pipe: Pipe[ToWorker], progress: ProgressWriter, spec: EngineSpec) -> Engine | None:
    """Build the engine and say so; `None` if it could not be built, which is said too."""
    _enter(progress, Phase.LOADING)
    began = time.monotonic()

    def fired(index: int) -> None:
        pipe.send(FaultFired(index))

    hooks = FaultHooks(fired, lambda: pipe.send_bytes(_JUNK), pipe.close)
    try:
        engine = build_engine(spec, hooks)
        _undestroyed.append(engine)
        engine.load(spec)
    except LinkClosedError:
        raise
    except Exception as caught:  # noqa: BLE001 - told to the gateway, which decides
        error = caught if isinstance(caught, LoadError) else load_error(caught)
        _report_failure()
        pipe.send(LoadFailed(_failure_kind(error), str(error)))
        return None
    gc.freeze()  # what a load leaves behind is never garbage; collections need not look at it
    gc.set_threshold(_GC_THRESHOLD)  # a step makes some hundred objects and no cycles
    gc.enable()
    pipe.send(Loaded(engine.capabilities, time.monotonic() - began))
    return engine


def _failure_kind(error: LoadError) -> FaultKind:
    if error.out_of_memory:
        return FaultKind.OUT_OF_MEMORY
    return FaultKind.BAD_CONFIGURATION if error.permanent else FaultKind.LOAD_FAILED


def _enter(progress: ProgressWriter, phase: Phase) -> None:
    progress.write(phase, step=0, begin_ns=time.monotonic_ns())


def _report_failure() -> None:
    """The failure being handled, with its stack."""
    import traceback  # few workers have any use for it

    _report(traceback.format_exc())


def _report(text: str) -> None:
    print(text, file=sys.stderr, flush=True)  # noqa: T201 - stderr is the worker's log
