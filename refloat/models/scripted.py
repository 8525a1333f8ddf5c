"""The scripted model's manifest: it has no files but its script."""

import hashlib
from pathlib import Path

from refloat.config.schema import ModelConfig
from refloat.models.error import ModelError
from refloat.models.manifest import MANIFEST_VERSION, Manifest
from refloat.scripted.script import ScriptError, script_of
from refloat.scripted.tokens import ScriptedTokenizer

#: Where no option says otherwise. A token is a byte of the prompt, so this is 32 KiB of chat.
DEFAULT_CONTEXT_LENGTH = 32_768


def scripted_manifest(config: ModelConfig) -> Manifest:
    """Describe the scripted model of this configuration. Raises `ModelError` for a bad script."""
    try:
        options = dict(config.engine_options)
        if config.script is not None:
            options["script"] = config.script
        tokenizer = ScriptedTokenizer(script_of(options))
        content = Path(config.script).read_bytes() if config.script else b""
    except (ScriptError, OSError) as error:
        raise ModelError(f"the script cannot be used: {error}") from error
    return Manifest(
        version=MANIFEST_VERSION,
        source="scripted",
        model_hash=hashlib.sha256(b"scripted\0" + content).hexdigest(),
        context_length=config.context_length or DEFAULT_CONTEXT_LENGTH,
        eos_token_ids=tokenizer.eos_ids,
        architecture="scripted",
        weights_bytes=_weights_bytes(options.get("weights_bytes")),
    )


def _weights_bytes(declared: object) -> int:
    """What cannot be meant is for the engine to refuse, which says what is wrong with it."""
    return declared if isinstance(declared, int) and declared > 0 else 0
