"""The scripted model's tokenizer, and its answers as token ids. Pure.

Ids 0 to 255 are the bytes, then come the control marks, then every piece of the script's own texts.
A prompt is encoded byte by byte, so its length in tokens is known to whoever writes a test; and a
text that is not in the script is said byte by byte, so tokens end inside characters.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

from refloat.scripted.script import Answer, Script, pieces
from refloat.scripted.turns import last_message

SPECIAL_TOKENS = ("<|im_start|>", "<|im_end|>", "<|endoftext|>")
_SPECIAL = re.compile("(" + "|".join(re.escape(token) for token in SPECIAL_TOKENS) + ")")

CHAT_TEMPLATE = """\
{%- if tools %}<|im_start|>system
Tools:{% for tool in tools %} {{ (tool.function or tool).name }}{% endfor %}<|im_end|>
{% endif %}
{%- for message in messages %}<|im_start|>{{ message.role }}
{% if message.content is string %}{{ message.content }}
{%- elif message.content %}
{%- for part in message.content %}{{ part.text or '' }}{% endfor %}{% endif %}
{%- for call in message.tool_calls or [] %}<tool_call>
{{ (call.function or call) | tojson }}
</tool_call>{% endfor %}<|im_end|>
{% endfor %}
{%- if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""


class ScriptedTokenizer:
    """Text to ids and back, for one script. Two of the same script are equal in every process."""

    def __init__(self, script: Script) -> None:
        self.script = script
        first_special = 256
        first_piece = first_special + len(SPECIAL_TOKENS)
        self._bytes = [bytes([byte]) for byte in range(256)]
        self._bytes += [token.encode() for token in SPECIAL_TOKENS]
        self._special = {token: first_special + n for n, token in enumerate(SPECIAL_TOKENS)}
        self._piece_ids: dict[bytes, int] = {}
        for answer in script.fixed_answers():
            for text in answer.choices:
                self._learn(pieces(text, answer.chunk), first_piece)
        self.special_ids = tuple(self._special.values())
        self.eos_ids = (self._special["<|im_end|>"],)
        self.chat_template = CHAT_TEMPLATE

    def _learn(self, parts: list[bytes], first_piece: int) -> None:
        for part in parts:
            if len(part) > 1 and part not in self._piece_ids:
                self._piece_ids[part] = first_piece + len(self._piece_ids)
                self._bytes.append(part)

    @property
    def vocab_size(self) -> int:
        """Number of ids; every id below it is legal."""
        return len(self._bytes)

    def encode(self, text: str) -> list[int]:
        """Control marks become their ids, all else bytes. What is no legal text becomes `?`."""
        ids: list[int] = []
        for part in _SPECIAL.split(text):
            special = self._special.get(part)
            if special is not None:
                ids.append(special)
            else:
                ids += part.encode(errors="replace")
        return ids

    def token_bytes(self, token: int) -> bytes:
        """The bytes of one token; a control mark's are its name. Raises `IndexError` beyond the
        vocabulary."""
        if token < 0:
            raise IndexError(f"token id {token}")
        return self._bytes[token]

    def decode(self, ids: Sequence[int]) -> str:
        """The text of ids, control marks included."""
        return b"".join(map(self.token_bytes, ids)).decode(errors="replace")

    def piece_ids(self, text: str, answer: Answer) -> list[int]:
        """The ids as which the model says a text: a piece's own id, else its bytes."""
        ids: list[int] = []
        for part in pieces(text, answer.chunk):
            known = self._piece_ids.get(part)
            if known is None:
                ids += part
            else:
                ids.append(known)
        return ids


class Reply(NamedTuple):
    """An answer as ids: a function of script, prompt, and what was emitted of it already."""

    cycle: tuple[int, ...]
    """The ids that are said, from the first on; beyond their end they begin again."""

    def token_at(self, position: int) -> int:
        """The id at a position, counted from the end of the original prompt."""
        return self.cycle[position % len(self.cycle)]


def reply_to(
    tokenizer: ScriptedTokenizer,
    prompt: Sequence[int],
    emitted: Sequence[int],
    *,
    seed: int | None,
) -> Reply:
    """How the model answers a prompt. `seed` is `None` for a greedy request.

    A text that what was emitted does not belong to is not chosen, whatever the seed: a generation
    that goes on elsewhere goes on with the text it began.
    """
    answer = tokenizer.script.answer(last_message(tokenizer.decode(prompt)))
    cycles = [_cycle(tokenizer, text, answer) for text in answer.choices]
    said = tuple(emitted)
    fitting = [cycle for cycle in cycles if cycle[: len(said)] == said[: len(cycle)]] or cycles
    return Reply(fitting[0 if seed is None else seed % len(fitting)])


def _cycle(tokenizer: ScriptedTokenizer, text: str, answer: Answer) -> tuple[int, ...]:
    ids = tokenizer.piece_ids(text, answer)
    if answer.finish == "stop" or not ids:
        ids.append(tokenizer.eos_ids[0])
    return tuple(ids)
