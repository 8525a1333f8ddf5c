"""How long answers are expected to be, one by one and many together."""

from refloat.generation.answer_lengths import AnswerLengths, place_among_many


def of(*tokens: int) -> AnswerLengths:
    lengths = AnswerLengths()
    for count in tokens:
        lengths.note(count)
    return lengths


def test_few_answers_say_nothing_so_a_moderate_one_is_expected() -> None:
    assert of(5, 5, 5).left(0, 100) == 100
    assert of(5, 5, 5).left(0, 4000) == 256
    assert of(5, 5, 5).left(200, 4000) == 200


def test_answer_is_expected_to_be_like_those_that_were_longer_than_it_is() -> None:
    lengths = of(*[10] * 90, *[100] * 10)
    assert lengths.left(0, 500) == 10
    assert lengths.left(20, 500) == 80
    assert lengths.left(20, 30) == 30


def test_answer_longer_than_all_before_is_expected_to_be_half_through() -> None:
    assert of(*range(1, 20)).left(40, 500) == 40


def test_many_together_are_expected_to_be_as_long_as_answers_are() -> None:
    lengths = of(*range(1, 201))
    expected = [lengths.left(0, 500, place_among_many(number)) for number in range(1000)]
    assert 100 <= sum(expected) / len(expected) <= 125
    assert min(expected) < 40
    assert max(expected) >= 195
    shorter = sum(left < 100 for left in expected)
    assert 350 < shorter < 500, "evenly spread, a little to the careful side"
