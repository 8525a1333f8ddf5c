"""Children that misbehave on purpose, and a small prep that can be hurt. A program, not a test.

python odd_child.py MODE --link-fd N [--progress-fd M]
"""

import argparse
import os
import signal
import sys
from collections.abc import Callable
from typing import NoReturn

from refloat.wire.frame import encode_frame
from refloat.wire.guide import Guide
from refloat.wire.messages import (
    PROTOCOL_VERSION,
    Capabilities,
    Hello,
    Loaded,
    Probe,
    Probed,
    Shutdown,
    ToWorker,
    pack_ids,
    unpack_ids,
)
from refloat.wire.pipe import EndOfLink, Pipe
from refloat.wire.prep_messages import (
    CheckGuide,
    Detokenize,
    FromPrep,
    Guided,
    GuideJob,
    PrepConfigure,
    PrepFailed,
    PrepReady,
    PrepRefused,
    Render,
    ResumeGuide,
    Text,
    Tokenize,
    Tokens,
    TokenTable,
    ToPrep,
)
from refloat.wire.problem import Problem, ProblemKind


def _sleep_for_ever() -> NoReturn:
    while True:
        signal.pause()


def _hello(program: str = "worker", version: int = PROTOCOL_VERSION) -> Hello:
    return Hello(version, os.getpid(), program)


def _die(pipe: Pipe[ToWorker]) -> None:
    os._exit(3)


def _silent(pipe: Pipe[ToWorker]) -> None:
    _sleep_for_ever()


def _torn(pipe: Pipe[ToWorker]) -> None:
    pipe.send_bytes(encode_frame(_hello())[:-1])


def _garbage(pipe: Pipe[ToWorker]) -> None:
    pipe.send_bytes(b"\xff" * 64)
    _sleep_for_ever()


def _stranger(pipe: Pipe[ToWorker]) -> None:
    pipe.send(_hello(version=PROTOCOL_VERSION + 1))
    _sleep_for_ever()


def _impostor(pipe: Pipe[ToWorker]) -> None:
    pipe.send(_hello("prep"))
    _sleep_for_ever()


def _early(pipe: Pipe[ToWorker]) -> None:
    pipe.send(Probed((1,), None, 0.0))
    _sleep_for_ever()


def _close(pipe: Pipe[ToWorker]) -> None:
    pipe.send(_hello())
    pipe.close()
    _sleep_for_ever()


def _holder(pipe: Pipe[ToWorker]) -> None:
    """A grandchild keeps every descriptor open while its parent is gone."""
    pipe.send(_hello())
    if os.fork() == 0:
        _sleep_for_ever()
    os._exit(70)


def _noisy(pipe: Pipe[ToWorker]) -> None:
    sys.stderr.write("x" * 500_000 + "\nlast words\n")
    sys.stdout.write("on stdout")
    sys.stdout.flush()
    os._exit(70)


def _env(pipe: Pipe[ToWorker]) -> None:
    sys.stdout.write(" ".join(sorted(os.environ)))
    sys.stdout.flush()
    os._exit(70)


def _good(pipe: Pipe[ToWorker]) -> None:
    _serve(pipe, leaves=True)


def _stubborn(pipe: Pipe[ToWorker]) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    _serve(pipe, leaves=False)


_WORKERS: dict[str, Callable[[Pipe[ToWorker]], None]] = {
    "die": _die,
    "silent": _silent,
    "torn": _torn,
    "garbage": _garbage,
    "stranger": _stranger,
    "impostor": _impostor,
    "early": _early,
    "close": _close,
    "holder": _holder,
    "noisy": _noisy,
    "env": _env,
    "good": _good,
    "stubborn": _stubborn,
}


def _serve(pipe: Pipe[ToWorker], *, leaves: bool) -> None:
    pipe.send(_hello())
    pipe.recv()
    pipe.send(Loaded(Capabilities(blocks=False), 0.0))
    while True:
        message = pipe.recv()
        if isinstance(message, Probe):
            pipe.send(Probed((1, 2, 3, 4), None, 0.0))
        if isinstance(message, Shutdown | EndOfLink):
            if leaves:
                return
            _sleep_for_ever()


def _prep(mode: str, fd: int) -> None:
    pipe: Pipe[ToPrep] = Pipe(fd, ToPrep)
    if mode == "prep-dies":
        os._exit(1)
    pipe.send(_hello("prep"))
    configure = pipe.recv()
    assert isinstance(configure, PrepConfigure)
    if mode == "prep-fails":
        pipe.send(PrepFailed("the folder has no tokenizer"))
        return
    table = TokenTable(b"", pack_ids([]), ())
    pipe.send(PrepReady(table, vocab_size=256, eos_token_ids=(0,)))
    waiting: list[GuideJob] = []
    while True:
        job = pipe.recv()
        if isinstance(job, GuideJob):
            waiting.append(job)
        elif isinstance(job, Render | Tokenize | Detokenize):
            pipe.send(_answer(job))
        else:
            return
        if isinstance(job, Detokenize):
            while waiting:  # the last one first: their order means nothing
                pipe.send(_guided(waiting.pop()))


def _guided(job: GuideJob) -> FromPrep:
    """A wish's text is its grammar."""
    if isinstance(job, ResumeGuide):
        rest = job.guide.ebnf.removeprefix(job.emitted)
        return Guided(job.job, None if rest == job.guide.ebnf else Guide(rest))
    if isinstance(job, CheckGuide):
        return Guided(job.job, job.guide if job.emitted == job.guide.ebnf else None)
    if job.wish.text == "BAD":
        return PrepRefused(job.job, Problem(ProblemKind.INVALID_REQUEST, "bad", job.wish.param))
    return Guided(job.job, Guide(job.wish.text))


def _answer(job: Render | Tokenize | Detokenize) -> FromPrep:
    match job:
        case Detokenize():
            return Text(job.job, bytes(unpack_ids(job.tokens)).decode())
        case Render():
            texts = [str(job.messages[0]["content"])]
        case Tokenize():
            texts = job.texts
    if "HANG" in texts:
        _sleep_for_ever()
    if "DIE" in texts:
        os.kill(os.getpid(), signal.SIGSEGV)
    if "DIE ONCE" in texts:
        marker = os.environ["ODD_CHILD_MARKER"]
        if not os.path.exists(marker):
            with open(marker, "w", encoding="utf-8"):
                os.kill(os.getpid(), signal.SIGKILL)
    if "REFUSE" in texts:
        return PrepRefused(job.job, Problem(ProblemKind.INVALID_REQUEST, "no", "messages[0]"))
    longest = max((len(text.encode()) for text in texts), default=0)
    if job.most is not None and longest > job.most:
        return Tokens(job.job, (), too_many=longest)
    return Tokens(job.job, tuple(pack_ids(list(text.encode())) for text in texts))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("mode")
    parser.add_argument("--link-fd", type=int, required=True)
    parser.add_argument("--progress-fd", type=int)
    options = parser.parse_args()
    if options.mode.startswith("prep"):
        _prep(options.mode, options.link_fd)
    else:
        _WORKERS[options.mode](Pipe(options.link_fd, ToWorker))
    os._exit(0)


main()
