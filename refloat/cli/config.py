"""`refloat config`: the settings in force, and whether a file can be used."""

from pathlib import Path

from refloat.cli.exit_codes import ExitCode
from refloat.cli.serve import fail, load_checked
from refloat.config.check import check
from refloat.config.error import ConfigError
from refloat.config.load import load
from refloat.config.show import show


def show_config(file: Path | None) -> int:
    """Print every setting with its origin; what does not fit follows on stderr."""
    try:
        loaded = load(file=file)
    except ConfigError as error:
        return fail(ExitCode.USAGE, error.problems)
    print(show(loaded))
    findings = check(loaded.config)
    return fail(ExitCode.USAGE, findings.errors) if findings.errors else ExitCode.OK


def check_config(file: Path) -> int:
    """Say whether a file can be used, with this environment."""
    try:
        loaded = load_checked(file, {})
    except ConfigError as error:
        return fail(ExitCode.USAGE, error.problems)
    count = len(loaded.config.models)
    print(f"{file}: ok, {count} model{'' if count == 1 else 's'}")
    return ExitCode.OK
