"""`/messages/count_tokens`: how long a prompt is, in Anthropic's shape."""

from refloat.api.body import read_json_body
from refloat.api.context import ApiContext
from refloat.api.errors import Answer, encode_json
from refloat.api.facts import Call
from refloat.api.lookup import served_model
from refloat.api.schema.anthropic_answers import TokenCount
from refloat.api.translate_anthropic import translate_count
from refloat.api.watch import ClientWatch


class MessageCounter:
    """Handler of the route."""

    def __init__(self, context: ApiContext) -> None:
        self._context = context

    async def count(self, call: Call) -> Answer:
        """Tokens of the rendered prompt, untruncated."""
        context = self._context
        limit = context.settings.max_body_bytes
        with await read_json_body(call, limit=limit, budget=context.budget) as body:
            name, prompt = translate_count(body.take())
            model = served_model(context.fleet, name)
            call.facts.model = model.name
            async with ClientWatch(call.receive):
                ids = await context.generations.tokenize(model.name, prompt, call.facts.tenant)
        return Answer(encode_json(TokenCount(len(ids))))
