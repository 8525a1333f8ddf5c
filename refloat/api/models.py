"""`/models` and `/models/{id}`: what is served, in OpenAI's shape."""

from refloat.api.context import ApiContext
from refloat.api.errors import Answer, encode_json
from refloat.api.facts import Call
from refloat.api.lookup import served_model
from refloat.api.schema.answers import ModelCard, ModelList
from refloat.supervisor.fleet import ModelSnapshot

OWNER = "refloat"


class Models:
    """Handlers of the model list."""

    def __init__(self, context: ApiContext) -> None:
        self._fleet = context.fleet

    async def list(self, call: Call) -> Answer:
        """Every model, whatever its state: a client may wait for one that loads."""
        cards = [model_card(snapshot) for snapshot in self._fleet.models()]
        return Answer(encode_json(ModelList(cards)))

    async def get(self, call: Call) -> Answer:
        """One model."""
        name: str = call.scope["path_params"]["model"]
        return Answer(encode_json(model_card(served_model(self._fleet, name))))


def model_card(snapshot: ModelSnapshot) -> ModelCard:
    """One entry of the list."""
    return ModelCard(
        id=snapshot.name,
        created=snapshot.created,
        owned_by=OWNER,
        max_model_len=snapshot.facts.context_length if snapshot.facts else None,
        state=snapshot.availability.value,
        reason=snapshot.reason,
    )
