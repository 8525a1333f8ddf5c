"""What a model folder's files say about special tokens and templates. Files in, plain values out."""

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from refloat.prep.error import PrepError
from refloat.prep.table import TokenBytes

RtInfo = Callable[[str], str | None]

#: Names that templates expect; one that a model lacks is an empty text there.
SPECIAL_NAMES = ("bos_token", "eos_token", "unk_token", "pad_token")


class _AddedToken(msgspec.Struct):
    """A special token as some files spell it, with how it is matched (of no interest here)."""

    content: str


def read_json(folder: Path, name: str) -> dict[str, Any]:
    """A JSON object, empty if there is no such file. Raises `PrepError` if it is no JSON object."""
    try:
        data = (folder / name).read_bytes()
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise PrepError(f"{name} cannot be read: {error.strerror}") from error
    try:
        # Not msgspec's decoder: some models' files hold `Infinity`.
        return msgspec.convert(json.loads(data), dict[str, Any])
    except (ValueError, RecursionError) as error:
        raise PrepError(f"{name} is not a JSON object: {error}") from error


class ModelFacts:
    """The parts of a model folder that concern its tokens, read once."""

    def __init__(self, folder: Path, rt_info: RtInfo) -> None:
        """`rt_info` gives the notes in the tokenizer's graph. Raises `PrepError`."""
        self.folder = folder
        self.rt_info = rt_info
        self.tokenizer_config = read_json(folder, "tokenizer_config.json")
        self.generation_config = read_json(folder, "generation_config.json")
        self.config = read_json(folder, "config.json")

    def eos_ids(self, table: TokenBytes) -> tuple[int, ...]:
        """Every token that any of the files calls an end, in order of trust, without repetition."""
        found = [
            *_ids(self.generation_config.get("eos_token_id")),
            *_ids(self.config.get("eos_token_id")),
            *_ids(_text_config(self.config).get("eos_token_id")),
            *_ids(self.rt_info("eos_token_id")),
            *self._named(table, "eos_token"),
        ]
        return tuple(dict.fromkeys(token for token in found if 0 <= token < len(table.words)))

    def bos_id(self, table: TokenBytes) -> int | None:
        """The token a text begins with: the tokenizer's own word first, then the model's."""
        found = [
            *self._named(table, "bos_token"),
            *_ids(self.rt_info("bos_token_id")),
            *_ids(self.config.get("bos_token_id")),
            *_ids(self.generation_config.get("bos_token_id")),
        ]
        return next((token for token in found if 0 <= token < len(table.words)), None)

    def special_texts(self, table: TokenBytes) -> dict[str, str]:
        """Special tokens by the names that templates use. Null ones are empty."""
        texts: dict[str, str] = {}
        for name in SPECIAL_NAMES:
            if name in self.tokenizer_config:
                texts[name] = _token_text(self.tokenizer_config[name]) or ""
                continue
            ids = [i for i in _ids(self.rt_info(f"{name}_id")) if 0 <= i < len(table.words)]
            texts[name] = table.words[ids[0]].decode(errors="replace") if ids else ""
        return texts

    def _named(self, table: TokenBytes, key: str) -> list[int]:
        name = _token_text(self.tokenizer_config.get(key))
        token = table.id_of(name) if name else None
        return [] if token is None else [token]


def _text_config(config: Mapping[str, Any]) -> Mapping[str, Any]:
    try:
        return msgspec.convert(config.get("text_config"), dict[str, Any])
    except msgspec.ValidationError:
        return {}


def _ids(value: Any) -> list[int]:
    """Ids from a number, a list of numbers, or (in a graph's notes) either as text."""
    if isinstance(value, str):
        return [int(number) for number in re.findall(r"-?\d+", value)]
    try:
        return msgspec.convert(value if isinstance(value, list) else [value], list[int])
    except msgspec.ValidationError:
        return []


def _token_text(value: Any) -> str | None:
    """A token's text from tokenizer_config.json: a string, or an object with `content`."""
    try:
        token = msgspec.convert(value, str | _AddedToken)
    except msgspec.ValidationError:
        return None
    return token if isinstance(token, str) else token.content
