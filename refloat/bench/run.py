"""One bench run from start to end: both sides stand up with the same settings, then take turns."""

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from refloat.bench import measure, recovery, report
from refloat.bench.measure import Progress, Prompts
from refloat.bench.neighbour import neighbour
from refloat.bench.yardstick import BareEngine
from refloat.testing.harness import Server

#: Of the paced scripted engine: 200 tokens per second and stream.
PACED_STEP_S = 0.005
#: Of each answer of the scripted engine. CPU time is told in hundredths of a second, so that an answer
#: by itself has to be long to show microseconds.
_SCRIPTED_TOKENS = 500
_SCRIPTED_TOKENS_ALONE = 8_000


@dataclass(frozen=True)
class BenchPlan:
    """What to measure."""

    folder: Path
    """Model folder with OpenVINO IR."""
    device: str = "CPU"
    context_length: int = 0
    streams: Sequence[int] = (1, 4, 16)
    tokens: int = 64
    rounds: int = 20
    num_kv_blocks: int = 256
    max_num_seqs: int = 64
    max_num_batched_tokens: int = 512
    enable_prefix_caching: bool = True


def run_bench(plan: BenchPlan, progress: Progress) -> list[report.Row]:
    """Measure everything but recovery. Raises what a side raises when it fails: a bench never
    guesses."""
    settings = _settings(plan)
    model = _model(plan)
    rows: list[report.Row] = []
    with ExitStack() as stack:
        progress("starting the server and the bare engine")
        server = stack.enter_context(Server.start(config={"models": [model]}, log_level="info"))
        bare = stack.enter_context(BareEngine(str(plan.folder), settings))
        prompts = Prompts.for_model(server, "bench")
        for streams in plan.streams:
            result = measure.throughput(
                server, "bench", bare, prompts,
                streams=streams, tokens=plan.tokens, rounds=plan.rounds, progress=progress,
            )  # fmt: skip
            rows += [report.throughput_row(result)]
        first = measure.first_token(
            server, "bench", bare, prompts, rounds=plan.rounds * 3, progress=progress
        )
        rows += [report.first_token_row(first)]
        rows.append(report.memory_row(measure.resident_bytes(server)))
    return [*rows, *_token_costs(max(5, plan.rounds // 4), progress)]


def run_recovery(plan: BenchPlan, progress: Progress) -> list[report.Row]:
    """Measure what a worker's death costs. As long as `rounds` times four loads of the model."""
    model = _model(plan)

    def bare() -> BareEngine:
        return BareEngine(str(plan.folder), _settings(plan))

    cold = recovery.recovery(model, bare, rounds=plan.rounds, progress=progress)
    warm = recovery.takeover(model, rounds=plan.rounds, progress=progress)
    return [
        *report.recovery_rows(cold),
        report.takeover_row(warm),
        report.journal_row(recovery.journal_cost(plan.rounds)),
        report.neighbour_row(neighbour(rounds=plan.rounds, progress=progress)),
    ]


def _settings(plan: BenchPlan) -> dict[str, Any]:
    return {
        "num_kv_blocks": plan.num_kv_blocks,
        "max_num_seqs": plan.max_num_seqs,
        "max_num_batched_tokens": plan.max_num_batched_tokens,
        "enable_prefix_caching": plan.enable_prefix_caching,
        "device": plan.device,
    }


def _model(plan: BenchPlan) -> dict[str, Any]:
    model = {"model": str(plan.folder), "name": "bench", **_settings(plan)}
    if plan.context_length:
        model["context_length"] = plan.context_length
    return model


def _token_costs(rounds: int, progress: Progress) -> list[report.Row]:
    """With an engine that steps as fast as it can, so that the gateway takes several steps at a time,
    and with one that steps every few milliseconds, so that every token is written by itself."""
    rows: list[report.Row] = []
    for step_s, alone in ((0.0, _SCRIPTED_TOKENS_ALONE), (PACED_STEP_S, _SCRIPTED_TOKENS)):
        model = {
            "model": "scripted",
            "context_length": 2 * _SCRIPTED_TOKENS_ALONE,
            "engine_options": {"step_s": step_s},
        }
        with Server.start(config={"models": [model]}, log_level="info") as server:
            for streams, tokens in ((1, alone), (16, _SCRIPTED_TOKENS)):
                cost = measure.token_cost(
                    server, "scripted",
                    streams=streams, tokens=tokens, rounds=rounds, progress=progress,
                )  # fmt: skip
                rows.append(report.token_cost_row(cost, step_s))
    return rows
