"""The fields that chat and text completions have in common, and their checks."""

from typing import Any

import msgspec

from refloat.api.errors import invalid
from refloat.api.schema.checks import (
    SHARED_RANGES,
    check_labels,
    check_metadata,
    check_ranges,
)
from refloat.api.schema.unsupported import check_supported, check_top_level

#: What may become of a generation whose client leaves.
LEAVINGS = ("cancel", "finish")
#: When a stream tells of text that has to have a form.
GUIDED_STREAMS = ("live", "hold")


class StreamOptions(msgspec.Struct):
    """What a stream should tell beside the text."""

    include_usage: bool | None = None
    include_obfuscation: bool | None = None


class Wishes(msgspec.Struct, kw_only=True):
    """What is asked of an answer beside its content, in every dialect."""

    stream: bool | None = None
    request_timeout_s: float | None = None
    on_disconnect: str | None = None
    guided_stream: str | None = None


class GenerationBody(Wishes, kw_only=True):
    """Null is as good as absent for every optional field; unknown fields are ignored."""

    model: str
    stream_options: StreamOptions | None = None
    max_tokens: int | None = None
    min_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    n: int | None = None
    seed: int | None = None
    stop: str | list[str] | None = None
    include_stop_str_in_output: bool | None = None
    stop_token_ids: list[int] | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    repetition_penalty: float | None = None
    ignore_eos: bool | None = None
    user: str | None = None
    metadata: dict[str, str] | None = None
    logit_bias: Any = None
    guided_json: Any = None
    guided_regex: str | None = None
    guided_choice: list[str] | None = None
    guided_grammar: str | None = None
    structured_outputs: Any = None


def check_shared(route: str, body: GenerationBody) -> None:
    """Everything about the shared fields but their use. Raises `ProblemError`."""
    check_model(body.model)
    check_ranges(body, SHARED_RANGES)
    check_wishes(body)
    check_labels(body, ("user",))
    check_metadata(body.metadata)
    if body.stream_options is not None:
        if not body.stream:
            raise invalid("stream_options is only allowed with stream: true.", "stream_options")
        field = "stream_options.include_obfuscation"
        check_supported(route, field, body.stream_options.include_obfuscation)
    check_top_level(route, body)


def check_wishes(body: Wishes) -> None:
    """The wish of what is to become of the answer. Raises `ProblemError`."""
    if body.on_disconnect not in (None, *LEAVINGS):
        message = f"on_disconnect has to be one of {', '.join(LEAVINGS)}."
        raise invalid(message, "on_disconnect")
    if body.guided_stream not in (None, *GUIDED_STREAMS):
        message = f"guided_stream has to be one of {', '.join(GUIDED_STREAMS)}."
        raise invalid(message, "guided_stream")


def check_model(model: str) -> None:
    """A model has a name. Raises `ProblemError`."""
    if not model:
        raise invalid("model must not be empty; GET /v1/models lists what is served.", "model")


def include_usage(body: GenerationBody) -> bool:
    """Whether a stream was asked to end with its usage."""
    return body.stream_options is not None and bool(body.stream_options.include_usage)
