"""Reading and changing OpenVINO tokenizer graphs: limits lifted, bytes in and out. No text here.

Three things in the saved graphs do harm: they cut long texts without a word, they add special tokens
that a rendered chat already has, and their string tensors lose NUL characters at the end of a text.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import openvino
import openvino_tokenizers  # noqa: F401 # pyright: ignore[reportUnusedImport] # adds its operations
from openvino import opset13

from refloat.prep.error import PrepError

Infer = Callable[..., list["np.ndarray[Any, np.dtype[Any]]"]]

# The package's stubs contradict themselves here, and graphs are read by names anyway.
_opset: Any = opset13
_model: Any = openvino.Model

#: What openvino_tokenizers itself takes for "no limit".
_NO_LIMIT = 2**31 - 65
_PROPERTIES = {"INFERENCE_NUM_THREADS": 1, "NUM_STREAMS": 1, "PERFORMANCE_HINT": "LATENCY"}

#: The last reference to a core unloads its libraries, under graphs and requests that still use them
#: (measured: SIGSEGV, also on the way out of a failed load). Held until `os._exit`.
_undestroyed: list[Any] = []


class Graphs:
    """Opens and compiles graphs, on one thread of the CPU."""

    def __init__(self) -> None:
        self._core: Any = openvino.Core()
        _undestroyed.append(self._core)

    def read(self, path: Path) -> Any:
        """A graph from its file. Raises `PrepError`."""
        if not path.is_file():
            raise PrepError(f"there is no {path.name}: the model has no tokenizer to work with")
        try:
            return self._core.read_model(str(path))
        except RuntimeError as error:
            raise PrepError(f"{path.name} cannot be read: {_first_line(error)}") from error

    def compile(self, model: Any) -> Infer:
        """A function from input arrays to output arrays. Raises `PrepError`."""
        try:
            return _Inference(self._core.compile_model(model, "CPU", _PROPERTIES))
        except RuntimeError as error:
            raise PrepError(f"the graph cannot be compiled: {_first_line(error)}") from error

    def value(self, output: Any) -> "np.ndarray[Any, np.dtype[Any]]":
        """What a part of a graph that depends on no input comes to."""
        return self.compile(_model([output], [], "constant"))()[0]


class _Inference:
    """One compiled graph as a function."""

    def __init__(self, compiled: Any) -> None:
        self._request = compiled.create_infer_request()
        self._count = len(compiled.outputs)

    def __call__(self, *inputs: Any) -> list[Any]:
        self._request.infer(list(inputs))
        return [self._request.get_output_tensor(n).data.copy() for n in range(self._count)]


def part_of(model: Any, outputs: list[Any]) -> Any:
    """The part of a graph that leads from its inputs to some outputs inside it."""
    return _model(outputs, model.get_parameters(), "part")


def nodes_of(model: Any, kind: str) -> list[Any]:
    """The operations of one type, in order of execution."""
    return [node for node in model.get_ordered_ops() if node.get_type_name() == kind]


def rt_info(model: Any, key: str) -> str | None:
    """One entry of the graph's own notes, as text; `None` if it has none."""
    if not model.has_rt_info([key]):
        return None
    value: Any = model.get_rt_info([key])
    value = getattr(value, "value", value)
    return value if isinstance(value, str) else None


def lift_limits(model: Any) -> int:
    """Make a tokenizer graph count every token. Gives the largest limit it had (0: none).

    Known are `Truncate` (openvino_tokenizers) and `Minimum` with a constant (GGUF conversions).
    """
    limits = [0]
    for node in nodes_of(model, "Truncate"):
        limits += _constants_behind(node.input_value(3))
        _replace_input(node, 3, np.int32(_NO_LIMIT))
    for node in nodes_of(model, "Minimum"):
        for index in range(node.get_input_size()):
            found = _scalar(node.input_value(index))
            if found is not None and found.dtype.kind == "i":
                limits.append(int(found))
                _replace_input(node, index, found.dtype.type(_NO_LIMIT))
    return max(limit for limit in limits if limit < _NO_LIMIT)


def drop_special_tokens(model: Any) -> bool:
    """Make a tokenizer graph add no token of its own. False if it has nothing to switch off."""
    changed = False
    for node in nodes_of(model, "ReadValue"):
        if node.get_attributes().get("variable_id") == "add_special_tokens":
            _replace_input(node, 0, np.array(False))
            changed = True
    for node in nodes_of(model, "CombineSegments"):
        for first in range(0, node.get_input_size() - 1, 3):
            sources = [node.input_value(first + k).get_node() for k in range(3)]
            if all(source.get_type_name() == "Constant" for source in sources):
                _replace_input(node, first + 1, sources[0].get_data().copy())
                changed = True
    return changed


def fed_with_bytes(model: Any) -> Any:
    """The tokenizer graph with (begins, ends, bytes) for its input in place of strings."""
    unpacks = nodes_of(model, "StringTensorUnpack")
    if len(unpacks) != 1 or unpacks[0].get_output_size() != 3:
        raise PrepError(f"the tokenizer takes {len(unpacks)} string inputs; one is expected")
    for variable in nodes_of(model, "ReadValue"):
        # A switch that nobody will turn: its initial value is its value.
        variable.output(0).replace(variable.input_value(0))
    inputs = [_opset.parameter([-1], kind) for kind in (np.int32, np.int32, np.uint8)]
    for output, parameter in zip(unpacks[0].outputs(), inputs, strict=True):
        output.replace(parameter.output(0))
    return _model(model.get_results(), inputs, "tokenizer")


def giving_bytes(model: Any) -> Any:
    """The detokenizer graph with (begins, ends, bytes) for its output in place of strings."""
    packs = nodes_of(model, "StringTensorPack")
    if len(packs) != 1:
        raise PrepError(f"detokenizer not understood: it gives {len(packs)} strings")
    outputs = [packs[0].input_value(index) for index in range(3)]
    return part_of(model, outputs)


def _replace_input(node: Any, index: int, value: Any) -> None:
    node.input(index).replace_source_output(_opset.constant(np.asarray(value)).output(0))


def _scalar(output: Any) -> Any | None:
    node = output.get_node()
    if node.get_type_name() != "Constant":
        return None
    data = np.asarray(node.get_data())
    return data.reshape(-1)[0] if data.size == 1 else None


def _constants_behind(output: Any) -> list[int]:
    """The limit itself, or those a `Select` chooses from."""
    found = _scalar(output)
    if found is not None:
        return [int(found)]
    node = output.get_node()
    if node.get_type_name() != "Select":
        return []
    values = [_scalar(node.input_value(index)) for index in (1, 2)]
    return [int(value) for value in values if value is not None]


def _first_line(error: Exception) -> str:
    """What an engine's error says, without the build paths above it."""
    lines = [line.strip() for line in str(error).splitlines()]
    told = [line for line in lines if line and not line.startswith(("Exception from ", "Check '"))]
    return told[0] if told else type(error).__name__
