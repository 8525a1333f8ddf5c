"""The entry point. Answers `--version` by itself and imports the rest only when it is needed."""

import sys
from collections.abc import Sequence

from refloat import __version__


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; the exit code (see `exit_codes.py`)."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    if given == ["--version"]:
        print(f"refloat {__version__}")
        return 0
    from refloat.cli.application import run

    return run(given)


if __name__ == "__main__":
    sys.exit(main())
