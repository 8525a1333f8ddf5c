"""How a bench run is shown: a table for the terminal, the same as Markdown for the documents."""

import platform
from importlib.metadata import version
from typing import NamedTuple

import psutil

from refloat.bench.measure import FirstToken, Throughput, TokenCost
from refloat.bench.neighbour import Neighbour
from refloat.bench.paired import Estimate
from refloat.bench.recovery import JournalCost, Recovery, Takeover

#: design goals, as (what, the number they speak of, the goal)
GOAL_RATIO_AT_16 = 0.97
GOAL_TTFT_ADDED_S = 0.002
GOAL_COST_US = 50.0
GOAL_PAUSE_BEYOND_LOAD_S = 1.0
GOAL_PAUSE_BEYOND_PREFILL_S = 0.5
GOAL_DETECTION_S = 0.1


class Row(NamedTuple):
    """One line of the report."""

    what: str
    measured: str
    goal: str
    verdict: str


def throughput_row(result: Throughput) -> Row:
    """Server ÷ bare engine at one concurrency."""
    goal, judged = "", ""
    if result.streams == 16:
        goal = f"≥ {GOAL_RATIO_AT_16}"
        judged = verdict(result.ratio.median >= GOAL_RATIO_AT_16)
    detail = (
        f"{show(result.ratio, '{:.3f}')}; {result.server_tokens_per_s.median:.0f} of "
        f"{result.bare_tokens_per_s.median:.0f} tok/s; client CPU {result.client_cpu_share:.1%}, "
        f"gateway {result.gateway_cpu_us_per_token:.0f} µs a token"
    )
    return Row(f"throughput ÷ bare engine, {result.streams} streams", detail, goal, judged)


def first_token_row(result: FirstToken) -> Row:
    """Time to first token added."""
    detail = (
        f"{show(result.added_s, '{:.2f}', 1e3)} ms; server {result.server_s.median * 1e3:.1f}, "
        f"bare {result.bare_s.median * 1e3:.1f} ms"
    )
    judged = verdict(result.added_s.median <= GOAL_TTFT_ADDED_S)
    return Row("TTFT added on an idle server, p50", detail, "≤ 2 ms", judged)


def token_cost_row(result: TokenCost, step_s: float) -> Row:
    """Gateway CPU per streamed token, with an engine that steps this often."""
    detail = f"{show(result.cost_us, '{:.1f}')} µs, over {result.tokens} tokens"
    pace = f"a step every {step_s * 1e3:.0f} ms" if step_s else "steps without pause"
    return Row(
        f"gateway CPU per streamed token, scripted engine, {pace}, {result.streams} streams",
        detail,
        "≤ 50 µs",
        verdict(result.cost_us.median <= GOAL_COST_US),
    )


def memory_row(sizes: dict[str, int]) -> Row:
    """Resident memory of each program."""
    detail = ", ".join(f"{name} {size / 2**20:.0f} MB" for name, size in sizes.items())
    return Row("RSS", detail, "", "")


def recovery_rows(result: Recovery) -> list[Row]:
    """A worker's death without a spare."""
    pause = (
        f"{show(result.pause_s, '{:.2f}')} s; bare load {show(result.bare_load_s, '{:.2f}')} s; "
        f"ratio {show(result.ratio, '{:.2f}')}; pause - load {show(result.added_s, '{:.2f}')} s; "
        f"the bare engine's first two tokens then take {show(result.bare_first_s, '{:.2f}')} s"
    )
    resident = f"{result.resident_bytes / 2**20:.0f} MB resident"
    return [
        Row(
            "pause after SIGKILL, last token to first token", pause, "≤ bare load + 1 s",
            verdict(result.added_s.median <= GOAL_PAUSE_BEYOND_LOAD_S),
        ),
        Row(
            f"detection of a death, {resident}", f"{show(result.detection_s, '{:.0f}', 1e3)} ms",
            "≤ 100 ms + the kernel's teardown",
            verdict(result.detection_s.median <= GOAL_DETECTION_S),
        ),
    ]  # fmt: skip


def takeover_row(result: Takeover) -> Row:
    """A worker's death with a loaded spare."""
    detail = (
        f"{show(result.pause_s, '{:.2f}')} s; prefill {result.prefill_s.median * 1e3:.0f} ms; "
        f"pause - prefill {show(result.added_s, '{:.2f}')} s"
    )
    judged = verdict(result.added_s.median <= GOAL_PAUSE_BEYOND_PREFILL_S)
    return Row("pause after SIGKILL with a warm spare", detail, "≤ 0.5 s + prefill", judged)


def journal_row(result: JournalCost) -> Row:
    """The journal's part of a token's cost."""
    detail = f"{show(result.accept_us, '{:.2f}')} µs, {result.bytes_per_token:.0f} bytes"
    return Row("journal, each token", detail, "", "")


def neighbour_row(result: Neighbour) -> Row:
    """What another model's losses cost."""
    detail = (
        f"{show(result.ratio, '{:.2f}')}; {result.beside_s.median * 1e3:.1f} of "
        f"{result.calm_s.median * 1e3:.1f} ms; {result.failed} requests failed"
    )
    what = "latency while another model's worker is killed and rebuilt ÷ latency in peace"
    return Row(what, detail, "no request fails", verdict(not result.failed))


def machine() -> str:
    """The machine and versions that the figures belong to, in one line."""
    return (
        f"{_processor()}, {psutil.cpu_count()} cores, {psutil.virtual_memory().total / 2**30:.0f} GiB; "
        f"Python {platform.python_version()}, openvino-genai {version('openvino-genai')}"
    )


def as_markdown(title: str, rows: list[Row]) -> str:
    """The report as a Markdown section."""
    lines = [f"## {title}", "", f"Machine: {machine()}.", ""]
    lines += ["| what | measured | goal | |", "|---|---|---|---|"]
    lines += [f"| {r.what} | {r.measured} | {r.goal} | {r.verdict} |" for r in rows]
    return "\n".join(lines) + "\n"


def show(value: Estimate, form: str, factor: float = 1.0) -> str:
    """Median and interval, each times `factor` in this form."""
    low, median, high = (form.format(x * factor) for x in (value.low, value.median, value.high))
    return f"{median} [{low}, {high}]"


def verdict(met: bool) -> str:
    """Of a goal."""
    return "met" if met else "missed"


def _processor() -> str:
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        for line in file:
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.machine()
