"""Jobs of prep on the scripted tokenizer: each gets one answer, whatever it asks."""

import pytest

from refloat.prep.jobs import JobRunner
from refloat.prep.opening import open_model
from refloat.prep.table import TokenBytes
from refloat.wire.messages import PROTOCOL_VERSION, pack_ids, unpack_ids
from refloat.wire.prep_messages import (
    Detokenize,
    PrepConfigure,
    PrepReady,
    PrepRefused,
    Render,
    Text,
    Tokenize,
    Tokens,
)
from refloat.wire.problem import ProblemKind

MESSAGES = [{"role": "user", "content": "Hi"}]


def opened(chat_template_file: str | None = None) -> tuple[JobRunner, PrepReady]:
    configure = PrepConfigure(
        PROTOCOL_VERSION, "", "scripted", chat_template_file=chat_template_file
    )
    return open_model(configure)


class BrokenTokenizer:
    """Fails as the native tokenizer may."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def encode(self, text: str, *, add_special_tokens: bool) -> list[int]:
        raise self._error


def test_jobs_render_gives_the_ids_of_the_rendered_chat() -> None:
    runner, ready = opened()
    answer = runner.answer(Render(7, MESSAGES))
    assert isinstance(answer, Tokens)
    assert answer.job == 7
    [ids] = map(unpack_ids, answer.ids)
    text = runner.answer(Detokenize(8, pack_ids(ids), skip_special_tokens=False))
    assert text == Text(8, "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n")
    assert ready.chat_template == "scripted"
    assert ready.chat_unavailable is None


def test_jobs_tokenize_gives_ids_for_each_text() -> None:
    runner, ready = opened()
    answer = runner.answer(Tokenize(1, ["ab", "", "é"]))
    assert answer == Tokens(1, (pack_ids([97, 98]), b"", pack_ids([0xC3, 0xA9])))
    assert ready.vocab_size == len(unpack_ids(ready.table.lengths))


def test_jobs_ids_of_too_long_a_text_are_counted_only() -> None:
    runner, _ = opened()
    assert runner.answer(Tokenize(1, ["ab", "abc"], most=2)) == Tokens(1, (), too_many=3)
    answer = runner.answer(Tokenize(1, ["ab", "abc"], most=3))
    assert answer == Tokens(1, (pack_ids([97, 98]), pack_ids([97, 98, 99])))
    rendered = runner.answer(Render(2, MESSAGES, most=5))
    assert isinstance(rendered, Tokens)
    assert (rendered.ids, rendered.too_many) == ((), 21)


def test_jobs_detokenize_shows_broken_bytes_as_replacements() -> None:
    runner, _ = opened()
    assert runner.answer(Detokenize(1, pack_ids([0xC3, 0x28, 10**6]))) == Text(1, "\ufffd(")


def test_jobs_packed_ids_of_a_broken_length_are_refused() -> None:
    runner, _ = opened()
    answer = runner.answer(Detokenize(1, b"abc"))
    assert isinstance(answer, PrepRefused)


def test_jobs_without_a_template_refuse_chats_only(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    path = tmp_path_factory.mktemp("template") / "broken.jinja"
    path.write_text("ok\n{% for %}", encoding="utf-8")
    runner, ready = opened(str(path))
    assert ready.chat_template is None
    assert ready.chat_unavailable is not None
    assert "broken.jinja" in ready.chat_unavailable
    assert "line 2" in ready.chat_unavailable
    answer = runner.answer(Render(1, MESSAGES))
    assert isinstance(answer, PrepRefused)
    assert answer.problem.kind is ProblemKind.CHAT_TEMPLATE_UNAVAILABLE
    assert isinstance(runner.answer(Tokenize(2, ["a"])), Tokens)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (RuntimeError("Check 'x' failed at /build/src"), ProblemKind.INTERNAL_ERROR),
        (MemoryError(), ProblemKind.INSUFFICIENT_MEMORY),
    ],
)
def test_jobs_failing_inside_are_refused_without_prompts_or_paths(
    error: Exception, kind: ProblemKind, capfd: pytest.CaptureFixture[str]
) -> None:
    table = TokenBytes([], frozenset())
    runner = JobRunner(BrokenTokenizer(error), table, None, None)
    answer = runner.answer(Tokenize(3, ["a secret prompt"]))
    assert isinstance(answer, PrepRefused)
    assert answer.problem.kind is kind
    assert "/build" not in answer.problem.message
    logged = capfd.readouterr().err
    assert "secret" not in logged
    assert ("Tokenize 3" in logged) == (kind is ProblemKind.INTERNAL_ERROR)
