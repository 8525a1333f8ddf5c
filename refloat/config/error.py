"""What a configuration that cannot be used is reported as."""

from collections.abc import Sequence


class ConfigError(Exception):
    """The configuration is wrong. Each problem is a sentence naming the setting and its source."""

    def __init__(self, problems: Sequence[str] | str) -> None:
        self.problems = (problems,) if isinstance(problems, str) else tuple(problems)
        super().__init__("; ".join(self.problems))
