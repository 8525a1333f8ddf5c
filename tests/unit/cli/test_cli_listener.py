"""The listening socket."""

import contextlib
import socket

import pytest

from refloat.cli.listener import BindError, open_listener


def test_listener_port_zero_is_a_free_one_that_takes_connections() -> None:
    with open_listener("127.0.0.1", 0) as listener:
        port = listener.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port), timeout=10):
            pass


def test_listener_port_in_use_is_refused() -> None:
    with open_listener("127.0.0.1", 0) as first:
        port = first.getsockname()[1]
        with pytest.raises(BindError, match=f"port {port}: it is in use"):
            open_listener("127.0.0.1", port)
    with open_listener("127.0.0.1", port):
        pass


def test_listener_after_open_connections_of_the_last_one_binds_again() -> None:
    with contextlib.ExitStack() as stack:
        first = open_listener("127.0.0.1", 0)
        port = first.getsockname()[1]
        stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=10))
        first.setblocking(True)
        accepted, _ = first.accept()
        accepted.close()  # the server's end closes first: TIME_WAIT is on this side
        first.close()
        stack.enter_context(open_listener("127.0.0.1", port))


def test_listener_localhost_is_ipv4() -> None:
    with open_listener("localhost", 0) as listener:
        assert listener.family == socket.AF_INET


@pytest.mark.parametrize(
    ("host", "reason"),
    [
        ("192.0.2.1", "no address of this machine"),
        ("no-such-host.invalid", "cannot be resolved"),
        ("x" * 300, "cannot be resolved"),
    ],
)
def test_listener_unusable_host_says_why(host: str, reason: str) -> None:
    with pytest.raises(BindError, match=reason):
        open_listener(host, 0)
