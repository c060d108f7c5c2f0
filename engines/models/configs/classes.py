"""From a config.json to the config of a transformers class, and what is said where there is none."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from engines.core.errors import UserError
from engines.models.configs.plans import Plan
from engines.models.files.hub import read_json
from engines.models.networks import OURS, network_class


def config_of(folder: Path, name: str, how: Plan) -> Any:
    """The config of the plan's class. Raises UserError for a family that would need code from the checkpoint."""
    import transformers

    if how.config is not None:
        return getattr(transformers, how.config_class)(**how.config)
    if (model_type := str(read_json(folder / "config.json").get("model_type"))) in OURS:
        network_class(model_type)
    try:
        return transformers.AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    except (ValueError, KeyError) as error:
        kind = read_json(folder / "config.json").get("model_type")
        raise UserError(
            f"'{name}' has the model type '{kind}', which would need code from the checkpoint (trust_remote_code), and "
            "none is run here; choose a Llama- or Qwen-like model."
        ) from error


def check_class(config: Any, how: Plan, name: str) -> None:
    """Raises UserError for a family that transformers has no network of the wanted kind for."""
    import transformers

    known = getattr(getattr(transformers, how.model_class, None), "_model_mapping", None)
    if known is not None and type(config) not in known:
        raise UserError(
            f"'{name}' is of the type '{config.model_type}', which {how.model_class} of transformers does not know; "
            "choose a Llama- or Qwen-like model."
        )


@contextmanager
def refusing(name: str, options: dict[str, Any]) -> Iterator[None]:
    """What transformers says of a device map, a quantisation or a damaged file, in one sentence of ours."""
    wishes = [key for key in ("device_map", "quantization") if options.get(key) is not None]
    try:
        yield
    except UserError:
        raise
    except Exception as error:  # a damaged file can make transformers raise anything
        reason = " ".join(str(error).split())[:200]
        if not wishes:
            raise UserError(
                f"'{name}' cannot be loaded: {reason}; download it again or choose another model."
            ) from error
        raise UserError(
            f"'{name}' cannot be loaded with {' and '.join(wishes)} as given: {reason}; change that or leave it out."
        ) from error
