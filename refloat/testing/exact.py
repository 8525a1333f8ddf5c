"""The exact profile, for tests and drills."""

from typing import Any

#: OpenVINO properties under which prefill and decode round alike, so that a greedy text does not depend
#: on where it was cut (docs/RESUME.md).
EXACT_PROPERTIES: dict[str, Any] = {
    "KV_CACHE_PRECISION": "f32",
    "INFERENCE_PRECISION_HINT": "f32",
    "DYNAMIC_QUANTIZATION_GROUP_SIZE": "0",
}
