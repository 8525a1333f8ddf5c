"""What jobs need of a tokenizer, apart from implementations whose libraries take long to import."""

from typing import Protocol


class Tokenizer(Protocol):
    """One text to ids."""

    def encode(self, text: str, *, add_special_tokens: bool) -> list[int]:
        """All ids of a text, with the tokens the model wants around it or without."""
        ...
