"""The harness's view of a server process, without a server."""

import subprocess
import tempfile

from refloat.testing.harness import Server
from refloat.testing.patience import eventually

LISTENS = """echo '{"event": "listening", "url": "http://127.0.0.1:9"}' >&2; exec sleep 60"""


def test_server_url_outlives_the_log_line_that_told_it() -> None:
    process = subprocess.Popen(
        ["sh", "-c", LISTENS], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    with Server(process, tempfile.TemporaryDirectory(prefix="refloat-")) as server:
        eventually(lambda: server.url, what="the address")
        server.log.clear()
        assert server.url == "http://127.0.0.1:9"
