"""What one ready replica has been given and has not given back: slots, KV blocks, prefixes.

A place is taken when an attempt is sent and freed only when the worker has said that the attempt
ended (or refused it): cancelling asks, it does not free.
"""

from collections.abc import Sequence

from refloat.generation.answer_lengths import AnswerLengths
from refloat.generation.choice import Choice
from refloat.generation.preemption import Running
from refloat.generation.prefix import PrefixIndex
from refloat.generation.scheduler import Room, longest
from refloat.kv.blocks import BlockLedger
from refloat.kv.forecast import Load
from refloat.supervisor.fleet import Replica
from refloat.wire.messages import Cancel

#: Generation and attempt.
Key = tuple[int, int]

#: A hybrid engine is asked for two tokens where one is wanted, so it may compute one more.
_HYBRID_HEAD_ROOM = 1
#: The worker may be in the step after the one that was heard of, and begin another before a cancel
#: reaches it; the blocks come back after that. A hybrid engine may take one step more for it.
_STEPS_AHEAD = 3
_HYBRID_STEPS_AHEAD = 4
#: Steps between an end and the moment at which others may count on its blocks.
_HEARD_AFTER = 2


class ReplicaAccount:
    """One life of one worker. Dropped whole when the worker is lost."""

    def __init__(
        self,
        replica: Replica,
        *,
        prefix_caching: bool,
        step_tokens: int = 512,
        lengths: AnswerLengths | None = None,
    ) -> None:
        """`lengths`: of the model's answers, which are expected to go on like that."""
        self.replica = replica
        self.capabilities = replica.capabilities
        step_tokens = self.capabilities.step_tokens or step_tokens
        self._step_tokens = step_tokens if prefix_caching else 0
        self.is_suspect = False
        """Gets nothing new while set."""
        cache = replica.cache if replica.capabilities.blocks else None
        can_grow, is_hybrid = self.capabilities.token_resume, self.capabilities.hybrid
        self.ledger: BlockLedger | None = None
        if cache is not None:
            is_sharing = prefix_caching and can_grow and not is_hybrid
            self.ledger = BlockLedger(cache.num_blocks, cache.block_size, is_sharing=is_sharing)
        self._prefix = (
            PrefixIndex(cache.block_size, cache.num_blocks) if cache and prefix_caching else None
        )
        self._lengths = lengths if lengths is not None else AnswerLengths()
        self._steps = _HYBRID_STEPS_AHEAD if is_hybrid else _STEPS_AHEAD
        self._capacity = self.capabilities.capacity if self.capabilities.batch else 1
        self._slots = min(replica.max_num_seqs, self._capacity)
        self._held: dict[Key, Choice] = {}
        self._given_up: set[Key] = set()
        self._unstarted: dict[Key, int] = {}
        self._unstarted_tokens = 0
        self._is_crowded = False
        self.changes = 0
        """Grows with all that may let somebody in who had to wait before: somebody has begun, was
        given up, or is gone, or blocks are free."""

    @property
    def held(self) -> int:
        """Attempts that take a place, those given up included."""
        return len(self._held)

    @property
    def leaving(self) -> int:
        """Attempts that were given up and take their place still."""
        return len(self._given_up)

    def room(self) -> Room:
        """What is left, for the scheduler."""
        return Room(
            worker_id=self.replica.worker_id,
            slots=0 if self._is_crowded else self._free_slots,
            ledger=self.ledger,
            loads=self._loads,
            is_whole=not self.capabilities.token_resume,
            head_room=_HYBRID_HEAD_ROOM if self.capabilities.hybrid else 0,
            steps=self._steps,
            linger=self._steps + _HEARD_AFTER,
            step_tokens=self._step_tokens,
            running=len(self._held),
            unstarted=len(self._unstarted),
            unstarted_tokens=self._unstarted_tokens,
        )

    @property
    def _free_slots(self) -> int:
        """A slot is free when its sequence was asked to leave: it is gone when the next one comes to
        its first step. What an engine can hold at all it may hold so long."""
        staying = len(self._held) - len(self._given_up)
        return min(self._slots - staying, self._capacity - len(self._held))

    @property
    def capacity_tokens(self) -> int | None:
        """What one sequence can have when it is alone; `None`: nothing bounds it here."""
        return None if self.ledger is None else self.ledger.capacity_tokens

    def can_ever_hold(self, choice: Choice) -> bool:
        """Whether the cache is large enough for it when it is alone."""
        return longest(choice.journal.tokens_needed, self.room()) is not None

    def give(self, choice: Choice) -> None:
        """Send the next attempt. Raises `ValueError` if it can never fit."""
        journal = choice.journal
        key = (journal.generation, journal.attempt + 1)
        tokens = len(journal.prompt) + len(journal.emitted)
        if self.ledger is not None:
            limit = longest(journal.tokens_needed, self.room())
            if limit is None:
                raise ValueError(f"{key} can never fit worker {self.replica.worker_id}")
            is_whole = not self.capabilities.token_resume
            hashes, tail = [], []
            if self.ledger.is_sharing:
                hashes, tail = choice.chain.continued(journal.emitted, self.ledger.block_size)
            size = limit if is_whole else tokens
            self.ledger.enter(key, size, limit=limit, hashes=hashes, tail=tail)
        if self._prefix is not None:
            choice.session.note_cached(choice.prompt_index, self._prefix.lookup(choice.chain))
        self._held[key] = choice
        choice.worker_id = self.replica.worker_id
        self._unstarted[key] = tokens
        self._unstarted_tokens += tokens
        self.replica.send(journal.dispatch())

    def owner(self, key: Key) -> Choice | None:
        """Whose attempt this is; `None` if nobody wants its outputs (any longer)."""
        return None if key in self._given_up else self._held.get(key)

    def observe(self, used_blocks: int) -> bool:
        """What the engine had in use in a step, before that step's tokens are counted. `False`: it
        does not share what it is believed to share."""
        ledger = self.ledger
        if ledger is None:
            return True
        before = ledger.used
        is_believed = ledger.observe(used_blocks)
        self.changes += ledger.used < before
        return is_believed

    def grew(self, key: Key, ids: Sequence[int]) -> None:
        """The attempt has brought tokens; with the first its prompt has been computed."""
        if self._unstarted and key in self._unstarted:
            self._started(key)
        if self.ledger is not None and self.capabilities.token_resume:
            self.ledger.grow(key, ids)

    def give_up(self, choice: Choice) -> None:
        """Nobody wants more of the choice's present attempt: ask the worker to stop it."""
        key = (choice.journal.generation, choice.journal.attempt)
        if self.owner(key) is choice:
            self._given_up.add(key)
            self.changes += 1
            if self.ledger is not None:
                self.ledger.leave(key)
            self.replica.send(Cancel(*key))

    def settle(self, key: Key) -> None:
        """The worker is done with this attempt: its place is free. Unknown ones do nothing."""
        choice = self._held.pop(key, None)
        if choice is None:
            return
        self._is_crowded = False
        self.changes += 1
        if self.ledger is not None:
            self.ledger.release(key)
        is_computed = key not in self._unstarted
        self._unstarted_tokens -= self._unstarted.pop(key, 0)
        self._given_up.discard(key)
        if is_computed and choice.journal.attempt == key[1]:
            self._remember(choice)

    def give_nothing_more(self) -> None:
        """The worker has found that it has no room: it gets nothing new before somebody there ends."""
        self._is_crowded = bool(self._held)

    @property
    def is_short(self) -> bool:
        """Whether somebody has to be stopped now, so that the others find their blocks."""
        ledger = self.ledger
        return (
            ledger is not None
            and self.capabilities.token_resume
            and ledger.need(self._steps) > ledger.total
        )

    def running(self) -> list[Running]:
        """Those that are there to stay, for the choice of one to stop. An engine with a prefix cache
        stops nobody in the midst of a prompt."""
        return [
            Running(
                choice.journal.generation,
                choice.journal.tenant,
                choice.session.request.priority,
                choice.journal.params.temperature > 0,
                choice.journal.params.guide is not None,
            )
            for key, choice in self._held.items()
            if key not in self._given_up and not (self._step_tokens and key in self._unstarted)
        ]

    def find(self, generation: int) -> Choice | None:
        """Whose present attempt is here."""
        for choice in self.owners():
            if choice.journal.generation == generation:
                return choice
        return None

    def owners(self) -> list[Choice]:
        """Choices whose present attempt is here, in the order in which they were sent."""
        return [choice for key, choice in self._held.items() if key not in self._given_up]

    def everybody(self) -> list[Choice]:
        """Choices of which any attempt is here, those given up included."""
        return list(dict.fromkeys(self._held.values()))

    def _loads(self) -> list[Load]:
        ledger = self.ledger
        if ledger is None:
            return []
        return [
            self._load(key, choice, ledger)
            for key, choice in self._held.items()
            if key not in self._given_up
        ]

    def _load(self, key: Key, choice: Choice, ledger: BlockLedger) -> Load:
        journal = choice.journal
        shared = ledger.common_of(key) * ledger.block_size
        left = choice.expected_left_among_many(self._lengths) + self._steps + _HEARD_AFTER
        tokens = len(journal.prompt) + len(journal.emitted)
        return Load(tokens - shared, left, journal.tokens_needed - shared)

    def _started(self, key: Key) -> None:
        self._unstarted_tokens -= self._unstarted.pop(key)
        self.changes += 1
        choice = self._held.get(key)
        if choice is not None and self._prefix is not None:
            self._prefix.insert(choice.chain.hashes(self._prefix.block_size))

    def _remember(self, choice: Choice) -> None:
        """The whole sequence is cached now, but for its last token, which was never computed."""
        prefix = self._prefix
        if prefix is None:
            return
        hashes, _ = choice.chain.continued(choice.journal.emitted[:-1], prefix.block_size)
        prefix.insert(hashes)
