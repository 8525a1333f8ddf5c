"""The listening socket, made before any long step: a port in use is known at once."""

import errno
import socket
import sys

#: Connections that wait to be taken; the kernel caps it at its own limit.
BACKLOG = 2048

#: Bytes of a connection that the kernel takes before they can be sent. As much as it likes would be
#: megabytes for each client that does not read.
_UNSENT_BYTES = 128 * 1024
_TCP_NOTSENT_LOWAT = 25  # Linux; `socket` has no name for it

_REASONS = {
    errno.EADDRINUSE: "it is in use; is another server running? (--port chooses another)",
    errno.EADDRNOTAVAIL: "that is no address of this machine",
    errno.EACCES: "ports below 1024 need privileges",
}


class BindError(Exception):
    """This address cannot be listened on; the message is one sentence."""


def open_listener(host: str, port: int) -> socket.socket:
    """A socket that listens on `host`:`port` (0: a free one). Raises `BindError`.

    It listens from now on, not only holds the address: of two that are merely bound both would
    succeed. Who connects early waits in the backlog until the gateway stands.
    """
    name = host.strip("[]")
    try:
        found = socket.getaddrinfo(
            name or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
    except (OSError, UnicodeError) as error:
        raise BindError(f"cannot listen on {host}: the name cannot be resolved") from error
    # localhost means 127.0.0.1 to most clients, whatever the resolver lists first
    found.sort(key=lambda entry: entry[0] != socket.AF_INET)
    family, kind, protocol, _, address = found[0]
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, name != "::")
        if sys.platform == "linux":
            listener.setsockopt(socket.IPPROTO_TCP, _TCP_NOTSENT_LOWAT, _UNSENT_BYTES)
        listener.bind(address)
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        reason = _REASONS.get(error.errno or 0, error.strerror)
        raise BindError(f"cannot listen on {host} port {port}: {reason}") from error
    listener.setblocking(False)
    return listener
