"""The bare engine loop in a process of its own: add_request / step / read, and nothing else.

    python -m refloat.bench.bare MODEL_FOLDER SPEC_JSON

Reads one JSON command a line on stdin (`{"prompts": [[ids]], "max_tokens": n}`), answers with one JSON
line. This is the yardstick: what the same engine does with the same settings and no server around it.
"""

import json
import os
import sys
import time
from typing import Any


def main() -> None:
    """Build the pipeline, then serve commands until stdin ends."""
    folder, spec_text = sys.argv[1:3]
    spec: dict[str, Any] = json.loads(spec_text)
    pipeline = _build(folder, spec)
    _say({"ready": True, "pid": os.getpid()})
    next_id = 0
    for line in sys.stdin:
        command = json.loads(line)
        _say(_run(pipeline, command["prompts"], command["max_tokens"], next_id))
        next_id += len(command["prompts"])
    os._exit(0)  # OpenVINO's destructors are not run, as in a worker


def _build(folder: str, spec: dict[str, Any]) -> Any:
    import openvino_genai as genai

    scheduler = genai.SchedulerConfig()
    scheduler.cache_size = 0
    scheduler.num_kv_blocks = spec["num_kv_blocks"]
    scheduler.max_num_batched_tokens = spec["max_num_batched_tokens"]
    scheduler.max_num_seqs = spec["max_num_seqs"]
    scheduler.enable_prefix_caching = spec["enable_prefix_caching"]
    scheduler.dynamic_split_fuse = True
    return genai.ContinuousBatchingPipeline(
        folder, scheduler, spec["device"], spec.get("properties", {})
    )


def _run(pipeline: Any, prompts: list[list[int]], max_tokens: int, next_id: int) -> dict[str, Any]:
    import numpy as np
    import openvino as ov
    import openvino_genai as genai

    config = genai.GenerationConfig()
    config.max_new_tokens = max_tokens
    config.do_sample = False
    config.ignore_eos = True
    config.apply_chat_template = False
    started = time.perf_counter()
    handles = [
        pipeline.add_request(next_id + i, ov.Tensor(np.array([p], dtype=np.int64)), config)
        for i, p in enumerate(prompts)
    ]
    tokens = 0
    first_s = 0.0
    while tokens < max_tokens * len(prompts):
        pipeline.step()
        for handle in handles:
            while handle.can_read():
                for output in handle.read().values():
                    tokens += len(output.generated_ids)
        if tokens and not first_s:
            first_s = time.perf_counter() - started
    return {"wall_s": time.perf_counter() - started, "tokens": tokens, "ttft_s": first_s}


def _say(value: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
