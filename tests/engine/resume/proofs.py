"""The rows of docs/RESUME.md: what a generation asked for, and how equal its resumption is. Each row
with a body is proven by `test_parameters.py`; the document is compared with this table."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

ExactnessClass = Literal["exact", "continuation", "replay only"]

#: Before this token the worker is lost.
AT = 23
SAMPLED: Mapping[str, Any] = {"temperature": 1, "top_p": 0.9, "seed": 7}


@dataclass(frozen=True)
class Proof:
    """One row."""

    what: str
    """First column of the document."""
    exactness: ExactnessClass
    fields: Mapping[str, Any] = field(default_factory=dict[str, Any])
    model: str = "exact"

    @property
    def choices(self) -> int:
        """Generations that the request makes."""
        return max(self.fields.get("n", 1), self.fields.get("best_of", 1))


PROOFS: tuple[Proof, ...] = (
    Proof("greedy (`temperature: 0`)", "exact"),
    Proof("`repetition_penalty`", "exact", {"repetition_penalty": 1.3}),
    Proof("`max_tokens`", "exact", {"max_tokens": AT + 1}),
    Proof("`min_tokens`", "exact", {"ignore_eos": False, "min_tokens": 40, "max_tokens": 48}),
    Proof("`stop_token_ids`", "exact", {"stop_token_ids": list(range(300, 428)), "min_tokens": 30}),
    Proof("`logprobs`", "exact", {"logprobs": 1}),
    Proof("`temperature`, `top_p`, `top_k`, `min_p`, `seed`", "continuation", SAMPLED),
    Proof("`presence_penalty`", "continuation", {"presence_penalty": 1.5}),
    Proof("`frequency_penalty`", "continuation", {"frequency_penalty": 1.5}),
    Proof("`n`", "continuation", {**SAMPLED, "n": 3}),
    Proof("`best_of`", "continuation", {**SAMPLED, "n": 1, "best_of": 2}),
    Proof("default numerics (8-bit KV cache, dynamic quantization)", "continuation", model="usual"),
    Proof("hybrid models (linear attention)", "continuation", model="hybrid"),
)

#: Rows with a test of their own, by that test's name.
ELSEWHERE: Mapping[str, tuple[ExactnessClass, str]] = {
    "`stop` strings across the seam": ("exact", "test_stop_string_across_the_seam"),
    "a character cut at the seam": ("exact", "test_character_cut_at_the_seam"),
    "a schema, pattern or grammar across the seam": (
        "exact",
        "test_answer_whose_worker_is_killed_is_valid",
    ),
    "an engine that takes no ids": (
        "replay only",
        "test_engine_without_resume_goes_on_only_from_the_start",
    ),
}
