"""The engine compiles our EBNF and holds its answers to it. In a child: a bad grammar can end it."""

import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from refloat.grammar.ebnf import from_ebnf
from refloat.grammar.errors import GrammarError
from refloat.grammar.grammar import Grammar
from refloat.grammar.json_schema import any_json, any_json_object, from_json_schema
from refloat.grammar.nodes import (
    EMPTY,
    Free,
    Literal,
    Node,
    Reference,
    all_but,
    char_class,
    chars,
    choice,
    repeat,
    sequence,
)
from refloat.grammar.pruning import pruned
from refloat.grammar.regex import from_regex
from refloat.grammar.residual import residual

MODEL = Path(__file__).parents[2] / "data" / "tiny-llm"

#: Reads lines of [grammar, tokens, seed], writes the text that the engine made of each.
CHILD = """
import json, os, sys
import openvino_genai as genai
scheduler = genai.SchedulerConfig()
scheduler.num_kv_blocks = 64
pipeline = genai.ContinuousBatchingPipeline(sys.argv[1], scheduler, "CPU")
tokenizer = pipeline.get_tokenizer()
prompt = tokenizer.encode("hi").input_ids
ends = {pipeline.get_config().eos_token_id, *pipeline.get_config().stop_token_ids}
for line in sys.stdin:
    grammar, tokens, seed = json.loads(line)
    config = genai.GenerationConfig()
    config.max_new_tokens = tokens
    config.do_sample = True
    config.rng_seed = seed
    config.structured_output_config = genai.StructuredOutputConfig(grammar=grammar)
    ids = list(pipeline.generate([prompt], [config])[0].m_generation_ids[0])
    ids = ids[:-1] if ids[-1] in ends else ids
    print(json.dumps(tokenizer.decode(ids, skip_special_tokens=False)), flush=True)
os._exit(0)
"""

GRAMMARS: dict[str, Grammar] = {
    "json": any_json(),
    "object": any_json_object(),
    "schema": from_json_schema(
        {
            "type": "object",
            "properties": {
                "a": {"type": "integer", "minimum": 3, "maximum": 120},
                "b": {"type": "array", "items": {"$ref": "#/$defs/x"}, "maxItems": 2},
                "c": {"enum": ["x", 1, None]},
                "d": {"type": "string", "format": "date-time"},
                "e": {"type": "string", "pattern": "^[^a]{1,8}é[\\]\\-^\\[]$"},
            },
            "required": ["a"],
            "additionalProperties": {"type": "number", "minimum": 0, "maximum": 2.25},
            "$defs": {
                "x": {"anyOf": [{"type": "string", "minLength": 2, "maxLength": 4000}, True]}
            },
        }
    ),
    # A class beyond ASCII behind something optional: written in place, it lets every token through.
    "wide": from_regex(r"(foo|b[a-z]{2,5}) ?[\x00-\x1f\u4e00-\u9fff😀-😂]{2}\\\"\n"),
    "left": from_ebnf('root ::= root "a" | "b"'),
    "empty": from_ebnf('root ::= ""'),
    "names": from_ebnf('root ::= Token "x" | a-b.c\nToken ::= "t"\na-b.c ::= [0-9]+'),
    # Seconds to minutes, written as it stands.
    "long": from_regex("(.{1,250}x){1,250}"),
    "many": from_regex("|".join(f"w{i}[a-z]{{1,50}}" for i in range(300))),
}


def _rest(grammar: Grammar, text: str) -> Grammar:
    rest = residual(grammar, text)
    assert rest is not None
    return rest


GRAMMARS["rest in a string"] = _rest(any_json(), '{"a": [1, "x')
_FREE = Grammar({"root": repeat(sequence(Free(("e", "th", '\\"\n', "｜<>")), Literal("e")), 2)})
GRAMMARS["free"] = _FREE
GRAMMARS["rest of free text"] = _rest(_FREE, "bread t")
GRAMMARS["rest of a count"] = _rest(from_regex("a{2,9}b"), "aaa")


def texts_of(
    grammars: dict[str, Grammar], *, seeds: int, tokens: int, timeout_s: int, first: int = 0
) -> list[Any]:
    """(name, text) of what the engine writes under each grammar, with seeds from the first on."""
    numbers = range(first, first + seeds)
    lines = [(n, g.to_ebnf(), tokens, seed) for n, g in grammars.items() for seed in numbers]
    done = subprocess.run(
        [sys.executable, "-c", CHILD, str(MODEL)],
        input="".join(json.dumps(line[1:]) + "\n" for line in lines),
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )
    texts = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(texts) == len(lines), (lines[len(texts)], done.stderr[-2000:])
    return [(line[0], text) for line, text in zip(lines, texts, strict=True)]


def broken(grammars: dict[str, Grammar], texts: list[Any]) -> list[Any]:
    """Those of the texts that no word of their grammar begins with."""
    found: list[Any] = []
    for name, text in texts:
        # A limit of tokens may cut the last character.
        if residual(grammars[name], text.rstrip("\ufffd")) is None:
            found.append((name, text, grammars[name].to_ebnf()[:600]))
    return found


@pytest.mark.engine
def test_engine_holds_to_our_grammars() -> None:
    texts = texts_of(GRAMMARS, seeds=2, tokens=16, timeout_s=50)
    assert broken(GRAMMARS, texts) == []


@pytest.mark.engine
def test_bytes_of_a_character_that_is_never_whole_do_not_end_the_guide() -> None:
    """This seed draws the first byte of a surrogate, behind which the engine let any token through."""
    grammars = {"object": GRAMMARS["object"]}
    texts = texts_of(grammars, first=58, seeds=1, tokens=40, timeout_s=50)
    assert broken(grammars, texts) == []


_TEXTS = ("a", "b", "ab", " ", "x", '"', "\\", "]", "-", "^", "é", "世界", "😀", "\n", "the", " b")
_CLASSES = (
    *(
        chars("abc"),
        char_class(((0x20, 0x7E),)),
        chars("]^-\\["),
        char_class(((0x1F600, 0x1F640),)),
    ),
    *(all_but(((0x22, 0x22), (0x5C, 0x5C), (0, 0x1F))), char_class(((0x4E00, 0x9FFF), (48, 57)))),
)


def random_node(chance: random.Random, depth: int) -> Node:
    """A node of any sort."""
    kind = chance.random()
    if depth <= 0 or kind < 0.3:
        return Literal(chance.choice(_TEXTS))
    if kind < 0.45:
        return chance.choice(_CLASSES)
    inner = [random_node(chance, depth - 1) for _ in range(chance.randint(2, 4))]
    if kind < 0.6:
        return sequence(*inner)
    if kind < 0.75:
        return choice(*inner, *([EMPTY] if chance.random() < 0.2 else []))
    if kind < 0.9:
        least = chance.choice((0, 0, 1, 2, 5, 70))
        return repeat(inner[0], least, chance.choice((None, least + 1, least + 7, least + 150)))
    return Reference(chance.choice(("root", "r", "s", "t")))


@pytest.mark.engine
@pytest.mark.soak
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seed", range(4))
def test_engine_holds_to_random_grammars(seed: int) -> None:
    chance = random.Random(seed)
    grammars: dict[str, Grammar] = {}
    while len(grammars) < 100:
        rules = {name: random_node(chance, 4) for name in ("root", "r", "s", "t")}
        try:
            grammars[f"random {len(grammars)}"] = Grammar(pruned(rules, "root"))
        except GrammarError:
            continue
    texts = texts_of(grammars, seeds=3, tokens=25, timeout_s=1500)
    assert broken(grammars, texts) == []
