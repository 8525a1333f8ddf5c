"""The overload bench from start to end: what is overloaded with what, and the rows it gives."""

from typing import Any

from refloat.bench.manners import Fairness, Intrusion, fairness, intrusion
from refloat.bench.measure import Progress
from refloat.bench.overload import (
    Overload,
    Subject,
    overload,
    repeat_questions,
    token_questions,
)
from refloat.bench.report import Row, show, verdict
from refloat.bench.run import BenchPlan

GOAL_OF_BEST = 0.95
GOAL_FAIR = 2.0
_REAL_BLOCKS, _SCRIPTED_BLOCKS = 120, 360
#: Tokens of a block on CPU, and of the scripted engine's.
_REAL_BLOCK, _SCRIPTED_BLOCK = 32, 16
_PROMPT, _LEAST, _MOST = 64, 16, 160
#: Ids that every vocabulary has.
_VOCABULARY = 800
_SCRIPTED_STEP_S = 0.02
#: A scripted chat's template, and its answers' repeated text on both sides.
_SCRIPTED_TOKENS = 180
_CHUNKS = (2048, 512, 256, 128, 64)
#: Of the longest pause without chunks, the one that is asked for.
_TARGET_SHARE = 0.5
_STREAM_BLOCKS = 1200
_SLOTS, _MANY = 16, 500


def run_overload(plan: BenchPlan, progress: Progress) -> list[Row]:
    """Throughput of a full cache, fairness, and what a long prompt does to running streams."""
    subjects = (_real(plan), _scripted())
    rows = [
        row
        for subject in subjects
        for row in overload_rows(overload(subject, rounds=plan.rounds, progress=progress))
    ]
    fair = fairness(slots=_SLOTS, many=_MANY, rounds=plan.rounds * 3, progress=progress)
    model: dict[str, Any] = {"model": str(plan.folder), "name": "bench", "device": plan.device}
    model["num_kv_blocks"] = _STREAM_BLOCKS
    intrusions = [
        intrusion(model, chunk, rounds=plan.rounds, progress=progress) for chunk in _CHUNKS
    ]
    target_ms = _TARGET_SHARE * intrusions[0].longest_s * 1e3
    model["inter_token_target_ms"] = round(target_ms, 1)
    intrusions += [intrusion(model, _CHUNKS[0], rounds=plan.rounds, progress=progress)]
    return [*rows, fairness_row(fair), *map(intrusion_row, intrusions)]


def overload_rows(result: Overload) -> list[Row]:
    """Against the best fixed number of clients."""
    what = f"{result.what}, {result.crowd} clients ÷ the best fixed number ({result.best})"
    detail = (
        f"{show(result.occupancy, '{:.3f}')}; {result.tokens_per_step:.1f} sequences in a step, "
        f"{result.preemptions:.2f} preemptions in 1,000 tokens"
    )
    goal = f"≥ {GOAL_OF_BEST}"
    is_met = result.speed.median >= GOAL_OF_BEST
    return [
        Row(f"tokens per second, {what}", show(result.speed, "{:.3f}"), goal, verdict(is_met)),
        Row(f"tokens per step, {what}", detail, "", ""),
    ]


def fairness_row(result: Fairness) -> Row:
    """A newcomer beside a crowd."""
    what = (
        f"TTFT of a tenant's only request beside {result.many} of another's ÷ beside that one's "
        f"share, {result.slots} slots, scripted"
    )
    detail = (
        f"{show(result.ratio, '{:.2f}')}; {result.beside_steps.median:.1f} of "
        f"{result.share_steps.median:.1f} steps"
    )
    return Row(what, detail, f"≤ {GOAL_FAIR:g}", verdict(result.ratio.median <= GOAL_FAIR))


def intrusion_row(result: Intrusion) -> Row:
    """One setting of the chunk."""
    setting = f"max_num_batched_tokens {result.batched_tokens}"
    if result.target_ms is not None:
        setting = f"inter_token_target_ms {result.target_ms:g}"
    what = f"time between tokens of 8 streams while 1,500 tokens arrive, {setting}"
    detail = (
        f"p99 {result.p99_s * 1e3:.0f} ms (quiet {result.quiet_p99_s * 1e3:.0f}), longest "
        f"{result.longest_s * 1e3:.0f} ms; TTFT of the long one {result.first_token_s * 1e3:.0f} ms"
    )
    return Row(what, detail, "", "")


def _real(plan: BenchPlan) -> Subject:
    model = _crowded({"model": str(plan.folder), "device": plan.device}, _REAL_BLOCKS)
    questions = token_questions("bench", _PROMPT, _LEAST, _MOST, _VOCABULARY)
    mean = _PROMPT + (_LEAST + _MOST) // 2
    return Subject(plan.folder.name, model, questions, mean, _REAL_BLOCKS * _REAL_BLOCK)


def _scripted() -> Subject:
    model = _crowded(
        {"model": "scripted", "engine_options": {"step_s": _SCRIPTED_STEP_S}}, _SCRIPTED_BLOCKS
    )
    questions = repeat_questions("bench", _LEAST, _MOST, 600)
    what = "scripted, lengths unknown"
    return Subject(what, model, questions, _SCRIPTED_TOKENS, _SCRIPTED_BLOCKS * _SCRIPTED_BLOCK)


def _crowded(model: dict[str, Any], blocks: int) -> dict[str, Any]:
    """As many slots as the engine has, so that blocks alone decide; prompts are all different."""
    return {
        **model,
        "name": "bench",
        "num_kv_blocks": blocks,
        "max_num_seqs": 256,
        "enable_prefix_caching": False,
        "max_queue": 5000,
    }
