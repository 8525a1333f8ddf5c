"""The gateway, put together: the only place that builds objects and wires them to each other."""

import asyncio
import gc
import signal
import socket
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import uvloop

from refloat import __version__
from refloat.api.asgi import build_asgi
from refloat.api.connection_limit import raise_descriptor_limit
from refloat.api.context import ApiContext
from refloat.api.responses.store import response_store_for
from refloat.api.server import build_server
from refloat.config.key_rights import read_key_rights
from refloat.config.keys import read_api_keys
from refloat.config.names import model_name
from refloat.config.schema import Config, ModelConfig
from refloat.generation.budget import ByteBudget
from refloat.generation.charges import Charges
from refloat.generation.dispatch import Dispatch
from refloat.generation.intake import Intake
from refloat.generation.limits import Limits, limits_for
from refloat.generation.listener import LoggingListener
from refloat.generation.service import Generations
from refloat.generation.streams import streams_for
from refloat.generation.vocabulary_source import VocabularyOf
from refloat.models.resolve import ResolvedModel
from refloat.observe.log import configure_logging, get_logger
from refloat.observe.metrics import Metrics
from refloat.supervisor.control import Control, DrainOrder
from refloat.supervisor.failed_model import publish_failed
from refloat.supervisor.fleet import Availability, Fleet
from refloat.supervisor.host_share import HostShare
from refloat.supervisor.incident_sources import sources_for
from refloat.supervisor.memory_watch import memory_watch_for
from refloat.supervisor.supervisor import ModelSupervisor

_log = get_logger(__name__)

#: Exit codes; `cli/exit_codes.py` names them for people.
_OK, _INTERNAL, _NO_MODEL = 0, 1, 3

#: Seconds children get to leave once nothing runs in them any more.
_CHILDREN_LEAVE_S = 5.0
#: Seconds open connections get to take their last bytes once draining is over.
_HTTP_GRACE_S = 5


@dataclass(frozen=True, slots=True)
class _Model:
    """What runs one model."""

    dispatch: Dispatch
    supervisor: ModelSupervisor
    intake: Intake


def serve(
    config: Config,
    resolved: Sequence[ResolvedModel],
    failed: Sequence[tuple[ModelConfig, str]],
    listener: socket.socket,
) -> int:
    """Serve until SIGTERM or SIGINT; the process's exit code.

    `failed` are models whose files could not be had, with the reason: they are listed as FAILED.
    0 after a drain, 3 if no model could be loaded at all, 1 if the gateway itself broke.
    """
    configure_logging(config.server.log_level, config.server.log_format)
    raise_descriptor_limit()
    return uvloop.run(Gateway(config, resolved, failed).run(listener))


class Gateway:
    """All models, the HTTP server, and the tasks that must not end before the process does."""

    def __init__(
        self,
        config: Config,
        resolved: Sequence[ResolvedModel],
        failed: Sequence[tuple[ModelConfig, str]],
    ) -> None:
        self._server = config.server
        self._fleet = Fleet()
        self._metrics = Metrics()
        limits = Limits()
        self._charges = Charges(limits.max_convictions, limits.conviction_window_s)
        self._incidents = sources_for(config.server)
        self._budget = ByteBudget(config.server.memory_budget_bytes, self._metrics.held_bytes)
        self._streams = streams_for(config.server, self._budget, self._metrics.orphans)
        created = int(datetime.now(UTC).timestamp())
        for model, reason in failed:
            name = model_name(model)
            publish_failed(self._fleet, name=name, created=created, reason=reason)
            _log.error("model_failed", model=name, reason=reason)
        self._host = HostShare()
        self._models = {model.name: self._build_model(model, created) for model in resolved}
        self._memory = memory_watch_for(
            config.server,
            {model.name: model.config for model in resolved},
            {name: model.supervisor for name, model in self._models.items()},
            self._fleet,
            self._budget.refuse,
            self._metrics.worker_memory_bytes,
        )
        self._generations = Generations(
            {name: model.intake for name, model in self._models.items()},
            self._fleet,
            self._streams,
        )
        self._orders: asyncio.Queue[DrainOrder] = asyncio.Queue()
        self._is_draining = False
        self._tasks: dict[asyncio.Task[Any], str] = {}

    async def run(self, listener: socket.socket) -> int:
        """Everything, until a signal or the end of something essential."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._orders.put_nowait, DrainOrder(number.name))
        self._incidents.kernel.start()
        http = build_server(
            self._build_api(),
            self._metrics,
            shutdown_grace_s=_HTTP_GRACE_S,
            slow_reader_timeout_s=self._server.slow_reader_timeout_s,
        )
        for name, model in self._models.items():
            self._start(model.supervisor.run(), f"{name}-supervisor")
            self._start(model.dispatch.run(), f"{name}-dispatch")
        self._start(self._streams.run(), "streams")
        self._start(self._memory.run(), "memory-watch")
        serving = self._start(http.serve(sockets=[listener]), "http")
        self._announce(listener)
        gc.freeze()  # what stands now lives as long as the process: collections need not look at it
        try:
            code = await self._wait_for_the_end()
            http.should_exit = True
            if code == _OK:
                await asyncio.wait([serving], timeout=_HTTP_GRACE_S + 5.0)
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            self._incidents.kernel.close()
        return code

    async def _wait_for_the_end(self) -> int:
        asked = asyncio.ensure_future(self._orders.get())
        hopeless = asyncio.ensure_future(self._nothing_loads())
        waiting = {asked, hopeless, *self._tasks}
        try:
            while True:
                done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                broken = [task for task in done if task in self._tasks]
                if broken:
                    self._report_broken(broken)
                    await self._stop_children(0.0)
                    return _INTERNAL
                if hopeless in done and hopeless.result():
                    await self._stop_children(_CHILDREN_LEAVE_S)
                    return _NO_MODEL
                if asked in done:
                    await self._drain(asked.result())
                    return _OK
        finally:
            for future in (asked, hopeless):
                future.cancel()

    async def _nothing_loads(self) -> bool:
        """Whether every model's first outcome was a failure, once all have one."""
        supervisors = [model.supervisor for model in self._models.values()]
        outcomes = [await supervisor.wait_first_outcome() for supervisor in supervisors]
        if any(outcome.availability is not Availability.FAILED for outcome in outcomes):
            return False
        for outcome in outcomes:
            _log.critical("no_model_loadable", model=outcome.name, reason=outcome.reason)
        return True

    def _ask_to_drain(self, order: DrainOrder) -> None:
        if not self._is_draining:
            self._is_draining = True
            self._orders.put_nowait(order)

    async def _drain(self, order: DrainOrder) -> None:
        """Finish what runs, within the deadline; a second signal ends the patience. One that follows
        an operator's order says no more than that did."""
        self._is_draining = True
        given_s = order.deadline_s
        deadline_s = self._server.drain_timeout_s if given_s is None else given_s
        _log.info("draining", by=order.by, deadline_s=deadline_s)
        for model in self._models.values():
            model.supervisor.announce_draining()
        drain = asyncio.ensure_future(self._generations.drain(deadline_s))
        again = asyncio.ensure_future(self._impatience(order))
        await asyncio.wait({drain, again}, return_when=asyncio.FIRST_COMPLETED)
        again.cancel()
        if not drain.done():
            drain.cancel()
            await asyncio.wait({drain})
            await self._generations.drain(0.0)
        complete = not drain.cancelled() and drain.result()
        _log.info("drained", complete=complete)
        await self._stop_children(_CHILDREN_LEAVE_S)

    async def _impatience(self, order: DrainOrder) -> None:
        if order.by not in signal.Signals.__members__:
            await self._orders.get()
        await self._orders.get()

    async def _stop_children(self, deadline_s: float) -> None:
        stops = [model.supervisor.stop(deadline_s) for model in self._models.values()]
        results = await asyncio.gather(*stops, return_exceptions=True)
        for error in results:
            if isinstance(error, BaseException):
                _log.error("stop_failed", error=repr(error))

    def _start(self, work: Coroutine[Any, Any, Any], name: str) -> asyncio.Task[Any]:
        """An essential task: its end, for whatever reason, ends the process."""
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._tasks[task] = name
        return task

    def _report_broken(self, tasks: Sequence[asyncio.Task[Any]]) -> None:
        for task in tasks:
            error = None if task.cancelled() else task.exception()
            _log.critical("essential_task_ended", task=self._tasks[task], exc_info=error)

    def _build_model(self, resolved: ResolvedModel, created: int) -> _Model:
        config, name = resolved.config, resolved.name
        limits = limits_for(config, self._server)
        dispatch = Dispatch(name, self._fleet, limits, self._metrics, charges=self._charges)
        listener = LoggingListener(dispatch)
        supervisor = ModelSupervisor(
            name=name,
            created=created,
            config=config,
            manifest=resolved.manifest,
            model_path=str(resolved.path) if resolved.path else "",
            listener=listener,
            fleet=self._fleet,
            metrics=self._metrics,
            incidents=self._incidents,
            host=self._host,
        )
        dispatch.tell_incidents(supervisor)
        vocabulary = listener.on_ready = VocabularyOf(name, lambda: supervisor.prep.ready_info)
        intake = Intake(
            dispatch, supervisor.prep, vocabulary, self._budget, self._server.stream_buffer_bytes
        )
        return _Model(dispatch, supervisor, intake)

    def _build_api(self) -> Any:
        keys = self._server.api_key_file
        return build_asgi(
            ApiContext(
                generations=self._generations,
                fleet=self._fleet,
                metrics=self._metrics,
                budget=self._budget,
                settings=self._server,
                keys=frozenset(read_api_keys(keys)) if keys else frozenset(),
                rights=read_key_rights(self._server.keys),
                streams=self._streams,
                responses=response_store_for(self._server),
                version=__version__,
                incidents=self._incidents.store,
                control=Control(
                    {name: m.supervisor for name, m in self._models.items()}, self._ask_to_drain
                ),
            )
        )

    def _announce(self, listener: socket.socket) -> None:
        host, port = listener.getsockname()[:2]
        shown = f"[{host}]" if ":" in host else host
        models = [snapshot.name for snapshot in self._fleet.models()] or list(self._models)
        _log.info("listening", url=f"http://{shown}:{port}", models=models, version=__version__)
