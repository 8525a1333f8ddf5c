"""Every setting, once: name, type, range, default and meaning. YAML, environment and CLI follow it.

`Annotated[..., Meta(description=…)]` is what `--help`, `refloat config show` and the commented example
are generated from, so a setting without a description does not exist.
"""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from refloat.config.parsers import ReasoningParser, ToolParser

#: Bounds of a number that may also be absent: msgspec takes them on the number, not on the union.
AboveZero = Annotated[float, Meta(gt=0)]
PositiveInt = Annotated[int, Meta(ge=1)]
SequenceCount = Annotated[int, Meta(ge=1, le=1024)]
ContextLength = Annotated[int, Meta(ge=2)]


class ModelConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One model: what to load, where, and how much of the machine it may use."""

    model: Annotated[
        str,
        Meta(
            description="smollm2, a folder with OpenVINO IR, a .gguf file, a Hugging Face id, "
            "or scripted"
        ),
    ]
    name: Annotated[
        str | None, Meta(description="Name that clients use; default: from the model itself")
    ] = None
    device: Annotated[str, Meta(description="OpenVINO device: CPU, GPU, GPU.1, NPU, AUTO")] = "CPU"
    plugin_config: Annotated[
        dict[str, Any], Meta(description="OpenVINO properties, as a JSON object")
    ] = {}
    cache_size: Annotated[AboveZero | None, Meta(description="KV cache in GB (2^30 bytes)")] = None
    num_kv_blocks: Annotated[
        PositiveInt | None, Meta(description="KV cache in blocks; wins over cache_size")
    ] = None
    max_num_seqs: Annotated[
        SequenceCount | None,
        Meta(
            description="Sequences that run at a time; default: half as many as the cache has "
            "blocks, at most 256"
        ),
    ] = None
    max_num_batched_tokens: Annotated[
        int, Meta(ge=1, description="Tokens computed in one step; longer prompts are chunked")
    ] = 512
    inter_token_target_ms: Annotated[
        AboveZero | None,
        Meta(
            description="Milliseconds that a step may take for a long prompt's sake while answers run: "
            "measured at load, which takes longer; a step computes at most max_num_batched_tokens, "
            "and the target holds for prompts of up to four times that"
        ),
    ] = None
    enable_prefix_caching: Annotated[
        bool, Meta(description="Keep the KV blocks of finished prompts for reuse")
    ] = True
    cache_dir: Annotated[
        str | None,
        Meta(description="Folder for compiled kernels; on a GPU default: $REFLOAT_HOME/compiled"),
    ] = None
    context_length: Annotated[
        ContextLength | None,
        Meta(description="Tokens of prompt and answer; default: the model's own"),
    ] = None
    max_output_tokens: Annotated[
        PositiveInt | None,
        Meta(description="Cap on an answer whose request sets no max_tokens"),
    ] = None
    chat_template: Annotated[
        str | None, Meta(description="Jinja file to use in place of the model's own template")
    ] = None
    tool_parser: Annotated[
        ToolParser | None,
        Meta(description="How the model writes tool calls; default: as its chat template shows"),
    ] = None
    reasoning_parser: Annotated[
        ReasoningParser | None,
        Meta(description="How the model writes reasoning; default: as its chat template shows"),
    ] = None
    max_queue: Annotated[
        int, Meta(ge=0, description="Generations that may wait; one more is refused with 429")
    ] = 512
    fair_preemption: Annotated[
        bool,
        Meta(
            description="Stop a generation for a while when its tenant has more than its share of the "
            "slots and another tenant waits"
        ),
    ] = True
    request_timeout_s: Annotated[
        AboveZero | None,
        Meta(description="Seconds a request that names no deadline has until its answer is whole"),
    ] = None
    max_generation_s: Annotated[
        AboveZero | None,
        Meta(
            description="Seconds from its first token after which an answer ends, with "
            "finish_reason length"
        ),
    ] = 1800.0
    loop_guard_tokens: Annotated[
        int,
        Meta(
            ge=0,
            description="An answer whose last so many tokens say one phrase over and over ends, with "
            "finish_reason length; 0: never",
        ),
    ] = 0
    script: Annotated[
        str | None, Meta(description="YAML file with the answers of the scripted model")
    ] = None
    engine_options: Annotated[
        dict[str, Any], Meta(description="Options of the scripted engine (see docs/API.md)")
    ] = {}
    ladder: Annotated[
        list[dict[str, Any]] | None,
        Meta(
            description="Safer settings to fall back to, rung by rung: [{properties, "
            "max_num_batched_tokens, max_num_seqs, device}]; default: built in, []: none"
        ),
    ] = None
    ladder_quiet_s: Annotated[
        float, Meta(gt=0, description="Seconds without a fault that are worth one rung up again")
    ] = 600.0
    faults: Annotated[
        list[dict[str, Any]],
        Meta(description="Fault plan, for tests: [{at, kind, times, ...}]"),
    ] = []
    spares: Annotated[
        Literal[0, 1, "primed"],
        Meta(
            description="Workers beside the one that serves: 1: loaded, takes over at once; "
            "primed: libraries imported and weights in the page cache"
        ),
    ] = 0
    worker_memory_bytes: Annotated[
        PositiveInt | None,
        Meta(
            description="Host memory of a worker beyond which it is replaced and its answers go on "
            "with the next"
        ),
    ] = None
    load_timeout_s: Annotated[
        float, Meta(gt=0, description="Seconds a load may take while it makes no progress")
    ] = 600.0
    stall_floor_s: Annotated[
        float, Meta(gt=0, description="Seconds without any progress before a worker is killed")
    ] = 10.0


class ServerConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The gateway and what holds for all models."""

    host: Annotated[str, Meta(description="Address to listen on")] = "127.0.0.1"
    port: Annotated[int, Meta(ge=0, le=65535, description="Port; 0 picks a free one")] = 8000
    api_key_file: Annotated[
        str | None,
        Meta(description="File with one bearer key a line; then every route asks for one"),
    ] = None
    keys: Annotated[
        list[dict[str, Any]],
        Meta(
            description="Keys with rights of their own: [{name, key_file or sha256, priority, "
            "weight, finish_orphans, max_requests, admin}]"
        ),
    ] = []
    finish_orphans: Annotated[
        int,
        Meta(
            ge=0,
            description="Answers of one tenant that go on to their end without their client, where "
            "requests say on_disconnect: finish; 0: none may",
        ),
    ] = 0
    allow_open: Annotated[
        bool, Meta(description="Listen beyond loopback although no key is set")
    ] = False
    cors_origins: Annotated[
        list[str], Meta(description="Origins that browsers may call from; default none")
    ] = []
    log_level: Annotated[
        Literal["debug", "info", "warning", "error"], Meta(description="Least level that is logged")
    ] = "info"
    log_format: Annotated[
        Literal["auto", "text", "json"],
        Meta(description="How logs look on stderr; auto: text on a terminal, else JSON lines"),
    ] = "auto"
    log_prompts: Annotated[bool, Meta(description="Write prompt texts to the log")] = False
    max_body_bytes: Annotated[int, Meta(ge=1024, description="Largest request body")] = (
        32 * 1024 * 1024
    )
    memory_budget_bytes: Annotated[
        int, Meta(ge=1024 * 1024, description="Bodies, journals and buffers held at a time")
    ] = 512 * 1024 * 1024
    memory_reserve_bytes: Annotated[
        int,
        Meta(
            ge=0,
            description="Memory of the machine or control group that stays free: below it new bodies "
            "are refused and the worker that has grown most is replaced; 0: none",
        ),
    ] = 256 * 1024 * 1024
    gateway_memory_bytes: Annotated[
        PositiveInt | None,
        Meta(description="Memory of the gateway itself beyond which new bodies are refused"),
    ] = None
    drain_timeout_s: Annotated[
        float, Meta(ge=0, description="Seconds running answers get after SIGTERM")
    ] = 30.0
    hold_timeout_s: Annotated[
        float, Meta(ge=0, description="Seconds a request waits for a loading or recovering model")
    ] = 30.0
    slow_reader_timeout_s: Annotated[
        float, Meta(gt=0, description="Seconds a client may take nothing of what is sent to it")
    ] = 60.0
    stream_buffer_bytes: Annotated[
        int, Meta(ge=64 * 1024, description="How far behind a client that reads slowly may be")
    ] = 1024 * 1024
    reconnect_window_s: Annotated[
        float,
        Meta(
            ge=0,
            description="Seconds a stream goes on without its client, which may come back with "
            "GET /v1/streams/ID; 0: it is stopped, and its events carry no ids",
        ),
    ] = 0.0
    retry_window_s: Annotated[
        float,
        Meta(
            ge=0,
            description="Seconds an answer goes on of which an SDK has seen nothing when it left: it "
            "tries again by itself and gets this one",
        ),
    ] = 2.0
    replay_window_s: Annotated[
        float,
        Meta(
            ge=0,
            description="Seconds a complete answer is kept for who comes back by stream id or "
            "Idempotency-Key",
        ),
    ] = 60.0
    replay_budget_bytes: Annotated[
        int, Meta(ge=64 * 1024, description="Bytes of complete answers that are kept so")
    ] = 64 * 1024 * 1024
    responses_bytes: Annotated[
        int,
        Meta(
            ge=0,
            description="Bytes of /v1/responses that are kept on disk for previous_response_id, the "
            "least used going first; 0: none is kept",
        ),
    ] = 256 * 1024 * 1024
    responses_retention_s: Annotated[
        float, Meta(gt=0, description="Seconds a response is kept at most")
    ] = 30 * 86_400.0
    header_delay_s: Annotated[
        float,
        Meta(ge=0, description="Seconds a stream's status line is withheld for its first token"),
    ] = 10.0
    metrics: Annotated[bool, Meta(description="Serve /metrics")] = True
    max_incidents: Annotated[
        int, Meta(ge=1, description="Incidents that are kept; the oldest go first")
    ] = 100
    max_incident_bytes: Annotated[
        int, Meta(ge=1024 * 1024, description="Bytes of incidents that are kept, in all")
    ] = 2**30
    kernel_log: Annotated[
        str, Meta(description="Where the kernel log can be read: a device, or a text file")
    ] = "/dev/kmsg"
    ready_when: Annotated[
        Literal["any", "all"],
        Meta(description="any: ready with one servable model; all: only with every model"),
    ] = "any"


class Config(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The whole configuration, as in the YAML file."""

    models: Annotated[list[ModelConfig], Meta(description="Models to serve")] = []
    server: ServerConfig = ServerConfig()
