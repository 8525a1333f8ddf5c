from hypothesis import given
from hypothesis import strategies as st

from refloat.generation.seeds import choice_seed, draw_seed, resume_seed

ANY_SEED = st.integers(-(2**63), 2**64)


def test_first_choice_uses_the_seed_itself() -> None:
    assert [choice_seed(seed, 0) for seed in (0, 42, 2**32 - 1)] == [0, 42, 2**32 - 1]


def test_derivation_never_changes() -> None:
    assert choice_seed(42, 1) == 3062239372
    assert resume_seed(42, 7) == 3999424313


@given(ANY_SEED, st.integers(0, 300))
def test_every_seed_fits_32_bits(seed: int, number: int) -> None:
    assert 0 <= choice_seed(seed, number) < 2**32
    assert 0 <= resume_seed(choice_seed(seed, number), number) < 2**32
    assert 0 <= draw_seed() < 2**32


def test_choices_positions_and_large_seeds_differ() -> None:
    assert len({choice_seed(7, number) for number in range(128)}) == 128
    assert len({resume_seed(7, position) for position in range(128)}) == 128
    assert resume_seed(7, 0) == 7
    assert choice_seed(1, 0) != choice_seed(2**32 + 1, 0) != choice_seed(-1, 0)
