"""What one ready replica has been given and has not given back: slots, KV blocks, prefixes.

A place is taken when an attempt is sent and freed only when the worker has said that the attempt
ended (or refused it): cancelling asks, it does not free.
"""

from refloat.generation.choice import Choice
from refloat.generation.prefix import PrefixIndex, chain
from refloat.generation.scheduler import Room, blocks_wanted
from refloat.kv.blocks import BlockLedger
from refloat.supervisor.fleet import Replica
from refloat.wire.messages import Cancel

#: Generation and attempt.
Key = tuple[int, int]

#: A hybrid engine is asked for two tokens where one is wanted, so it may compute one more.
_HYBRID_HEAD_ROOM = 1


class ReplicaAccount:
    """One life of one worker. Dropped whole when the worker is lost."""

    def __init__(self, replica: Replica, *, prefix_caching: bool) -> None:
        self.replica = replica
        self.capabilities = replica.capabilities
        self.is_suspect = False
        """Gets nothing new while set."""
        cache = replica.cache if replica.capabilities.blocks else None
        self.ledger = BlockLedger(cache.num_blocks, cache.block_size) if cache else None
        self._prefix = (
            PrefixIndex(cache.block_size, cache.num_blocks) if cache and prefix_caching else None
        )
        self._slots = min(replica.max_num_seqs, self.capabilities.capacity)
        if not self.capabilities.batch:
            self._slots = 1
        self._held: dict[Key, Choice] = {}
        self._given_up: set[Key] = set()
        self._unstarted: dict[Key, int] = {}
        self._unstarted_tokens = 0

    @property
    def held(self) -> int:
        """Attempts that take a place, those given up included."""
        return len(self._held)

    def room(self) -> Room:
        """What is left, for the scheduler."""
        ledger = self.ledger
        return Room(
            worker_id=self.replica.worker_id,
            slots=self._slots - len(self._held),
            blocks=ledger.free if ledger else None,
            total_blocks=ledger.total if ledger else 0,
            block_size=ledger.block_size if ledger else 1,
            head_room=_HYBRID_HEAD_ROOM if self.capabilities.hybrid else 0,
            unstarted=len(self._unstarted),
            unstarted_tokens=self._unstarted_tokens,
        )

    def can_ever_hold(self, choice: Choice) -> bool:
        """Whether the cache is large enough for it when it is alone."""
        return blocks_wanted(choice.journal.tokens_needed, self.room()) is not None

    def give(self, choice: Choice) -> None:
        """Send the next attempt. Raises `ValueError` if it does not fit (the scheduler saw to it)."""
        journal = choice.journal
        key = (journal.generation, journal.attempt + 1)
        if self.ledger is not None:
            wanted = blocks_wanted(journal.tokens_needed, self.room())
            if wanted is None:
                raise ValueError(f"{key} can never fit worker {self.replica.worker_id}")
            self.ledger.reserve(key, wanted * self.ledger.block_size)
        if self._prefix is not None:
            choice.session.note_cached(choice.prompt_index, self._prefix.lookup(choice.chain))
        self._held[key] = choice
        choice.worker_id = self.replica.worker_id
        prefill = len(journal.prompt) + len(journal.emitted)
        self._unstarted[key] = prefill
        self._unstarted_tokens += prefill
        self.replica.send(journal.dispatch())

    def owner(self, key: Key) -> Choice | None:
        """Whose attempt this is; `None` if nobody wants its outputs (any longer)."""
        return None if key in self._given_up else self._held.get(key)

    def started(self, key: Key) -> None:
        """The attempt has brought its first token: its prompt has been computed."""
        prefill = self._unstarted.pop(key, 0)
        self._unstarted_tokens -= prefill
        choice = self._held.get(key)
        if prefill and choice is not None and self._prefix is not None:
            self._prefix.insert(choice.chain.hashes(self._prefix.block_size))

    def give_up(self, choice: Choice) -> None:
        """Nobody wants more of the choice's present attempt: ask the worker to stop it."""
        key = (choice.journal.generation, choice.journal.attempt)
        if self.owner(key) is choice:
            self._given_up.add(key)
            self.replica.send(Cancel(*key))

    def settle(self, key: Key) -> None:
        """The worker is done with this attempt: its place is free. Unknown ones do nothing."""
        choice = self._held.pop(key, None)
        if choice is None:
            return
        if self.ledger is not None:
            self.ledger.release(key)
        is_computed = key not in self._unstarted
        self._unstarted_tokens -= self._unstarted.pop(key, 0)
        self._given_up.discard(key)
        if is_computed and choice.journal.attempt == key[1]:
            self._remember(choice)

    def owners(self) -> list[Choice]:
        """Choices whose present attempt is here, in the order in which they were sent."""
        return [choice for key, choice in self._held.items() if key not in self._given_up]

    def everybody(self) -> list[Choice]:
        """Choices of which any attempt is here, those given up included."""
        return list(dict.fromkeys(self._held.values()))

    def _remember(self, choice: Choice) -> None:
        """The whole sequence is cached now, but for its last token, which was never computed."""
        prefix = self._prefix
        if prefix is None:
            return
        journal = choice.journal
        ids = (journal.prompt + journal.emitted)[:-1]
        known = choice.chain.hashes(prefix.block_size)
        prefix.insert(chain(ids, prefix.block_size, known))
