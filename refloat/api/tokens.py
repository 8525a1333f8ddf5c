"""`/tokenize` and `/detokenize`: prep answers them, so they work while a worker is busy or gone."""

from collections.abc import Sequence

from refloat.api.body import read_json_body
from refloat.api.context import ApiContext
from refloat.api.errors import Answer, encode_json, invalid
from refloat.api.facts import Call
from refloat.api.lookup import served_model
from refloat.api.schema.answers import DetokenizeAnswer, TokenizeAnswer
from refloat.api.schema.decode import decode_body
from refloat.api.schema.tokens import DETOKENIZE_DECODER, TOKENIZE_DECODER, ids_of, prompt_of
from refloat.api.watch import ClientWatch


class Tokens:
    """Handlers of both routes."""

    def __init__(self, context: ApiContext) -> None:
        self._context = context

    async def tokenize(self, call: Call) -> Answer:
        """Ids of a text or of a rendered chat, untruncated."""
        context = self._context
        limit = context.settings.max_body_bytes
        with await read_json_body(call, limit=limit, budget=context.budget) as body:
            parsed = decode_body(body.take(), TOKENIZE_DECODER)
            prompt = prompt_of(parsed)
            model = served_model(context.fleet, parsed.model)
            call.facts.model = model.name
            async with ClientWatch(call.receive):
                ids = await context.generations.tokenize(model.name, prompt, call.facts.tenant)
        length = model.facts.context_length if model.facts else None
        answer = TokenizeAnswer(count=len(ids), max_model_len=length, tokens=ids)
        return Answer(encode_json(answer))

    async def detokenize(self, call: Call) -> Answer:
        """The text of ids."""
        context = self._context
        limit = context.settings.max_body_bytes
        with await read_json_body(call, limit=limit, budget=context.budget) as body:
            parsed = decode_body(body.take(), DETOKENIZE_DECODER)
            ids = ids_of(parsed)
            model = served_model(context.fleet, parsed.model)
            call.facts.model = model.name
            if model.facts is not None:
                _check_vocabulary(ids, model.facts.vocab_size)
            async with ClientWatch(call.receive):
                text = await context.generations.detokenize(
                    model.name,
                    ids,
                    call.facts.tenant,
                    skip_special_tokens=bool(parsed.skip_special_tokens),
                )
        return Answer(encode_json(DetokenizeAnswer(text)))


def _check_vocabulary(ids: Sequence[int], size: int) -> None:
    """Ids without a text would be left out in silence. Raises `ProblemError`."""
    for index, token in enumerate(ids):
        if token >= size:
            message = f"{token} is no token id of this model; ids are from 0 to {size - 1}."
            raise invalid(message, f"tokens[{index}]")
