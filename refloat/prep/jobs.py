"""One job in, one answer out, whatever happens: the work of prep without its link."""

import sys
import traceback
from collections.abc import Iterable
from typing import assert_never

from refloat.prep.chat import ChatRenderer
from refloat.prep.table import TokenBytes
from refloat.prep.tokenizer import Tokenizer
from refloat.wire.messages import pack_ids, unpack_ids
from refloat.wire.prep_messages import Detokenize, PrepRefused, Render, Text, Tokenize, Tokens
from refloat.wire.problem import Problem, ProblemError, ProblemKind

Job = Render | Tokenize | Detokenize
Answer = Tokens | Text | PrepRefused


class JobRunner:
    """Does jobs for one opened model."""

    def __init__(
        self,
        tokenizer: Tokenizer,
        table: TokenBytes,
        chat: ChatRenderer | None,
        chat_unavailable: str | None,
    ) -> None:
        """`chat_unavailable`: why there is no `chat`."""
        self._tokenizer = tokenizer
        self._table = table
        self._chat = chat
        self._chat_unavailable = chat_unavailable

    def answer(self, job: Job) -> Answer:
        """Never raises: what cannot be done is refused, in the caller's terms where it is theirs."""
        try:
            return self._do(job)
        except ProblemError as error:
            return PrepRefused(job.job, error.problem)
        except MemoryError:
            text = "this request needs more memory to be prepared than there is"
            return _refused(job, ProblemKind.INSUFFICIENT_MEMORY, text)
        except Exception as error:  # noqa: BLE001 # reported here; the next job may well succeed
            _report(job, error)
            return _refused(job, ProblemKind.INTERNAL_ERROR, "the request could not be prepared")

    def _do(self, job: Job) -> Answer:
        match job:
            case Render():
                return self._render(job)
            case Tokenize():
                ids = (
                    self._tokenizer.encode(text, add_special_tokens=job.add_special_tokens)
                    for text in job.texts
                )
                return _tokens(job, ids)
            case Detokenize():
                skip = job.skip_special_tokens
                return Text(job.job, self._table.decode(unpack_ids(job.tokens), skip_special=skip))
            case _:
                assert_never(job)

    def _render(self, job: Render) -> Tokens:
        if self._chat is None:
            reason = self._chat_unavailable or "the model has no chat template"
            raise ProblemError.of(ProblemKind.CHAT_TEMPLATE_UNAVAILABLE, reason)
        text = self._chat.render(job)
        # The template has written every special token that belongs there, the first one included.
        ids = self._tokenizer.encode(text, add_special_tokens=False)
        return _tokens(job, [ids])


def _tokens(job: Render | Tokenize, texts: Iterable[list[int]]) -> Tokens:
    packed: list[bytes] = []
    for ids in texts:
        if job.most is not None and len(ids) > job.most:
            return Tokens(job.job, (), too_many=len(ids))
        packed.append(pack_ids(ids))
    return Tokens(job.job, tuple(packed))


def _refused(job: Job, kind: ProblemKind, message: str, param: str | None = None) -> PrepRefused:
    return PrepRefused(job.job, Problem(kind, message, param=param))


def _report(job: Job, error: Exception) -> None:
    """On stderr, which is prep's log: where it happened, without values, which may be prompts."""
    frames = traceback.extract_tb(error.__traceback__)
    where = ", ".join(f"{frame.name}:{frame.lineno}" for frame in frames[-4:])
    text = f"prep: {type(job).__name__} {job.job} failed: {type(error).__name__} in {where}\n"
    sys.stderr.write(text)
    sys.stderr.flush()
