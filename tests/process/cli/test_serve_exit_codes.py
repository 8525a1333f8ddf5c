"""`refloat serve` as a process: every way not to serve is one clear line and its exit code."""

import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from refloat.testing.harness import Server
from refloat.testing.patience import eventually

pytestmark = pytest.mark.process

DATA = Path(__file__).parents[2] / "data"
LIMIT_S = 50


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    """An environment with an empty `$REFLOAT_HOME`."""
    return {**os.environ, "REFLOAT_HOME": str(tmp_path / "home"), "NO_COLOR": "1"}


def _refloat(env: Mapping[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "refloat.cli.main", *arguments],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, env=env, timeout=LIMIT_S,
        check=False,
    )  # fmt: skip


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


def test_serve_port_in_use_is_exit_4_and_one_line_before_any_long_step(
    env: dict[str, str],
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        # smollm2 would have to be fetched: it is not even begun
        ended = _refloat(env, "serve", "smollm2", "--port", port)
    assert ended.returncode == 4
    assert ended.stderr.splitlines() == [
        f"refloat: cannot listen on 127.0.0.1 port {port}: it is in use; is another server "
        "running? (--port chooses another)"
    ]
    assert ended.stdout == ""
    assert not Path(env["REFLOAT_HOME"]).exists()


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        ("/nope/model", "there is no file or folder /nope/model"),
        ("smolm2", "did you mean smollm2?"),
    ],
)
def test_serve_missing_model_is_exit_3_and_one_line(
    env: dict[str, str], model: str, reason: str
) -> None:
    ended = _refloat(env, "serve", model, "--port", "0")
    assert ended.returncode == 3
    assert reason in ended.stderr
    assert ended.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        ("openvino_tokenizer.xml", "has no tokenizer"),
        ("openvino_model.bin", "openvino_model.bin is missing"),
        ("config.json", "give it with --context-length"),
    ],
)
def test_serve_incomplete_model_is_exit_3_with_the_reason(
    env: dict[str, str], tmp_path: Path, spoil: str, reason: str
) -> None:
    folder = Path(shutil.copytree(DATA / "tiny-llm", tmp_path / "tiny"))
    (folder / spoil).unlink()
    ended = _refloat(env, "serve", str(folder), "--port", "0")
    assert ended.returncode == 3
    assert ended.stderr.startswith("refloat: model tiny: ")
    assert reason in ended.stderr
    assert ended.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("server: {prot: 1}\n", ":1: server.prot is no setting; did you mean port?"),
        ("server: {port: high}\n", "must be a whole number from 0 to 65535, not 'high'"),
        ("models: [{model: scripted}, {model: scripted}]\n", "2 models are called 'scripted'"),
        ("server: {host: 0.0.0.0}\n", "no key is set"),
        ("server: {api_key_file: nope}\n", "nope cannot be read: No such file or directory"),
        ("server: [\n", "not valid YAML"),
    ],
)
def test_serve_wrong_configuration_is_exit_2_and_one_line(
    env: dict[str, str], tmp_path: Path, text: str, reason: str
) -> None:
    file = tmp_path / "refloat.yaml"
    file.write_text(text)
    ended = _refloat(env, "serve", "--config", str(file))
    assert ended.returncode == 2
    assert reason in ended.stderr
    assert ended.stderr.count("\n") == 1


def test_serve_model_beside_config_and_unknown_variable_are_exit_2(
    env: dict[str, str], tmp_path: Path
) -> None:
    file = tmp_path / "refloat.yaml"
    file.write_text("{}\n")
    ended = _refloat(env, "serve", "scripted", "--config", str(file))
    assert (ended.returncode, "exclude each other" in ended.stderr) == (2, True)
    ended = _refloat({**env, "REFLOAT_PROT": "1"}, "serve", "scripted")
    assert ended.returncode == 2
    assert "did you mean REFLOAT_PORT?" in ended.stderr


def test_serve_one_bad_model_leaves_the_good_one_served(tmp_path: Path) -> None:
    models = [{"model": "scripted"}, {"model": "/nope/model", "name": "broken"}]
    with Server.start(config={"models": models}, env={"REFLOAT_HOME": str(tmp_path)}) as server:
        client = server.client()
        assert client.get("/v2/models/scripted/ready").status == 200
        states = {m["name"]: m for m in client.get("/health").json()["models"]}
        assert states["broken"]["state"] == "failed"
        assert "there is no file or folder model" in states["broken"]["reason"]
        ended = _refloat(dict(os.environ), "status", "--url", server.url)
        assert ended.returncode == 0
        assert "broken: there is no file or folder model" in ended.stdout.replace("\n", " ")
        assert server.terminate() == 0


def test_serve_same_port_again_right_after_sigterm(tmp_path: Path) -> None:
    port = _free_port()
    home = {"REFLOAT_HOME": str(tmp_path), "REFLOAT_MAX_NUM_SEQS": "2"}
    for _ in range(2):
        # the harness asks for port 0; the last one given wins
        with Server.start(["scripted", "--port", str(port)], env=home) as server:
            assert server.url == f"http://127.0.0.1:{port}"
            assert server.terminate() == 0


def test_serve_sigterm_while_fetching_ends_helpers_and_is_exit_0(
    env: dict[str, str], tmp_path: Path
) -> None:
    """pip is made to wait for ever: its index is a socket that accepts and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/"
        env |= {"PIP_INDEX_URL": url, "PIP_CONFIG_FILE": os.devnull, "PIP_NO_INDEX": "0"}
        env = {k: v for k, v in env.items() if k not in ("PIP_FIND_LINKS", "PIP_EXTRA_INDEX_URL")}
        process = subprocess.Popen(
            [sys.executable, "-m", "refloat.cli.main", "serve", "smollm2", "--port", "0"],
            stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, env=env,
        )  # fmt: skip
        assert process.stderr is not None
        try:
            silent.settimeout(LIMIT_S)
            connection, _ = silent.accept()
            process.send_signal(signal.SIGTERM)
            assert process.wait(timeout=LIMIT_S) == 0
            with connection:
                connection.settimeout(LIMIT_S)
                while connection.recv(4096):  # ends when pip is gone too
                    pass
        finally:
            process.kill()
            process.stderr.close()
    downloads = tmp_path / "home" / "v1" / "models" / "downloads" / "smollm2"
    assert list(downloads.iterdir()) == []


def test_models_pull_by_two_processes_at_once_converts_once(
    env: dict[str, str], tmp_path: Path
) -> None:
    """The conversion is a stand-in that copies a tiny model once a second process waits for it."""
    modules = tmp_path / "modules"
    modules.mkdir()
    gate = tmp_path / "go"
    (modules / "sitecustomize.py").write_text(
        "import sys\n"
        "if sys.argv[0] != '-c' and 'refloat.worker.convert' in sys.orig_argv:\n"
        "    import os, shutil, json\n"
        "    from pathlib import Path\n"
        "    source, target = map(Path, sys.orig_argv[-2:])\n"
        f"    os.open({str(gate)!r}, os.O_RDONLY)\n"  # a named pipe: waits for its writer
        f"    shutil.copytree({str(DATA / 'tiny-llm')!r}, target)\n"
        "    with open(source.parent / 'conversions', 'a') as log: log.write('x')\n"
        "    os._exit(0)\n"
    )
    os.mkfifo(gate)
    gguf = tmp_path / "model.gguf"
    gguf.write_bytes(_gguf_header())
    env |= {"PYTHONPATH": str(modules)}
    command = [sys.executable, "-m", "refloat.cli.main", "models", "pull", str(gguf)]
    errors = [tmp_path / "err0", tmp_path / "err1"]
    both: list[subprocess.Popen[bytes]] = []
    for path in errors:
        with path.open("wb") as stderr:
            both.append(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stderr, env=env))
    try:
        eventually(
            lambda: any("another process is at it" in path.read_text() for path in errors),
            what="one to wait for the other",
            deadline_s=LIMIT_S,
        )
        os.close(os.open(gate, os.O_WRONLY))
        said = [process.communicate(timeout=LIMIT_S)[0] for process in both]
    finally:
        for process in both:
            process.kill()
            process.wait()
    assert [process.returncode for process in both] == [0, 0]
    assert said[0] == said[1] != b""
    assert (gguf.parent / "conversions").read_text() == "x"


def _gguf_header() -> bytes:
    key, value = b"general.architecture", b"llama"
    entry = len(key).to_bytes(8, "little") + key + (8).to_bytes(4, "little")
    entry += len(value).to_bytes(8, "little") + value
    counts = (0).to_bytes(8, "little") + (1).to_bytes(8, "little")
    return b"GGUF" + (3).to_bytes(4, "little") + counts + entry


def test_version_imports_nothing_heavy(env: dict[str, str]) -> None:
    script = (
        "import sys; from refloat.cli.main import main; main(['--version'])\n"
        "print(sorted(m for m in sys.modules if m in ('typer', 'rich', 'msgspec', 'asyncio')))"
    )
    ended = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, env=env, timeout=LIMIT_S,
        check=True,
    )  # fmt: skip
    assert ended.stdout.splitlines()[1] == "[]"


def test_serve_imports_no_openvino(env: dict[str, str]) -> None:
    script = (
        "import sys, refloat.cli.application, refloat.cli.serve, refloat.cli.models\n"
        "import refloat.cli.config, refloat.cli.status, refloat.models.resolve\n"
        "assert not [m for m in sys.modules if m.startswith(('openvino', 'huggingface_hub'))]"
    )
    ended = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, env=env, timeout=LIMIT_S,
        check=False,
    )  # fmt: skip
    assert (ended.returncode, ended.stderr) == (0, "")
