"""Which route tells its errors in which shape, also where no handler was reached."""

from refloat.api.errors import ErrorShape, anthropic_error_body, openai_error_body

_ANTHROPIC_PATHS = ("/v1/messages", "/v3/messages")


def speaks_anthropic(path: str) -> bool:
    """Whether whoever calls this path is a client of Anthropic's API."""
    return any(path == own or path.startswith(f"{own}/") for own in _ANTHROPIC_PATHS)


def error_shape_of(path: str) -> ErrorShape:
    """The shape that callers of this path expect."""
    return anthropic_error_body if speaks_anthropic(path) else openai_error_body
