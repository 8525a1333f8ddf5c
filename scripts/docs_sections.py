"""The parts of the documents that are lists in the code: made from the code, written between marks.

    <!-- generated: NAME -->
    ...
    <!-- end -->

`scripts/docs` rewrites them; `tests/house/test_docs.py` fails when they differ from the code.
"""

import re
import sys
from collections.abc import Callable
from pathlib import Path

import docs_api
import docs_lifecycle
import docs_operations

ROOT = Path(__file__).resolve().parents[1]
DOCUMENTS = ("docs/API.md", "docs/lifecycle.md", "docs/OPERATIONS.md")
SECTIONS: dict[str, Callable[[], str]] = {
    **docs_api.SECTIONS,
    **docs_lifecycle.SECTIONS,
    **docs_operations.SECTIONS,
}

SECTION = re.compile(
    r"(?P<head><!-- generated: (?P<name>[\w-]+) -->\n)(?P<body>.*?)(?P<tail><!-- end -->)",
    re.DOTALL,
)


def refreshed(text: str) -> str:
    """A document with its generated parts as the code has them. Raises `KeyError` for a name that
    nothing generates."""

    def fill(match: re.Match[str]) -> str:
        return match["head"] + SECTIONS[match["name"]]() + match["tail"]

    return SECTION.sub(fill, text)


def main() -> int:
    """Rewrite, or with `--check` only compare; 1 if something differed then."""
    stale = [p for p in DOCUMENTS if refreshed((ROOT / p).read_text()) != (ROOT / p).read_text()]
    for name in stale:
        path = ROOT / name
        if "--check" not in sys.argv[1:]:
            path.write_text(refreshed(path.read_text()))
        print(f"{name}: {'differs' if '--check' in sys.argv[1:] else 'rewritten'}")  # noqa: T201
    return int(bool(stale) and "--check" in sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
