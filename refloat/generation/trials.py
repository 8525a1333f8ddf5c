"""Where suspects run alone: one replica is kept free for them, and one of them is there at a time.

Meanwhile nobody else is sent to that replica. Sends nothing itself.
"""

from collections.abc import Mapping

from refloat.generation.account import ReplicaAccount
from refloat.generation.choice import Choice
from refloat.generation.queue import WaitingLine
from refloat.generation.suspects import Suspects


class Trials:
    """Closes a replica to others as long as somebody has to run alone."""

    def __init__(
        self, suspects: Suspects, line: WaitingLine, accounts: Mapping[int, ReplicaAccount]
    ) -> None:
        """All three belong to the custody and are only read here."""
        self._suspects = suspects
        self._line = line
        self._accounts = accounts
        self._kept: int | None = None

    def open_accounts(self) -> list[ReplicaAccount]:
        """The replicas that may be sent those who need not be alone."""
        usable = self._usable()
        closed = self._under_way() or self._keep(usable)
        return [account for account in usable if account is not closed]

    def next(self) -> tuple[Choice, ReplicaAccount] | None:
        """Who is to be sent now, and where; `None`: nobody, or not yet."""
        if not self._suspects or self._under_way() is not None:
            return None
        account = self._keep(self._usable())
        if account is None or account.held:
            return None
        for generation in self._suspects.alone:
            choice = self._line.find(generation)
            if choice is not None and not choice.journal.needs_rest:
                return choice, account
        return None

    def _usable(self) -> list[ReplicaAccount]:
        return [account for account in self._accounts.values() if not account.is_suspect]

    def _under_way(self) -> ReplicaAccount | None:
        """The replica on which somebody runs alone, whatever state it is in."""
        if not self._suspects:
            return None
        for account in self._accounts.values():
            for choice in account.owners():
                if self._suspects.must_be_alone(choice.journal.generation):
                    return account
        return None

    def _keep(self, usable: list[ReplicaAccount]) -> ReplicaAccount | None:
        """The replica that is kept: an empty one; else the one that was nearest to that when it was
        chosen, which empties by itself."""
        if not self._suspects or not self._suspects.alone or not usable:
            self._kept = None
            return None
        by_id = {account.replica.worker_id: account for account in usable}
        nearest = min(by_id, key=lambda worker_id: (by_id[worker_id].held, worker_id))
        if self._kept not in by_id or not by_id[nearest].held:
            self._kept = nearest
        return by_id[self._kept]
