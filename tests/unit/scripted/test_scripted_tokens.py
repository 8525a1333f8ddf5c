"""The scripted tokenizer, and answers as a function of script, prompt and position."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refloat.scripted.script import HELLO, Rule, Script
from refloat.scripted.tokens import ScriptedTokenizer, last_message, reply_to

BUILT_IN = ScriptedTokenizer(Script())
CHAT = "<|im_start|>user\n{}<|im_end|>\n<|im_start|>assistant\n"


@given(st.text())
def test_encode_and_decode_give_the_text_back(text: str) -> None:
    ids = BUILT_IN.encode(text)
    assert BUILT_IN.decode(ids) == text
    assert all(0 <= token < BUILT_IN.vocab_size for token in ids)


def test_control_marks_are_single_special_tokens() -> None:
    ids = BUILT_IN.encode("a<|im_end|>b")
    assert len(ids) == 3
    assert ids[1] in BUILT_IN.special_ids
    assert ids[1] == BUILT_IN.eos_ids[0]


def test_lone_surrogate_is_encoded_all_the_same() -> None:
    assert BUILT_IN.decode(BUILT_IN.encode("a\ud800b")) == "a?b"


@pytest.mark.parametrize("token", [-1, BUILT_IN.vocab_size])
def test_token_beyond_the_vocabulary_is_an_error(token: int) -> None:
    with pytest.raises(IndexError):
        BUILT_IN.token_bytes(token)


def test_two_tokenizers_of_one_script_are_equal() -> None:
    rules = [Rule("x", text="Some text, cut"), Rule("y", texts=("é🙂é", "zz"), chunk=1)]
    first, second = (ScriptedTokenizer(Script(rules)) for _ in range(2))
    assert [first.token_bytes(n) for n in range(first.vocab_size)] == [
        second.token_bytes(n) for n in range(second.vocab_size)
    ]


@pytest.mark.parametrize(
    ("prompt", "message"),
    [
        (CHAT.format("one"), "one"),
        ("<|im_start|>user\none<|im_end|>\n" + CHAT.format("two"), "two"),
        ("<|im_start|>user\none<|im_end|>\n<|im_start|>tool\nt<|im_end|>\n", "t"),
        ("<|im_start|>user\none<|im_end|>\n<|im_start|>assistant\nsaid<|im_end|>\n", "one"),
        ("<|im_start|>system\nonly<|im_end|>\n", "<|im_start|>system\nonly<|im_end|>\n"),
        ("raw text", "raw text"),
        (CHAT.format("two\nlines"), "two\nlines"),
    ],
)
def test_last_message_is_the_last_user_or_tool_turn(prompt: str, message: str) -> None:
    assert last_message(prompt) == message


def said(prompt: str, *, tokenizer: ScriptedTokenizer = BUILT_IN, seed: int | None = None) -> str:
    reply = reply_to(tokenizer, tokenizer.encode(prompt), [], seed=seed)
    return tokenizer.decode(reply.cycle)


def test_reply_of_a_chat_ends_with_eos() -> None:
    assert said(CHAT.format("Hi")) == HELLO + "<|im_end|>"


@given(st.text(alphabet=st.characters(exclude_categories=("Cs",))).filter(lambda t: "<|" not in t))
def test_reply_repeats_any_text(text: str) -> None:
    assert said(CHAT.format("Repeat: " + text)) == text + "<|im_end|>"


def test_reply_of_an_unknown_text_has_tokens_that_end_inside_characters() -> None:
    reply = reply_to(BUILT_IN, BUILT_IN.encode("Repeat: 🙂"), [], seed=None)
    assert [BUILT_IN.token_bytes(token) for token in reply.cycle[:4]] == [
        b"\xf0", b"\x9f", b"\x99", b"\x82",
    ]  # fmt: skip


def test_reply_without_an_end_goes_on_for_ever() -> None:
    tokenizer = ScriptedTokenizer(Script([Rule("x", text="abcdef", finish="length")]))
    reply = reply_to(tokenizer, tokenizer.encode("x"), [], seed=None)
    text = b"".join(tokenizer.token_bytes(reply.token_at(n)) for n in range(6))
    assert text == b"abcdef" * 3
    assert not set(reply.cycle) & set(tokenizer.eos_ids)


def test_reply_to_a_seed_is_one_of_the_texts_and_greedy_the_first() -> None:
    tokenizer = ScriptedTokenizer(Script([Rule("x", texts=("a", "b", "c"))]))
    answers = {said("x", tokenizer=tokenizer, seed=seed) for seed in range(6)}
    assert answers == {"a<|im_end|>", "b<|im_end|>", "c<|im_end|>"}
    assert said("x", tokenizer=tokenizer) == "a<|im_end|>"
    assert said("x", tokenizer=tokenizer, seed=7) == said("x", tokenizer=tokenizer, seed=7)


def test_reply_goes_on_with_the_text_that_was_begun() -> None:
    tokenizer = ScriptedTokenizer(Script([Rule("x", texts=("abc", "abd"), chunk=1)]))
    prompt = tokenizer.encode("x")
    begun = tokenizer.encode("abd")
    for seed in (None, 0, 1):
        reply = reply_to(tokenizer, prompt, begun, seed=seed)
        assert reply.cycle[:3] == tuple(begun)
