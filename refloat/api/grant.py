"""What a caller may do, as far as that depends on its key."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Grant:
    """The rights of one key; as it is, those of a key without any of its own."""

    priority: int = 0
    """Of its requests; the higher goes first."""
    finish_orphans: int | None = None
    """Answers that may go on without their client; `None`: as the server says for everybody."""
    max_requests: int | None = None
    """Under way at a time; `None`: no limit of its own."""
    is_admin: bool = True
    """Opens the operator's routes."""


PLAIN = Grant()
