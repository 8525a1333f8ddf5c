"""Regular expressions as grammars, against Python's own `re` on every short text."""

import itertools
import re

import pytest

from refloat.grammar.errors import GrammarError
from refloat.grammar.regex import from_regex
from refloat.grammar.residual import matches

_TEXTS = ["".join(t) for n in range(5) for t in itertools.product("ab1-", repeat=n)]


@pytest.mark.parametrize(
    "pattern",
    [
        "a|b",
        "",
        "(?:a|b)*1",
        "a{2}b?",
        "a{1,}|b{0,2}1",
        "[^a-b]+",
        "[a\\-1]{2,3}",
        "^(?P<x>a+?)(?<y>-)$",
        "^a|b$",
        "\\w+-\\d*",
        "[\\d-]\\D",
        "a(b(1|)|)*",
        ".[^\\W\\d].",
        "(a*)*b",
        "\\x61\\u0062",
    ],
)
def test_pattern_matches_what_python_matches(pattern: str) -> None:
    grammar = from_regex(pattern)
    own = re.compile(pattern.replace("(?<y>", "(?P<y>"), re.ASCII)
    for text in _TEXTS:
        assert matches(grammar, text) == (own.fullmatch(text) is not None), text


@pytest.mark.parametrize(
    ("pattern", "right", "wrong"),
    [
        ("[^x]", "é", "x"),
        (".", "😀", "\n"),
        ("\\s", "\t", "a"),
        ("\\u{1F600}+", "😀😀", "😁"),
        ("[\\n\\]^]+", "\n]^", "n"),
        ("a{x}", "a{x}", "ax"),
        ("\\$\\.", "$.", "$x"),
    ],
)
def test_pattern_beyond_the_alphabet(pattern: str, right: str, wrong: str) -> None:
    grammar = from_regex(pattern)
    assert matches(grammar, right)
    assert not matches(grammar, wrong)


@pytest.mark.parametrize(
    "pattern",
    [
        *("(?=a)b", "(?!a)b", "(?<=a)b", "(?i)a", "(a)\\1", "\\bword", "a++", "a$b", "x(^a)"),
        *("(", ")", "[a", "*a", "a{3,1}", "[z-a]", "\\p{L}", "\\", "[^\\s\\S]", "^*"),
        *("(" * 60 + ")" * 60, "a" * 9000, "(" * 20_000),
    ],
    ids=lambda pattern: pattern[:20],
)
def test_pattern_that_is_wrong_or_unsupported_is_refused(pattern: str) -> None:
    with pytest.raises(GrammarError):
        from_regex(pattern)
