"""What is said where something cannot be made into a grammar."""

from collections.abc import Iterable


class GrammarError(ValueError):
    """A schema, pattern or grammar that is wrong, too large, or asks for what no grammar holds."""

    def __init__(self, message: str, path: Iterable[str | int] = ()) -> None:
        """`path`: keys from the caller's value down to the place in it."""
        super().__init__(message)
        self.message = message
        self.path = tuple(str(key) for key in path)

    def field(self, prefix: str) -> str:
        """The place with what comes before it: `prefix.properties.a.type`."""
        return ".".join((prefix, *self.path))
