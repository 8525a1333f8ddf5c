"""The ladder: settings that get safer and slower from rung to rung, and where on it a model stands.

Down by one when a suspect has failed alone; back when it was convicted nevertheless; up by itself, a
rung for each quiet time, when a worker has to be replaced anyway; to the top when an operator resets
the model. Pure: time is passed in.
"""

from collections.abc import Sequence

from msgspec.structs import replace

from refloat.config.ladder import LadderRung, parse_ladder
from refloat.config.schema import ModelConfig
from refloat.models.manifest import Manifest
from refloat.supervisor.slots import USUAL_SEQS
from refloat.supervisor.spec import build_spec
from refloat.wire.messages import EngineSpec

_LEAST_BATCHED_TOKENS = 128
_CONCURRENCY_DIVISOR = 4


def built_in_rungs(config: ModelConfig) -> tuple[LadderRung, ...]:
    """For a model that has no ladder of its own: smaller steps; on a GPU, without the attention kernel
    that hangs some of them; fewer sequences at a time."""
    batched = min(
        config.max_num_batched_tokens,
        max(config.max_num_batched_tokens // 2, _LEAST_BATCHED_TOKENS),
    )
    sdpa = LadderRung(properties={"GPU_ENABLE_SDPA_OPTIMIZATION": False})
    return (
        LadderRung(max_num_batched_tokens=batched),
        *([sdpa] if "GPU" in config.device.upper() else []),
        LadderRung(
            max_num_seqs=max((config.max_num_seqs or USUAL_SEQS) // _CONCURRENCY_DIVISOR, 1)
        ),
    )


def ladder_specs(
    config: ModelConfig, manifest: Manifest, model_path: str
) -> tuple[EngineSpec, ...]:
    """What a worker is told on each rung, full speed first. A rung that would change nothing is left
    out. Raises `LadderError`."""
    specs = [build_spec(config, manifest, model_path)]
    rungs = built_in_rungs(config) if config.ladder is None else parse_ladder(config.ladder)
    for rung in rungs:
        config = _stepped(config, rung)
        spec = replace(build_spec(config, manifest, model_path), rung=len(specs))
        if replace(spec, rung=specs[-1].rung) != specs[-1]:
            specs.append(spec)
    return tuple(specs)


def _stepped(config: ModelConfig, rung: LadderRung) -> ModelConfig:
    """One rung further down."""
    properties = {**config.plugin_config, **rung.properties}
    return replace(
        config,
        plugin_config={name: value for name, value in properties.items() if value is not None},
        max_num_batched_tokens=rung.max_num_batched_tokens or config.max_num_batched_tokens,
        max_num_seqs=rung.max_num_seqs or config.max_num_seqs,
        device=rung.device or config.device,
    )


class Ladder:
    """Where one model stands."""

    def __init__(self, specs: Sequence[EngineSpec], *, quiet_s: float = 600.0) -> None:
        """`specs` as from `ladder_specs`; `quiet_s` without a fault are worth one rung up."""
        self._specs = list(specs)
        self._quiet_s = quiet_s
        self._at = 0
        self._disturbed_s = float("-inf")
        self._took_step = False

    @property
    def spec(self) -> EngineSpec:
        """What the next worker is told."""
        return self._specs[self._at]

    @property
    def rung(self) -> int:
        """0: full speed. A rung keeps its number when others turn out to be of no use."""
        return self.spec.rung

    def go_down(self, now_s: float) -> None:
        """The next worker has to be safer, if there is anything safer."""
        self._disturbed_s = now_s
        self._took_step = self._at + 1 < len(self._specs)
        self._at += self._took_step

    def take_back(self, now_s: float) -> None:
        """The last step down was of no use: whoever it was for has failed nevertheless."""
        self._disturbed_s = now_s
        self._at -= self._took_step
        self._took_step = False

    def rebuilt(self, now_s: float, *, had_progress: bool, is_external: bool) -> None:
        """A worker has to be replaced, and for nobody's sake by a safer one: the time to go up.
        `is_external`: it was no fault, and disturbs no quiet."""
        self._took_step = False
        if self._at and had_progress:
            quiet_times = (now_s - self._disturbed_s) // self._quiet_s
            self._at -= int(min(self._at, quiet_times))
        if not is_external:
            self._disturbed_s = now_s

    def reject(self, now_s: float) -> None:
        """This rung cannot be loaded: the next one down, or the one above if it was the last. The top
        stays."""
        if self._at == 0:
            return
        del self._specs[self._at]
        self._disturbed_s = now_s
        self._took_step = False
        self._at = min(self._at, len(self._specs) - 1)

    def climb_to_top(self) -> None:
        """An operator says so."""
        self._at = 0
        self._took_step = False
