"""Every metric, once. `/metrics` renders this registry; `docs/API.md` lists it (a test compares).

Label values come from closed sets or from the configured model names, never from a caller.
"""

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)
_TOKEN_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.3, 2.6, 5.2, 10)


class Metrics:
    """One registry for one gateway; tests make as many as they like."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._define_traffic(self.registry)
        self._define_state(self.registry)

    def _define_traffic(self, r: CollectorRegistry) -> None:
        self.requests = Counter(
            "refloat_requests", "HTTP requests answered", ["route", "code"], registry=r
        )
        self.request_seconds = Histogram(
            "refloat_request_seconds", "Wall time of an HTTP request, first byte in to last byte out",
            ["route"], buckets=_SECONDS, registry=r,
        )  # fmt: skip
        self.generations = Counter(
            "refloat_generations",
            "Generations ended, by final state",
            ["model", "state"],
            registry=r,
        )
        self.aborted = Counter(
            "refloat_aborted", "Requests whose client left before the end", ["model"], registry=r
        )
        self.ttft_seconds = Histogram(
            "refloat_time_to_first_token_seconds", "From acceptance to the first token", ["model"],
            buckets=_SECONDS, registry=r,
        )  # fmt: skip
        self.inter_token_seconds = Histogram(
            "refloat_inter_token_seconds", "Between two outputs of one generation", ["model"],
            buckets=_TOKEN_SECONDS, registry=r,
        )  # fmt: skip
        self.prompt_tokens = Counter(
            "refloat_prompt_tokens", "Prompt tokens of accepted requests", ["model"], registry=r
        )
        self.cached_tokens = Counter(
            "refloat_cached_prompt_tokens", "Prompt tokens found in the prefix cache, by our account",
            ["model"], registry=r,
        )  # fmt: skip
        self.generated_tokens = Counter(
            "refloat_generated_tokens", "Tokens taken from workers", ["model"], registry=r
        )
        self.engine_steps = Counter(
            "refloat_engine_steps", "Engine steps heard of: tokens for each are sequences that ran",
            ["model"], registry=r,
        )  # fmt: skip

    def _define_state(self, r: CollectorRegistry) -> None:
        self.waiting = Gauge(
            "refloat_waiting", "Generations that wait for a worker", ["model"], registry=r
        )
        self.running = Gauge(
            "refloat_running", "Generations that a worker has", ["model"], registry=r
        )
        self.kv_blocks = Gauge("refloat_kv_blocks", "KV blocks in all", ["model"], registry=r)
        self.kv_blocks_used = Gauge(
            "refloat_kv_blocks_used", "KV blocks that generations hold", ["model"], registry=r
        )
        self.preemptions = Counter(
            "refloat_preemptions", "Generations stopped for a while to make room, by reason",
            ["model", "why"], registry=r,
        )  # fmt: skip
        self.worker_state = Gauge(
            "refloat_worker_state", "1 for the state a worker slot is in, else 0", ["model", "state"],
            registry=r,
        )  # fmt: skip
        self.restarts = Counter(
            "refloat_worker_restarts", "Workers lost, by cause", ["model", "cause"], registry=r
        )
        self.incidents = Counter(
            "refloat_incidents", "Incidents, by the cause that was judged in the end",
            ["model", "cause"], registry=r,
        )  # fmt: skip
        self.convictions = Counter(
            "refloat_convictions", "Requests that by themselves ended their worker", ["model"],
            registry=r,
        )  # fmt: skip
        self.ladder_rung = Gauge(
            "refloat_ladder_rung", "How far a model's settings are below full speed; 0: as configured",
            ["model"], registry=r,
        )  # fmt: skip
        self.step_age_seconds = Gauge(
            "refloat_step_age_seconds", "Age of the step under way; 0 when there is none", ["model"],
            registry=r,
        )  # fmt: skip
        self.orphans = Gauge(
            "refloat_orphans", "Requests whose answer goes on without their client", registry=r
        )
        self.worker_memory_bytes = Gauge(
            "refloat_worker_memory_bytes", "Host memory of a model's ready workers", ["model"],
            registry=r,
        )  # fmt: skip
        self.held_bytes = Gauge(
            "refloat_held_bytes",
            "Bodies, journals and buffers held, against the budget",
            registry=r,
        )

    def render(self) -> bytes:
        """The text exposition format, version 0.0.4."""
        return b"".join(self.parts())

    def parts(self) -> Iterator[bytes]:
        """The same, one metric after another: all those of many models take longer than somebody's next
        token should wait."""
        for metric in self.registry.collect():
            yield generate_latest(_Alone(metric))


class _Alone(Collector):
    """One metric, as a registry would give it."""

    def __init__(self, metric: Metric) -> None:
        self._metric = metric

    def collect(self) -> Iterator[Metric]:
        yield self._metric
