"""A server that stops leaves its port free for the next one."""

import socket
from collections.abc import Callable
from contextlib import ExitStack

import pytest

from refloat.testing.harness import Server, ServerEndedError
from refloat.testing.patience import eventually

pytestmark = pytest.mark.process

StartServer = Callable[..., Server]


def free_port() -> int:
    """A port that nobody has at the moment."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return probe.getsockname()[1]


def restart(start_server: StartServer, times: int) -> None:
    """SIGTERM, and at once the next server on the same port; every other time with a stream open."""
    arguments = ["scripted", "--port", str(free_port()), "--drain-timeout-s", "0.2"]
    for number in range(times):
        with start_server(arguments=arguments) as server, ExitStack() as stack:
            client = server.client()
            assert client.chat("Hi").status == 200
            if number % 2:
                stream = stack.enter_context(client.chat_stream("Count from 1 to 100000"))
                next(stream.data())
            assert server.terminate() == 0


@pytest.mark.case(123)
def test_next_server_gets_the_port_at_once(start_server: StartServer) -> None:
    restart(start_server, 2)


@pytest.mark.soak
@pytest.mark.case(123)
def test_next_server_gets_the_port_at_once_many_times(start_server: StartServer) -> None:
    restart(start_server, 10)


@pytest.mark.case(123)
def test_port_in_use_is_told_and_its_owner_undisturbed(
    start_server: StartServer, scripted: Server
) -> None:
    port = scripted.url.rpartition(":")[2]
    with pytest.raises(ServerEndedError, match="exit code 4") as caught:
        start_server(arguments=["scripted", "--port", port])
    assert f"{port}" in str(caught.value)
    eventually(lambda: scripted.client().get("/v2/health/ready").status == 200, what="the owner")
