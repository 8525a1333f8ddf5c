"""Asking a running server: one request, its whole answer, no proxy in between.

What is asked, and what the answer means, is in `status.py`, `reset.py` and other commands.
"""

import http.client
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Self
from urllib.parse import urlsplit

import msgspec

from refloat.config.keys import read_api_keys

#: Longest wait for an answer that may be asked for.
MAX_TIMEOUT_S = 86_400.0

_MAX_ANSWER_BYTES = 8 * 1024 * 1024


class NoAnswerError(Exception):
    """Nothing there that could be asked; the message says what came instead."""


class ServerRefusedError(NoAnswerError):
    """The server answered with an error; the message is its own where it gave one."""


class _Error(msgspec.Struct):
    message: str


class _ErrorBody(msgspec.Struct):
    error: _Error


@dataclass(frozen=True, slots=True)
class Target:
    """A server, and how to ask it."""

    url: str
    key: str | None
    timeout_s: float

    @classmethod
    def of(cls, url: str, api_key_file: Path | None, *, timeout_s: float) -> Self:
        """From a command's options. Raises `ValueError` (as `KeyFileError` is one) in words."""
        if urlsplit(url).scheme not in ("http", "https"):
            raise ValueError(f"{url} must begin with http:// or https://")
        if not 0 < timeout_s <= MAX_TIMEOUT_S:
            raise ValueError(f"the timeout must be above 0 and at most {MAX_TIMEOUT_S:g} seconds")
        key = read_api_keys(api_key_file)[0] if api_key_file else None
        return cls(url.rstrip("/"), key, timeout_s)


def ask(target: Target, path: str, body: object = None) -> bytes:
    """GET, or POST of a JSON body. Raises `NoAnswerError`, for an answer in the fours and fives
    `ServerRefusedError`."""
    request = _request(target, path, body)
    # A proxy meant for the outside must not be asked for a server of one's own.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=target.timeout_s) as answer:
            return answer.read(_MAX_ANSWER_BYTES)
    except urllib.error.HTTPError as error:
        with error:
            raise ServerRefusedError(_refusal(error)) from error
    except urllib.error.URLError as error:
        raise NoAnswerError(f"no server answers there ({error.reason})") from error
    except (OSError, OverflowError, UnicodeError, http.client.HTTPException) as error:
        raise NoAnswerError(f"no server answers there ({error or type(error).__name__})") from error


def _request(target: Target, path: str, body: object) -> urllib.request.Request:
    headers = {"Authorization": f"Bearer {target.key}"} if target.key else {}
    if body is None:
        return urllib.request.Request(target.url + path, headers=headers)
    headers["Content-Type"] = "application/json"
    data = msgspec.json.encode(body)
    return urllib.request.Request(target.url + path, data, headers, method="POST")


def _refusal(error: urllib.error.HTTPError) -> str:
    hint = "; give its key with --api-key-file" if error.code == 401 else ""
    try:
        said = msgspec.json.decode(error.read(_MAX_ANSWER_BYTES), type=_ErrorBody).error.message
    except (OSError, http.client.HTTPException, msgspec.DecodeError, RecursionError):
        return f"answers with status {error.code}{hint}"
    return f"answers with status {error.code}{hint}: {said}"
