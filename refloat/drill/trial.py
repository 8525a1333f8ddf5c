"""What a drill tries: faults and phases as data, the plan that provokes them, the requests that meet
them. Nothing runs here.

Prompts are token ids, so that the fault can wait for its own request on any engine and any model.
"""

import random
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from refloat.faults.plan import FaultAct


class Phase(StrEnum):
    """When the fault strikes."""

    LOADING = "loading"
    """While a worker loads and requests wait for it."""
    PREFILL = "prefill"
    """Before a request's first token."""
    DECODE = "decode"
    """In the middle of the answers."""
    LAST = "last"
    """Before an answer's last token."""
    IDLE = "idle"
    """While nothing runs; the requests come afterwards."""


_SERVICE = (
    FaultAct.RAISE, FaultAct.CONTEXT_FATAL, FaultAct.WEDGE, FaultAct.SEGV, FaultAct.ABORT,
    FaultAct.KILL, FaultAct.EXIT, FaultAct.HANG, FaultAct.STOP, FaultAct.GARBAGE,
    FaultAct.CLOSE_SOCKET,
)  # fmt: skip

#: What can happen in each phase. A load that hangs is waited for as long as a load may take, which
#: nobody wants of a drill.
KINDS: Mapping[Phase, Sequence[FaultAct]] = {
    Phase.LOADING: tuple(
        act for act in _SERVICE if act not in (FaultAct.WEDGE, FaultAct.HANG, FaultAct.STOP)
    ),
    Phase.PREFILL: _SERVICE,
    Phase.DECODE: _SERVICE,
    Phase.LAST: _SERVICE,
    Phase.IDLE: (FaultAct.SEGV, FaultAct.ABORT, FaultAct.KILL, FaultAct.STOP),
}

#: Sent to an idle worker, which takes no step in which a plan could act.
SIGNALS: Mapping[FaultAct, signal.Signals] = {
    FaultAct.SEGV: signal.SIGSEGV,
    FaultAct.ABORT: signal.SIGABRT,
    FaultAct.KILL: signal.SIGKILL,
    FaultAct.STOP: signal.SIGSTOP,
}

#: Ids that every vocabulary has, and that are no special tokens in those that begin with them.
_LOWEST, _HIGHEST = 40, 240
_MARK = _HIGHEST - 1
_PROMPT_TOKENS = 48


@dataclass(frozen=True)
class Trial:
    """One fault in one phase, once."""

    number: int
    act: FaultAct
    phase: Phase
    repeat: int = 0

    @property
    def mark(self) -> list[int]:
        """Ids that stand in no other trial's prompts."""
        return [_MARK, *(_LOWEST + self.number // base % 100 for base in (100, 1)), _MARK]


def trials(acts: Sequence[FaultAct], phases: Sequence[Phase], repeats: int) -> list[Trial]:
    """Every fault in every phase in which it can happen, those of loading first: their plan counts
    the loads before them."""
    chosen = [
        (act, phase, repeat)
        for phase in sorted(phases, key=lambda phase: phase is not Phase.LOADING)
        for act in KINDS[phase]
        if act in acts
        for repeat in range(repeats)
    ]
    return [Trial(number, act, phase, repeat) for number, (act, phase, repeat) in enumerate(chosen)]


def plan_for(chosen: Sequence[Trial], tokens: int) -> list[dict[str, Any]]:
    """The fault plan in which every trial waits for its moment. `tokens`: length of the answers."""
    plan: list[dict[str, Any]] = []
    for trial in chosen:
        match trial.phase:
            case Phase.LOADING:
                # The first load passes, and one after each earlier trial.
                plan.append({"at": "load", "kind": trial.act.value, "skip": trial.number + 1})
            case Phase.IDLE:
                pass  # a signal
            case _:
                plan.append(
                    {
                        "at": "token",
                        "token": place_of(trial.phase, tokens),
                        "kind": trial.act.value,
                        "match_tokens": trial.mark,
                    }
                )
    return plan


def place_of(phase: Phase, tokens: int) -> int:
    """The token before which the fault strikes."""
    match phase:
        case Phase.DECODE:
            return tokens // 2
        case Phase.LAST:
            return tokens - 1
        case _:
            return 0


def bodies_for(
    trial: Trial, clients: int, tokens: int, model: str, *, marked: bool
) -> list[dict[str, Any]]:
    """What the clients send: distinct prompts, every other one streamed. With `marked`, the first
    one's carries the mark that the fault waits for."""
    return [
        {
            "model": model,
            "prompt": _prompt(trial, client, marked=marked and client == 0),
            "max_tokens": tokens,
            "temperature": 0,
            "ignore_eos": True,
            "stream": client % 2 == 0,
            **({"stream_options": {"include_usage": True}} if client % 2 == 0 else {}),
        }
        for client in range(clients)
    ]


def _prompt(trial: Trial, client: int, *, marked: bool) -> list[int]:
    chance = random.Random(f"{trial.number}/{client}")
    filling = [chance.randrange(_LOWEST, _MARK) for _ in range(_PROMPT_TOKENS)]
    return [*(trial.mark if marked else ()), *filling]
