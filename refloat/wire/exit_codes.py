"""Exit codes of the children, a closed list: an unknown one is evidence of something else dying."""

from enum import IntEnum


class ChildExit(IntEnum):
    """Why a child of ours left by itself."""

    ASKED = 0
    """The gateway closed the link or said `Shutdown`."""
    INTERNAL = 70
    """An exception nobody expected; its text is on stderr."""
    LOAD_FAILED = 71
    """Said so in a message first."""
    PROTOCOL = 72
    """The gateway sent what is not legal here."""
    ORPHANED = 73
    """The gateway was gone before the child had started."""
