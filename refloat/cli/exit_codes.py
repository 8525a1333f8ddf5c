"""Exit codes of the command line, a closed list: supervisors and scripts decide by them."""

from enum import IntEnum


class ExitCode(IntEnum):
    """Why the process ended."""

    OK = 0
    INTERNAL = 1
    """Something nobody expected; the traceback is on stderr."""
    USAGE = 2
    """An option, the environment or the configuration file is wrong."""
    NO_MODEL = 3
    """No model could be had or loaded; each reason is on stderr. A missing path counts here too."""
    CANNOT_BIND = 4
    """The address is in use, or is none of this machine's."""
    NOT_READY = 5
    """`refloat status`: the server runs, but would not serve every request."""
    UNREACHABLE = 6
    """`refloat status`: nothing answers there."""
    NOT_HELD = 7
    """`refloat drill`, `refloat soak`: a promise was not kept; what and where is in the report."""
    INTERRUPTED = 130
    """Ctrl-C before the server stood; afterwards it drains and ends with 0."""
