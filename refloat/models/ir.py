"""Whether an OpenVINO IR pair (.xml + .bin) is whole, read as text: OpenVINO itself is not asked.

A truncated .bin makes the engine crash or answer rubbish, so it is found before anything loads it.
"""

import re
from pathlib import Path

from refloat.models.error import IncompleteFolderError

_CONSTANT = re.compile(rb'<data\b[^>]*?\boffset="(\d{1,19})\d*"[^>]*?\bsize="(\d{1,19})\d*"')
_VARIABLE = re.compile(rb'variable_id="([^"]+)"')
_RECURRENT = re.compile(rb"\b(conv|ssm|recurrent|linear)\b")

#: Graphs are text; a larger one is no model we know of and would only fill memory.
MAX_XML_BYTES = 512 * 1024 * 1024


def check_ir(xml: Path) -> bytes:
    """The graph's text, after checking that it is complete and its weights are all there.

    Raises `IncompleteFolderError` naming the file and what is wrong with it.
    """
    weights = xml.with_suffix(".bin")
    try:
        if xml.stat().st_size > MAX_XML_BYTES:
            raise IncompleteFolderError(f"{xml} is too large to be an OpenVINO graph")
        text = xml.read_bytes()
        present = weights.stat().st_size
    except FileNotFoundError as error:
        raise IncompleteFolderError(f"{error.filename} is missing") from error
    except OSError as error:
        raise IncompleteFolderError(f"{error.filename} cannot be read: {error.strerror}") from error
    if not text.lstrip().startswith(b"<") or not text.rstrip().endswith(b"</net>"):
        raise IncompleteFolderError(f"{xml} is no complete OpenVINO graph (truncated?)")
    needed = bytes_needed(text)
    if present < needed:
        raise IncompleteFolderError(
            f"{weights} is truncated: {present} bytes, but its graph needs {needed}"
        )
    return text


def bytes_needed(graph: bytes) -> int:
    """Size the weights file must at least have: the end of the last constant."""
    return max((int(m[1]) + int(m[2]) for m in _CONSTANT.finditer(graph)), default=0)


def has_recurrent_state(graph: bytes) -> bool:
    """Whether the graph keeps state other than attention's keys and values."""
    return any(_RECURRENT.search(match[1]) for match in _VARIABLE.finditer(graph))
