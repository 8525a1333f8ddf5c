"""`refloat models`: fetch, list and remove what is in the cache."""

import sys

from refloat.cli.exit_codes import ExitCode
from refloat.cli.progress import open_progress, say_on_stderr
from refloat.cli.serve import fail
from refloat.config.home import models_dir
from refloat.config.load import locate_here
from refloat.config.names import model_name
from refloat.config.schema import ModelConfig
from refloat.models.error import ModelError
from refloat.models.progress import Progress
from refloat.models.resolve import obtain
from refloat.models.store import Entry, Store


def pull(model: str) -> int:
    """Fetch and convert; prints the folder."""
    config = ModelConfig(locate_here(model))
    try:
        with open_progress() as progress:
            resolved = obtain(config, progress.sink(model_name(config)))
    except ModelError as error:
        return fail(ExitCode.NO_MODEL, [error.reason])
    print(resolved.path if resolved.path is not None else f"{model} needs no files")
    return ExitCode.OK


def list_models() -> int:
    """One line for each entry; a table on a terminal."""
    entries = Store(models_dir()).entries()
    if sys.stdout.isatty():
        _print_table(entries)
    else:
        for entry in entries:
            print("\t".join(_row(entry)))
    return ExitCode.OK


def remove(name: str, *, force: bool) -> int:
    """Remove by source or folder name; prints what went."""

    def say(progress: Progress) -> None:
        say_on_stderr(f"{name}: {progress.message}")

    try:
        removed = Store(models_dir()).remove(name, say, force=force)
    except ModelError as error:
        return fail(ExitCode.INTERNAL, [error.reason])
    if not removed:
        return fail(ExitCode.NO_MODEL, [f"{name} is not in the cache; see `refloat models list`"])
    for entry in removed:
        print(f"removed {entry.path.name}")
    return ExitCode.OK


def _row(entry: Entry) -> tuple[str, ...]:
    state = "current" if entry.is_current else "outdated"
    size = f"{entry.size_bytes / 1e6:.0f} MB"
    return (entry.record.source, size, state, entry.record.created[:10], str(entry.path))


def _print_table(entries: list[Entry]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table("Source", "Size", "State", "Since", "Folder")
    for entry in entries:
        table.add_row(*_row(entry))
    Console().print(table if entries else "The cache is empty.")
