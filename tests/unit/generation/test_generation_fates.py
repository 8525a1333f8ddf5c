"""What incidents are told of the generations that they touched."""

from dataclasses import dataclass, field

from refloat.generation.fates import Fates
from refloat.generation.states import GenerationState


@dataclass
class Book:
    told: list[tuple[str, int, str]] = field(default_factory=list[tuple[str, int, str]])

    def outcome(self, incident_id: str, generation: int, text: str) -> None:
        self.told.append((incident_id, generation, text))


def fates() -> tuple[Fates, Book]:
    book, made = Book(), Fates()
    made.port = book
    return made, book


def test_generation_that_resumes_and_finishes_is_told_step_by_step() -> None:
    made, book = fates()
    made.touched(7, "a")
    made.advanced(7)
    made.advanced(7)
    assert made.incident_of(7) == "a"
    made.ended(7, GenerationState.DONE)
    made.ended(7, GenerationState.DONE)
    assert book.told == [("a", 7, "waiting"), ("a", 7, "resumed"), ("a", 7, "finished")]
    assert made.incident_of(7) is None


def test_generation_of_two_incidents_has_its_end_in_both() -> None:
    made, book = fates()
    made.touched(7, "a")
    made.touched(7, "b")
    assert made.incident_of(7) == "b"
    made.ended(7, GenerationState.FAILED, "poison_request")
    last = {(incident, text) for incident, _, text in book.told[-2:]}
    assert last == {("a", "failed: poison_request"), ("b", "failed: poison_request")}


def test_generation_that_is_cancelled_is_no_failure() -> None:
    made, book = fates()
    made.touched(7, "a")
    made.ended(7, GenerationState.CANCELLED, "client_closed")
    assert book.told[-1] == ("a", 7, "cancelled")


def test_generation_that_no_incident_touched_is_not_told_of() -> None:
    made, book = fates()
    made.touched(7, None)
    made.advanced(7)
    made.ended(7, GenerationState.DONE)
    assert book.told == []
    assert made.incident_of(7) is None


def test_fates_without_a_book_are_only_remembered() -> None:
    made = Fates()
    made.touched(7, "a")
    made.advanced(7)
    assert made.incident_of(7) == "a"
    made.ended(7, GenerationState.DONE)
