"""Engine messages as people get them, and what they mean."""

import pytest

from refloat.engines.engine_text import clean_message, fault_error, is_out_of_memory, load_error

BUILD = "/home/builder/agent/workspace/build/repos/openvino.genai/src/cpp/src"


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        (
            f"Check 'top_p > 0 && top_p <= 1.0f' failed at {BUILD}/generation_config.cpp:343:\n"
            "When 'do_sample' is true, top_p must be a positive float > 0.0 and <= 1.0, "
            "but got 2\n",
            "When 'do_sample' is true, top_p must be a positive float > 0.0 and <= 1.0, but got 2",
        ),
        (
            "Exception from src/inference/src/cpp/core.cpp:117:\n"
            "Exception from src/inference/src/dev/plugin.cpp:54:\n"
            "Exception from src/plugins/intel_cpu/src/config.cpp:505:\n"
            "NotFound: Unsupported property NO_SUCH by CPU plugin.\n\n\n",
            "NotFound: Unsupported property NO_SUCH by CPU plugin.",
        ),
        (
            "Exception from src/inference/src/cpp/infer_request.cpp:223:\n"
            "[GPU] clFinish, error code: -5 CL_OUT_OF_RESOURCES\n",
            "[GPU] clFinish, error code: -5 CL_OUT_OF_RESOURCES",
        ),
        (
            f"Check 'm_block_table.count(seq_id) > 0' failed at {BUILD}/block_manager.hpp:1:\n\n",
            "Check 'm_block_table.count(seq_id) > 0' failed",
        ),
        (
            f"Exception from {BUILD}/utils.cpp:500:\n"
            "Could not find a model in the directory '\"/models/none\"'\n",
            "Could not find a model in the directory '\"/models/none\"'",
        ),
        (
            'Cannot load library "/srv/venv/lib/openvino/libs/libopenvino_intel_gpu_plugin.so": '
            "libOpenCL.so.1: cannot open shared object file",
            'Cannot load library "libopenvino_intel_gpu_plugin.so": '
            "libOpenCL.so.1: cannot open shared object file",
        ),
        ("plain", "plain"),
        ("", "the engine gave no reason"),
    ],
)
def test_message_loses_build_paths_and_keeps_what_it_says(text: str, clean: str) -> None:
    assert clean_message(text) == clean


@pytest.mark.parametrize(
    "text",
    [
        "std::bad_alloc",
        "Requested cache blocks require more memory than available on the system.",
        "[GPU] out of memory",
        "mmap: Cannot allocate memory",
    ],
)
def test_memory_texts_are_known(text: str) -> None:
    assert is_out_of_memory(text)
    error = load_error(RuntimeError(text))
    assert (error.out_of_memory, error.permanent) == (True, False)


@pytest.mark.parametrize(
    "text",
    [
        "Could not find a model in the directory '\"/x\"'",
        'Device with "FPGA" name is not registered in the OpenVINO Runtime',
        "NotFound: Unsupported property NO_SUCH by CPU plugin.",
        "Wrong value zzz for property key KV_CACHE_PRECISION.",
        "Incorrect weights in bin file!",
    ],
)
def test_load_that_never_works_is_known(text: str) -> None:
    assert load_error(RuntimeError(text)).permanent


def test_load_that_failed_for_an_unknown_reason_may_work_next_time() -> None:
    error = load_error(RuntimeError("[GPU] something went wrong"))
    assert (error.permanent, error.out_of_memory) == (False, False)


def test_load_error_without_words_is_named() -> None:
    assert str(load_error(MemoryError())) == "MemoryError"
    assert load_error(MemoryError()).out_of_memory


def test_lost_context_is_known_in_a_fault() -> None:
    text = "Exception from src/a.cpp:1:\n[GPU] clFinish, error code: -5 CL_OUT_OF_RESOURCES\n"
    assert fault_error(RuntimeError(text)).context_fatal
    assert not fault_error(RuntimeError("Check 'x' failed at a.cpp:1:\n")).context_fatal
