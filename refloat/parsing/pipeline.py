"""One choice's way from token ids to final text. Its state lives in the gateway, not the worker.

ids → bytes (`vocabulary`) → characters → stop strings (`stop`) → text that may go out.
"""

from codecs import utf_8_decode
from collections import deque
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from refloat.parsing.stop import StopFinder
from refloat.parsing.vocabulary import Vocabulary

#: Stands for a log-probability that JSON has no number for (-inf, NaN).
LOGPROB_FLOOR = -9999.0


class TokenLogprob(NamedTuple):
    """The chosen token at one position."""

    token_id: int
    raw: bytes
    """The token's own bytes; joined over an answer they decode to its text."""
    logprob: float


class TextOut(NamedTuple):
    """What became final by one push."""

    text: str
    """Never taken back, never sent again; may be empty."""
    logprobs: tuple[TokenLogprob, ...]
    """Of the tokens whose text became final."""
    stopped: bool
    """A stop string was found: nothing more will come, and the generation is to be ended."""


class _Waiting(NamedTuple):
    """A token whose log-probability has not gone out."""

    entry: TokenLogprob
    chars: int
    """Characters of the answer, counted from its start, that have to be out before it may go."""


class OutputPipeline:
    """Turns the ids of one choice into its text, piece by piece.

    Whatever the pushes, the pieces joined are the same text: bytes that are not yet a character wait
    for the rest of it, and become U+FFFD only when what follows (or the end) proves them broken.
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        stop: Iterable[str] = (),
        *,
        include_stop: bool = False,
        logprobs: bool = False,
        skip_special: bool = True,
        continues_text: bool = False,
        min_tokens: int = 0,
    ) -> None:
        """`continues_text`: the prompt was text of which this is the rest, so that a leading space
        belongs to it even where the vocabulary strips one at the beginning of a text. Text of the
        first `min_tokens` tokens is not searched for stop strings."""
        stop = [text for text in stop if text]
        self._vocabulary = vocabulary
        self._finder = StopFinder(stop, include_stop=include_stop) if stop else None
        self._unsearched = min_tokens if stop else 0
        self._bytes_of = vocabulary.bytes_of if skip_special else vocabulary.raw_of
        self._text_of = vocabulary.text_of
        self._reports = logprobs
        self._strip = vocabulary.strip_leading_space and not continues_text
        self._is_plain = self._finder is None and not logprobs and skip_special
        self._is_direct = self._is_plain and not self._strip
        """Whole characters may go out as they are: nothing has to be noted or looked for."""
        self._partial = b""
        """Bytes so far of a character that is not complete."""
        self._decoded = 0
        self._released = 0
        self._unfinished: list[TokenLogprob] = []
        """Tokens that end inside the character in `_partial`."""
        self._waiting: deque[_Waiting] = deque()
        self._ended = False
        self._stopped = False

    @property
    def stop(self) -> str | None:
        """The stop string that ended the text; `None`: none did."""
        return None if self._finder is None else self._finder.found

    def push(self, ids: Sequence[int], logprobs: Sequence[float] | None = None) -> TextOut:
        """Take the next ids and give what became final. `logprobs`: one for each id."""
        if self._is_direct and not self._partial and len(ids) == 1:
            # Nearly every token of nearly every generation: no state is touched.
            text = self._text_of(ids[0])
            if text is not None:
                return TextOut(text, (), False)
        if self._ended:
            return TextOut("", (), self._stopped)
        if self._unsearched:
            return self._push_unsearched(ids, logprobs)
        if self._reports and logprobs is not None:
            text = "".join(
                [self._decode_reported(*pair) for pair in zip(ids, logprobs, strict=True)]
            )
        else:
            text = self._decode(self._stripped(b"".join(map(self._bytes_of, ids))))
        return self._scan(text)

    def forget_partial(self) -> None:
        """The ids that ended inside a character are taken back: others come in their place."""
        self._partial = b""
        self._unfinished.clear()

    def flush(self) -> TextOut:
        """The generation ended by itself: all that was held goes out, and nothing comes after."""
        if self._ended:
            return TextOut("", (), self._stopped)
        self._is_direct = False
        text = utf_8_decode(self._partial, "replace", True)[0]
        self._finish_characters(text)
        self._partial = b""
        out = self._scan(text)
        self._ended = True
        if self._finder is None or out.stopped:
            return out
        held = self._finder.flush()
        return TextOut(out.text + held, out.logprobs + self._report(held), False)

    def _push_unsearched(self, ids: Sequence[int], logprobs: Sequence[float] | None) -> TextOut:
        """As `push`, for ids of which the first may not end the text by a stop string."""
        count = min(self._unsearched, len(ids))
        left = self._unsearched - count
        finder, self._finder = self._finder, None
        self._unsearched = 0
        head = self.push(ids[:count], logprobs[:count] if logprobs is not None else None)
        self._finder, self._unsearched = finder, left
        if count == len(ids):
            return head
        rest = self.push(ids[count:], logprobs[count:] if logprobs is not None else None)
        return TextOut(head.text + rest.text, head.logprobs + rest.logprobs, rest.stopped)

    def _decode_reported(self, token: int, logprob: float) -> str:
        data = self._stripped(self._bytes_of(token))
        if not data:
            return ""
        entry = TokenLogprob(token, data, logprob if logprob > LOGPROB_FLOOR else LOGPROB_FLOOR)
        text = self._decode(data)
        if self._partial:
            self._unfinished.append(entry)
        else:
            self._waiting.append(_Waiting(entry, self._decoded))
        return text

    def _decode(self, data: bytes) -> str:
        data = self._partial + data
        text, consumed = utf_8_decode(data, "replace", False)
        self._finish_characters(text)
        self._partial = data[consumed:]
        return text

    def _finish_characters(self, text: str) -> None:
        # Waiting bytes are the beginning of one character, so the first one decoded is theirs.
        if text and self._unfinished:
            self._waiting.extend(_Waiting(entry, self._decoded + 1) for entry in self._unfinished)
            self._unfinished.clear()
        self._decoded += len(text)

    def _stripped(self, data: bytes) -> bytes:
        if self._strip and data:
            self._strip = False
            self._is_direct = self._is_plain
            return data.removeprefix(b" ")
        return data

    def _scan(self, text: str) -> TextOut:
        if self._finder is None:
            return TextOut(text, self._report(text), False)
        scan = self._finder.push(text)
        self._stopped = self._ended = scan.stopped
        return TextOut(scan.text, self._report(scan.text), scan.stopped)

    def _report(self, text: str) -> tuple[TokenLogprob, ...]:
        if not self._reports:
            return ()
        self._released += len(text)
        ready: list[TokenLogprob] = []
        while self._waiting and self._waiting[0].chars <= self._released:
            ready.append(self._waiting.popleft().entry)
        return tuple(ready)
