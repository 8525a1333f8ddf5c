"""Responses by their ids: those under way, and where ended ones are kept."""

from typing import Protocol
from weakref import WeakValueDictionary

from refloat.api.responses.database import StoredResponse
from refloat.api.responses.store import ResponseStore
from refloat.api.responses.told import Told
from refloat.api.schema.responses_answers import ResponseAnswer


class UnderWay(Protocol):
    """A response that has not ended."""

    answer_id: str
    tenant: str
    told: Told

    def present(self) -> ResponseAnswer:
        """The response as it is now."""
        ...

    def cancel(self) -> ResponseAnswer | None:
        """End its generation; whoever reads it is told. `None`: it has ended by itself."""
        ...


class ResponseDesk:
    """One for both prefixes. `store` is `None` where nothing is kept."""

    def __init__(self, store: ResponseStore | None) -> None:
        self.store = store
        self._under_way: WeakValueDictionary[str, UnderWay] = WeakValueDictionary()
        """Its encoder, which lives as long as the request."""

    @property
    def keeps(self) -> bool:
        """Whether answers can be asked for again at all."""
        return self.store is not None

    def note(self, encoder: UnderWay) -> None:
        """A response is under way."""
        self._under_way[encoder.answer_id] = encoder

    def forget(self, encoder: UnderWay) -> None:
        """It has ended."""
        if self._under_way.get(encoder.answer_id) is encoder:
            del self._under_way[encoder.answer_id]

    def find(self, tenant: str, response_id: str) -> UnderWay | None:
        """The tenant's response of that id, if it is under way."""
        found = self._under_way.get(response_id)
        return found if found is not None and found.tenant == tenant else None

    def put(self, encoder: UnderWay, answer: ResponseAnswer, body: bytes) -> None:
        """It has ended with this; kept if its caller did not say otherwise."""
        self.forget(encoder)
        told = encoder.told
        if self.store is None or not told.store:
            return
        self.store.put(
            StoredResponse(
                id=answer.id,
                tenant=encoder.tenant,
                previous=answer.previous_response_id,
                created_s=answer.created_at,
                items=told.items,
                answer=body,
            )
        )
