"""What follows a loss: another try, the breaker, or the end."""

from refloat.supervisor.backoff import CrashBudget
from refloat.supervisor.history import Loss, SlotHistory
from refloat.supervisor.lifecycle import WorkerEvent, WorkerState


def history(limit: int = 5) -> SlotHistory:
    return SlotHistory(CrashBudget(limit, 60.0), 0.0)


def test_fifty_losses_with_progress_between_them_never_open_the_breaker() -> None:
    past = history()
    for _ in range(50):
        assert past.after(Loss(had_progress=True)) is WorkerEvent.RETRY
        assert past.series == 1


def test_five_losses_without_progress_open_it_and_one_more_does_so_again() -> None:
    past = history()
    events = [past.after(Loss(had_progress=False)) for _ in range(6)]
    assert events == [WorkerEvent.RETRY] * 4 + [WorkerEvent.BREAK] * 2
    assert past.after(Loss(had_progress=True)) is WorkerEvent.RETRY, "half-open, and it served"


def test_losses_that_are_not_charged_leave_the_breaker_closed() -> None:
    past = history(limit=2)
    for _ in range(10):
        assert past.after(Loss(had_progress=False, is_charged=False)) is WorkerEvent.RETRY
    assert past.series == 0


def test_hopeless_loss_is_the_end_at_once() -> None:
    assert history().after(Loss(True, is_hopeless=True)) is WorkerEvent.GIVE_UP


def test_losses_far_apart_in_service_do_not_add_up() -> None:
    past, now_s = history(limit=2), 0.0
    for _ in range(10):
        past.moved(WorkerState.PROBING, WorkerState.READY, now_s)
        now_s += 61.0
        past.moved(WorkerState.READY, WorkerState.EXITED, now_s)
        assert past.after(Loss(had_progress=False)) is WorkerEvent.RETRY
