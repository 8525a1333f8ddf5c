"""The throw-away child: makes grammars of wishes, or tries them, one after another, until it is ended.

python -m refloat.prep.trial --link-fd N --make
python -m refloat.prep.trial --link-fd N --model-path P --vocab-size V

Nobody tidies up after it: what takes too long or too much is killed with it (`process.py`).
"""

import argparse
import gc
import os
import re
import resource
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

from refloat.grammar.ebnf import from_ebnf
from refloat.grammar.errors import GrammarError
from refloat.grammar.residual import keeps_to
from refloat.prep.trial.error import CompileError
from refloat.prep.trial.making import ebnf_of, rest_of
from refloat.prep.trial.messages import Compile, Compiled, Job
from refloat.prep.trial.refusal import refused
from refloat.wire.child import report, settle
from refloat.wire.exit_codes import ChildExit
from refloat.wire.frame import FrameError
from refloat.wire.guide import Guide
from refloat.wire.messages import PROTOCOL_VERSION, Hello
from refloat.wire.pipe import EndOfLink, LinkClosedError, Pipe
from refloat.wire.prep_messages import (
    CheckGuide,
    Guided,
    MakeGuide,
    PrepRefused,
    ResumeGuide,
)
from refloat.wire.problem import Problem, ProblemKind

PROGRAM = "refloat-trial"
#: The kernel takes it before anybody else.
_OOM_SCORE = 1000
_NICE = 5
#: What it may grow by, from where it stands with its tables built. Address space: what a grammar
#: takes is mapped at once.
GROWTH_BYTES = 1 << 30
#: A grammar's own text beyond this was made of something that should have been refused before.
MAX_EBNF_CHARS = 1 << 20

_BUILD_PATH = re.compile(r"\[\d\d:\d\d:\d\d\]\s+|(?:/[^\s/:]+)+\.(?:cc|cpp|h):\d+:?\s*")
_MOST_SAID = 300


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run it; leaves without destructors."""
    parser = argparse.ArgumentParser(prog="refloat.prep.trial")
    parser.add_argument("--link-fd", type=int, required=True)
    parser.add_argument("--make", action="store_true")
    parser.add_argument("--model-path", default="")
    parser.add_argument("--vocab-size", type=int, default=0)
    options = parser.parse_args(arguments)
    code = ChildExit.INTERNAL
    try:
        code = _serve(options)
    except (FrameError, LinkClosedError):
        code = ChildExit.ASKED
    except BaseException:  # noqa: BLE001 - reported; the process ends here whatever it was
        report(PROGRAM, traceback.format_exc())
    os._exit(code)


def _serve(options: argparse.Namespace) -> ChildExit:
    has_parent = settle(PROGRAM, oom_score=_OOM_SCORE)
    pipe: Pipe[Job] = Pipe(options.link_fd, Job)
    if not has_parent:
        return ChildExit.ORPHANED
    os.nice(_NICE)
    _forget_limit()
    do = answer if options.make else _compiler(options)
    _limit_memory()
    gc.freeze()
    gc.enable()
    pipe.send(Hello(PROTOCOL_VERSION, os.getpid(), "trial"))
    while True:
        job = pipe.recv()
        if isinstance(job, EndOfLink):
            return ChildExit.ASKED
        if job is not None:
            pipe.send(do(job))


def _compiler(options: argparse.Namespace) -> Callable[[Any], Compiled]:
    # Imported here, since who makes grammars has to do without these libraries.
    from refloat.prep.trial.compiler import GrammarCompiler

    compile_ = GrammarCompiler(Path(options.model_path), options.vocab_size).compile
    return lambda job: tried(job, compile_)


def _forget_limit() -> None:
    """A child that was started during a rendering has that rendering's limit of memory."""
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (hard, hard))


def _limit_memory() -> None:
    with open("/proc/self/statm", "rb") as pages:
        size_bytes = int(pages.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    limit = size_bytes + GROWTH_BYTES
    if hard != resource.RLIM_INFINITY:
        limit = min(limit, hard)
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def answer(job: Any) -> Guided | PrepRefused:
    """Make a grammar of a wish, or of what is left of one, or hold a text to one. What cannot be done
    is refused, in the caller's terms."""
    try:
        if isinstance(job, CheckGuide):
            is_right = keeps_to(from_ebnf(job.guide.ebnf), job.emitted, is_whole=job.is_whole)
            return Guided(job.job, job.guide if is_right else None)
        ebnf = _text_of(job)
        if ebnf is None:
            return Guided(job.job, None)
        if len(ebnf) > MAX_EBNF_CHARS:
            raise GrammarError("it comes to too large a grammar")
        return Guided(job.job, Guide(ebnf))
    except GrammarError as error:
        return refused(job, error.message, error.path)
    except RecursionError:
        return refused(job, "it is nested too deeply")
    except MemoryError:
        return refused(job, "it needs too much memory")
    except Exception as error:  # noqa: BLE001 - reported; of the wish nothing is told, it is a caller's
        frames = traceback.extract_tb(error.__traceback__)[-4:]
        where = ", ".join(f"{frame.name}:{frame.lineno}" for frame in frames)
        report(PROGRAM, f"{type(error).__name__} in {where}")
        text = "The answer's form could not be prepared; this is a server error."
        return PrepRefused(job.job, Problem(ProblemKind.INTERNAL_ERROR, text))


def tried(job: Compile, compile_: Callable[[str], float]) -> Compiled:
    """Whether the engine compiles a grammar, and how long it takes."""
    try:
        return Compiled(job.job, compile_(job.ebnf))
    except CompileError as error:
        return Compiled(job.job, refusal=_words(str(error)))
    except MemoryError:
        return Compiled(job.job, refusal="it needs too much memory")


def _text_of(job: MakeGuide | ResumeGuide) -> str | None:
    if isinstance(job, ResumeGuide):
        return rest_of(job.guide, job.emitted)
    return ebnf_of(job.wish)


def _words(text: str) -> str:
    """An engine's message without the paths of the machine it was built on, on one line."""
    words = " ".join(_BUILD_PATH.sub("", text).split())
    return words[:_MOST_SAID].rstrip(". ")
