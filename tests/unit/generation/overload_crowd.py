"""What clients do to a stage with more work than its cache holds, and what each of them has to get."""

import random

from refloat.generation.events import Completed, FinishReason
from refloat.generation.limits import Limits
from refloat.generation.session import Session
from refloat.wire.problem import ProblemError, ProblemKind
from tests.unit.generation.conftest import Answer, text_of
from tests.unit.generation.overload_stage import OverloadStage
from tests.unit.generation.trapped_engine import TrappedEngine

LIMITS = Limits(max_queue=60, look_ahead=2, step_tokens=8)
BLOCK = 4


class Client:
    """What one client asked for."""

    def __init__(self, session: Session, prompt: list[int], tokens: int) -> None:
        self.session = session
        self.prompt = prompt
        self.tokens = tokens
        self.answer = Answer()
        self.has_left = False

    def check(self, stage: OverloadStage) -> None:
        """Whole, right, and ended by its own terms."""
        if self.has_left:
            return
        self.answer.events += stage.runner.run(self.session.next_events())
        assert isinstance(self.answer.terminal, Completed), self.answer.terminal
        for index in range(self.session.request.n):
            assert self.answer.text(index) == text_of(self.prompt, self.tokens)
            assert self.answer.reasons()[index] is FinishReason.LENGTH


class Crowd:
    """All clients of one engine that should share, and does or does not."""

    def __init__(self, blocks: int, slots: int, *, shares: bool, hybrid: bool) -> None:
        engine = TrappedEngine(blocks, BLOCK, shares=shares, hybrid=hybrid)
        self.stage = OverloadStage(engine, limits=LIMITS, max_num_seqs=slots)
        self.clients: list[Client] = []
        self._room = blocks * BLOCK

    def ask(self, prompt: list[int], tokens: int, **more: object) -> None:
        """One more client, with no more tokens than the cache could hold; perhaps it is turned away."""
        tokens = min(tokens, self._room - len(prompt))
        if tokens < 1:
            return
        try:
            session = self.stage.ask(prompt, max_tokens=tokens, **more)
        except ProblemError as error:
            if error.problem.kind is not ProblemKind.QUEUE_FULL:
                raise
            return
        self.clients.append(Client(session, prompt, tokens))

    def leave(self, number: int) -> None:
        """One of them goes, at whatever its request has come to."""
        client = self.clients[number % len(self.clients)]
        client.has_left = True
        client.session.cancel()

    def work(self, deliver: int, hear: int) -> None:
        """One engine step, with so many commands before and frames after it."""
        self.stage.worker.work(deliver)
        self.stage.hear(hear)

    def go_on(self, steps: int, lag: int) -> None:
        """Some engine steps, the gateway so many frames behind."""
        for _ in range(steps):
            self.stage.turn(lag)

    def check(self) -> None:
        """The engine holds no more than it has."""
        assert self.stage.engine.used <= self._room // BLOCK

    def finish(self) -> None:
        """Nothing new comes: all get to their end, and nothing is left."""
        try:
            self.stage.see_everybody_through()
            for client in self.clients:
                client.check(self.stage)
            self.stage.assert_clean()
        finally:
            self.stage.runner.close()


class Pressure:
    """What came of many crowds."""

    def __init__(self) -> None:
        self.steps = self.answers = self.left = self.preempted = self.given_back = self.shared = 0

    def add(self, crowd: Crowd) -> None:
        """This one has finished."""
        stage = crowd.stage
        self.steps += stage.engine.steps
        self.left += sum(client.has_left for client in crowd.clients)
        self.answers += sum(not client.has_left for client in crowd.clients)
        self.preempted += int(
            sum(
                stage.metric("refloat_preemptions_total", why=why) for why in ("blocks", "fairness")
            )
        )
        self.given_back += stage.given_back
        self.shared += stage.engine.shared


def storm(chance: random.Random, moves: int, *, hybrid: bool) -> Crowd:
    """A crowd that made so many moves at random, and has finished. Most moves ask, so that the line
    is seldom empty."""
    crowd = Crowd(
        chance.randint(6, 16), chance.randint(2, 6), shares=chance.random() < 0.7, hybrid=hybrid
    )
    for _ in range(moves):
        what = chance.random()
        if what < 0.45:
            _ask_at_random(crowd, chance)
        elif what < 0.55 and crowd.clients:
            # late ones more often: those that ended long ago no longer care
            crowd.leave(len(crowd.clients) - 1 - int(chance.expovariate(0.15)))
        elif what < 0.75:
            crowd.work(chance.choice([99, 99, 0, 1, 2]), chance.choice([99, 99, 0, 1]))
        else:
            crowd.go_on(chance.randint(1, 12), chance.choice([0, 0, 1, 2, 6, 12]))
        crowd.check()
    crowd.finish()
    return crowd


def _ask_at_random(crowd: Crowd, chance: random.Random) -> None:
    family = chance.randrange(3)
    is_twin = chance.random() < 0.4  # of others, and at the edge of a block: a trap of its own
    common = chance.choice([BLOCK, 2 * BLOCK, 3 * BLOCK]) if is_twin else chance.randint(1, 12)
    prompt = [(family * 5 + place) % 26 for place in range(common)]
    prompt += [chance.randrange(26) for _ in range(0 if is_twin else chance.randrange(4))]
    crowd.ask(
        prompt,
        chance.randint(1, 24),
        n=chance.choice([1, 2, 3, 4] if is_twin else [1, 1, 1, 2, 3]),
        temperature=chance.choice([0.0, 0.0, 1.0]),
        tenant=chance.choice("abc"),
        priority=chance.choice([0, 0, 0, 1]),
    )
