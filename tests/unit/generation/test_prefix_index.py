from refloat.generation.prefix import PrefixIndex, PromptChain, chain


def cached(index: PrefixIndex, ids: list[int]) -> int:
    return index.lookup(PromptChain(ids))


def test_lookup_finds_full_blocks_of_the_same_beginning_alone() -> None:
    index = PrefixIndex(4, 100)
    index.insert(chain(list(range(10)), 4))
    assert cached(index, list(range(10))) == 8
    assert cached(index, list(range(7))) == 4
    assert cached(index, [0, 1, 2, 9, 4, 5, 6, 7]) == 0
    assert cached(index, [4, 5, 6, 7]) == 0, "the same block elsewhere is another"


def test_lookup_leaves_the_last_token_to_be_computed() -> None:
    index = PrefixIndex(4, 100)
    index.insert(chain([1, 2, 3, 4], 4))
    assert cached(index, [1, 2, 3, 4]) == 3
    assert cached(index, [1]) == 0


def test_insert_beyond_the_cache_forgets_the_least_used_from_its_end() -> None:
    index = PrefixIndex(2, 4)
    index.insert(chain([1, 1, 2, 2], 2))
    index.insert(chain([5, 5, 6, 6], 2))
    assert cached(index, [1, 1, 2, 2, 0]) == 4
    index.insert(chain([8, 8], 2))
    assert len(index) == 4
    assert cached(index, [1, 1, 2, 2, 0]) == 4
    assert cached(index, [5, 5, 6, 6, 0]) == 2
    index.insert(chain(list(range(20)), 2))
    assert len(index) == 4
    assert cached(index, list(range(20))) == 8


def test_prompt_goes_on_with_what_was_generated() -> None:
    ids = list(range(23))
    for cut in range(1, 23):
        prompt = PromptChain(ids[:cut])
        assert prompt.continued(ids[cut:], 4) == (chain(ids, 4), ids[20:])


def test_prompt_chain_follows_the_block_size() -> None:
    prompt = PromptChain(list(range(12)))
    assert prompt.hashes(4) == chain(prompt.ids, 4)
    assert prompt.hashes(3) == chain(prompt.ids, 3)
