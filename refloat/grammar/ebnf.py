"""A caller's own grammar in EBNF (GBNF as llama.cpp and xgrammar write it), read into ours."""

import re
from typing import NamedTuple

from refloat.grammar.char_escapes import ClassReader, escaped_char
from refloat.grammar.ebnf_text import FREE_TEXT
from refloat.grammar.errors import GrammarError
from refloat.grammar.free_text import reading_of
from refloat.grammar.grammar import ROOT, Grammar
from refloat.grammar.nodes import (
    EMPTY,
    Free,
    Literal,
    Node,
    Reference,
    all_but,
    choice,
    repeat,
    sequence,
)
from refloat.grammar.pruning import pruned, references

_MOST_CHARS = 262_144
_MOST_DEPTH = 100
_BLANK = re.compile(r"(?:[ \t\r\n]|#[^\r\n]*)*")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
_SIGN = re.compile(r"::=|[()|*+?.]")
_COUNTS = re.compile(r"\{\s*(\d{1,6})\s*(?:(,)\s*(\d{0,6}))?\s*\}")
_FREE = FREE_TEXT.partition("{")[0]
_SIMPLE = {"*": (0, None), "+": (1, None), "?": (0, 1)}


class _Token(NamedTuple):
    kind: str
    """A sign itself, or `name`, `node`, `counts`, `end`."""
    at: int
    name: str = ""
    node: Node = EMPTY
    counts: tuple[int, int | None] = (1, 1)


def from_ebnf(text: str) -> Grammar:
    """Raises `GrammarError` with the line of what is wrong. The first rule is the one named `root`."""
    if len(text) > _MOST_CHARS:
        raise GrammarError(f"a grammar of more than {_MOST_CHARS} characters")
    rules = _Parser(text).rules()
    if ROOT not in rules:
        raise GrammarError("there is no rule root")
    for name, node in rules.items():
        for used in references(node):
            if used not in rules:
                raise GrammarError(f"there is no rule {used}, which {name} mentions")
    return Grammar(pruned(rules, ROOT))


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = self._tokenized()
        self._at = 0
        self._depth = 0

    def rules(self) -> dict[str, Node]:
        rules: dict[str, Node] = {}
        while self._kind() != "end":
            name = self._tokens[self._at].name
            if self._kind() != "name" or self._kind(1) != "::=":
                raise self._error("a name and ::= are expected")
            if name in rules:
                raise self._error(f"a second rule {name}")
            self._at += 2
            rules[name] = self._choices()
        return rules

    def _kind(self, ahead: int = 0) -> str:
        at = self._at + ahead
        return self._tokens[at].kind if at < len(self._tokens) else "end"

    def _choices(self) -> Node:
        options = [self._items()]
        while self._kind() == "|":
            self._at += 1
            options.append(self._items())
        return choice(*options)

    def _items(self) -> Node:
        items: list[Node] = []
        while self._kind() in ("(", "node", "name") and self._kind(1) != "::=":
            items.append(self._item())
        return sequence(*items)

    def _item(self) -> Node:
        token = self._tokens[self._at]
        self._at += 1
        if token.kind == "name":
            node: Node = Reference(token.name)
        elif token.kind == "node":
            node = token.node
        else:
            node = self._group()
        while self._kind() == "counts":
            node = repeat(node, *self._tokens[self._at].counts)
            self._at += 1
        return node

    def _group(self) -> Node:
        self._depth += 1
        if self._depth > _MOST_DEPTH:
            raise self._error(f"nested more than {_MOST_DEPTH} deep")
        node = self._choices()
        if self._kind() != ")":
            raise self._error("a ( without its )")
        self._at += 1
        self._depth -= 1
        return node

    def _tokenized(self) -> list[_Token]:
        tokens: list[_Token] = []
        text, at = self._text, 0
        while True:
            blank = _BLANK.match(text, at)
            at = blank.end() if blank is not None else at
            if at == len(text):
                return [*tokens, _Token("end", at)]
            read = self._free_text if text.startswith(_FREE, at) else self._token
            token, at = read(at)
            tokens.append(token)

    def _token(self, at: int) -> tuple[_Token, int]:
        text = self._text
        try:
            if text[at] == '"':
                node, end = self._literal(at + 1)
                return _Token("node", at, node=node), end
            if text[at] == "[":
                node, end = ClassReader(text, at + 1).read()
                return _Token("node", at, node=node), end
        except GrammarError as error:
            raise self._error(error.message, at) from None
        if (found := _NAME.match(text, at)) is not None:
            return _Token("name", at, name=found[0]), found.end()
        if (found := _COUNTS.match(text, at)) is not None:
            least = int(found[1])
            most = None if found[2] and not found[3] else int(found[3] or found[1])
            if most is not None and most < least:
                raise self._error("counts in the wrong order", at)
            return _Token("counts", at, counts=(least, most)), found.end()
        if (found := _SIGN.match(text, at)) is None or text.startswith("(=", at):
            raise self._error("this is not supported", at)
        if found[0] in _SIMPLE:
            return _Token("counts", at, counts=_SIMPLE[found[0]]), at + 1
        if found[0] == ".":
            return _Token("node", at, node=all_but(((0x0A, 0x0A),))), at + 1
        return _Token(found[0], at), found.end()

    def _free_text(self, at: int) -> tuple[_Token, int]:
        tags: list[str] = []
        end = at + len(_FREE)
        while self._text.startswith('"', end):
            tag, end = self._literal(end + 1)
            tags.append(tag.text if isinstance(tag, Literal) else "")
            end += 2 if self._text.startswith(", ", end) else 0
        if not tags or not self._text.startswith("))", end):
            raise self._error("this is not supported", at)
        node = Free(tuple(tags))
        try:
            reading_of(node)
        except GrammarError as error:
            raise self._error(error.message, at) from None
        return _Token("node", at, node=node), end + 2

    def _literal(self, at: int) -> tuple[Node, int]:
        text, out = self._text, list[str]()
        while at < len(text) and text[at] not in '"\n':
            if text[at] == "\\":
                char, at = escaped_char(text, at + 1)
            else:
                char, at = text[at], at + 1
            out.append(char)
        if not text.startswith('"', at):
            raise GrammarError("a literal without its closing quote")
        return Literal("".join(out)) if out else EMPTY, at + 1

    def _error(self, message: str, at: int | None = None) -> GrammarError:
        at = self._tokens[self._at].at if at is None else at
        return GrammarError(f"{message}, in line {self._text.count(chr(10), 0, at) + 1}")
