"""The field's workload against any OpenAI endpoint, one connection at a time and without a pause, until
the first wrong answer, a number of requests, or a time."""

import itertools
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from refloat.drill.workload import Turn
from refloat.testing.client import Client
from refloat.testing.outcome import Outcome, ask

_DEFAULT_BASE = "/v1"


@dataclass(frozen=True)
class SoakPlan:
    """Whom to ask what, and for how long."""

    url: str
    """Of the server, or of its API (`http://host:8000/v3`)."""
    model: str
    turns: Sequence[Turn]
    cap_s: float = 300.0
    """Seconds that one request may take."""
    requests: int | None = None
    duration_s: float | None = None
    api_key: str | None = None


@dataclass
class SoakResult:
    """What came of it."""

    requests: int = 0
    wall_s: float = 0.0
    first_text_s: list[float] = field(default_factory=list[float])
    longest_gap_s: float = 0.0
    wrong: str | None = None
    """Why the last answer was wrong; `None`: none was."""
    wrong_turn: str | None = None

    def as_json(self) -> dict[str, Any]:
        """For scripts."""
        first = self.first_text_s
        return {
            "requests": self.requests,
            "wall_s": round(self.wall_s, 1),
            "ttft_p50_s": round(statistics.median(first), 4) if first else None,
            "longest_gap_s": round(self.longest_gap_s, 4),
            "wrong": self.wrong,
            "wrong_turn": self.wrong_turn,
        }


def soak(plan: SoakPlan, progress: Callable[[str], None]) -> SoakResult:
    """Ask until something is wrong or enough has been asked."""
    path = chat_path(plan.url)
    client = Client(plan.url, api_key=plan.api_key, timeout_s=plan.cap_s)
    result = SoakResult()
    began_s = time.monotonic()
    without: tuple[str, ...] = ()
    for turn in itertools.cycle(plan.turns):
        result.wall_s = time.monotonic() - began_s
        if _is_enough(plan, result):
            return result
        outcome = ask(client, _body(turn, plan, without), path, cap_s=plan.cap_s)
        if _refuses_tools(outcome) and not without:
            without = ("tools",)
            progress("this model is served without tools: the turns go on without them")
            outcome = ask(client, _body(turn, plan, without), path, cap_s=plan.cap_s)
        result.requests += 1
        result.longest_gap_s = max(result.longest_gap_s, outcome.longest_gap_s)
        if outcome.first_text_s is not None:
            result.first_text_s.append(outcome.first_text_s)
        result.wrong = fault_of(outcome)
        if result.wrong is not None:
            result.wrong_turn = turn.name
            result.wall_s = time.monotonic() - began_s
            return result
        progress(f"{result.requests}: {turn.name}, {outcome.wall_s:.1f} s")
    return result


def chat_path(url: str) -> str:
    """Where chats go: below the URL's own path, else below `/v1`."""
    return (urlsplit(url).path.rstrip("/") or _DEFAULT_BASE) + "/chat/completions"


def fault_of(outcome: Outcome) -> str | None:
    """What is wrong with an answer of this workload; `None`: nothing."""
    if not outcome.is_right:
        return outcome.describe()
    if outcome.usage is None:
        return "the stream ended without the usage that was asked for"
    if not outcome.usage.get("completion_tokens"):
        return "the answer is empty"
    return None


def _body(turn: Turn, plan: SoakPlan, without: tuple[str, ...]) -> dict[str, Any]:
    fields = {key: value for key, value in turn.body.items() if key not in without}
    return {**fields, "model": plan.model}


def _refuses_tools(outcome: Outcome) -> bool:
    return outcome.status == 400 and (outcome.error or {}).get("param") == "tools"


def _is_enough(plan: SoakPlan, result: SoakResult) -> bool:
    if plan.requests is not None and result.requests >= plan.requests:
        return True
    return plan.duration_s is not None and result.wall_s >= plan.duration_s
