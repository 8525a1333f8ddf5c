"""The entry point. Answers `--version` by itself and imports the rest only when it is needed."""

import errno
import os
import sys
from collections.abc import Callable, Sequence

from refloat import __version__
from refloat.cli.uncollected import uncollected


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; the exit code (see `exit_codes.py`)."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    return _heard(_say_version if given == ["--version"] else lambda: _run(given))


def _say_version() -> int:
    print(f"refloat {__version__}")
    return 0


def _run(given: list[str]) -> int:
    with uncollected():
        from refloat.cli.application import run

    return run(given)


def _heard(command: Callable[[], int]) -> int:
    """What a command printed goes out here, since at the interpreter's end it is too late to say what
    became of it. A reader that has left (`| head`) changes nothing of what was done."""
    code = 0
    try:
        code = command()
        if sys.stdout and not sys.stdout.closed:
            sys.stdout.flush()
    except BrokenPipeError:
        _drop(sys.stdout.fileno())
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        print(f"refloat: cannot write: {error.strerror}", file=sys.stderr)
        _drop(sys.stdout.fileno())
        return code or 1
    return code


def _drop(descriptor: int) -> None:
    """Whatever is left to be written goes nowhere."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, descriptor)
    os.close(nowhere)


if __name__ == "__main__":
    sys.exit(main())
