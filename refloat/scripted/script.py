"""What the scripted model says: rules read from YAML, and the built-in answers behind them.

No token ids here (see `tokens.py`) and no time: a script maps a message to texts and nothing else.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import msgspec

Chunk = Annotated[int, msgspec.Meta(ge=0)] | Literal["bytes"]

#: Numbers that `Count from A to B` may name; more would be a script nobody can wait for.
MAX_COUNT = 1_000_000


class ScriptError(ValueError):
    """A script that cannot be used; the message names the rule and the field."""


class Rule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One entry of a script's YAML list."""

    match: str
    """Regular expression, searched for in the last user or tool message."""
    text: str | None = None
    """What is said."""
    texts: tuple[str, ...] = ()
    """In place of `text`: one is chosen by the request's seed; greedy requests get the first."""
    chunk: Chunk = 3
    """Characters in a token; 0: the whole text is one token; `bytes`: one byte in each."""
    finish: Literal["stop", "length"] = "stop"
    """`length`: never ends by itself, the text is said again and again."""

    @property
    def choices(self) -> tuple[str, ...]:
        """The texts this rule may answer."""
        return (self.text,) if self.text is not None else self.texts


class Answer(NamedTuple):
    """What the model says to one message."""

    choices: tuple[str, ...]
    chunk: int | Literal["bytes"]
    finish: Literal["stop", "length"]


HELLO = "Hello! How can I help you today?"
FALLBACK = (
    "I am a scripted model. I can repeat a text, count from one number to another, and say hello."
)

_REPEAT = re.compile(r"Repeat:\s?(.*)", re.DOTALL)
_COUNT = re.compile(r"Count from (\d{1,9}) to (\d{1,9})")
_HI = re.compile(r"\s*(hi|hello)\b", re.IGNORECASE)
_COIN = re.compile(r"Flip a coin")


def _count(match: re.Match[str]) -> tuple[str, ...]:
    first, last = int(match[1]), int(match[2])
    last = min(last, first + MAX_COUNT - 1)
    return (" ".join(str(number) for number in range(first, last + 1)),)


_BUILT_IN: Sequence[tuple[re.Pattern[str], Callable[[re.Match[str]], tuple[str, ...]]]] = (
    (_REPEAT, lambda match: (match[1],)),
    (_COUNT, _count),
    (_COIN, lambda _: ("heads", "tails")),
    (_HI, lambda _: (HELLO,)),
)


class Script:
    """Rules in order, then the built-in answers, so that every message has one."""

    def __init__(self, rules: Sequence[Rule] = ()) -> None:
        self.rules = tuple(rules)
        self._patterns = [_compiled(index, rule) for index, rule in enumerate(self.rules)]

    def answer(self, message: str) -> Answer:
        """The first matching rule's answer. Built-in answers come three characters to a token."""
        for pattern, rule in zip(self._patterns, self.rules, strict=True):
            if pattern.search(message):
                return Answer(rule.choices, rule.chunk, rule.finish)
        for pattern, choices in _BUILT_IN:
            if match := pattern.match(message):
                return Answer(choices(match), 3, "stop")
        return Answer((FALLBACK,), 3, "stop")

    def fixed_answers(self) -> list[Answer]:
        """Every answer known beforehand, in order: the tokenizer makes its pieces from them."""
        answers = [Answer(rule.choices, rule.chunk, rule.finish) for rule in self.rules]
        answers.append(Answer(("heads", "tails", HELLO, FALLBACK), 3, "stop"))
        return answers


def pieces(text: str, chunk: int | Literal["bytes"]) -> list[bytes]:
    """A text cut into what one token each carries."""
    if chunk == "bytes":
        return [bytes([byte]) for byte in text.encode()]
    if chunk == 0:
        return [text.encode()] if text else []
    return [text[start : start + chunk].encode() for start in range(0, len(text), chunk)]


def script_of(options: Mapping[str, Any]) -> Script:
    """The script that a scripted model's options name: the file `script`, or `rules` given in place.

    Every program that needs the script gets it from here: their tokens have to be the same. Raises
    `ScriptError`.
    """
    path, rules = options.get("script"), options.get("rules")
    if rules is None:
        return load_script(path)
    if path:
        raise ScriptError("script: a file and `rules` exclude each other")
    return Script(parse_rules(rules))


def load_script(path: str | Path | None) -> Script:
    """Read a script; `None` or an empty path is the built-in one. Raises `ScriptError`."""
    if not path:
        return Script()
    import yaml  # a tenth of a second that few processes need

    try:
        document: Any = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ScriptError(f"script {path}: {error}") from error
    return Script(parse_rules(document))


def parse_rules(document: object) -> list[Rule]:
    """Rules from decoded YAML: a list, or a mapping with the one key `rules`."""
    if isinstance(document, dict) and set(document) == {"rules"}:  # pyright: ignore[reportUnknownArgumentType]
        document = document["rules"]  # pyright: ignore[reportUnknownVariableType]
    if document is None:
        return []
    if not isinstance(document, list):
        raise ScriptError("script: a list of rules is expected")
    rules: list[Rule] = []
    for index, entry in enumerate(document):  # pyright: ignore[reportUnknownArgumentType,reportUnknownVariableType]
        try:
            rule = msgspec.convert(entry, Rule)
        except msgspec.ValidationError as error:
            raise ScriptError(f"script rule {index}: {error}") from error
        if (rule.text is None) == (not rule.texts):
            raise ScriptError(f"script rule {index}: exactly one of `text` and `texts` is needed")
        rules.append(rule)
    return rules


def _compiled(index: int, rule: Rule) -> re.Pattern[str]:
    try:
        return re.compile(rule.match)
    except re.error as error:
        raise ScriptError(f"script rule {index}: `match` is no regular expression: {error}") from (
            error
        )
