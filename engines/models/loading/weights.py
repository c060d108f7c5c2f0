"""From the weight files of a folder, plain or coded, to a network of a transformers class."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from engines.core.errors import UserError
from engines.models.configs.plans import Plan
from engines.models.files import stored
from engines.models.files.hub import metadata, read_json, shards
from engines.models.files.unread import INDEX, WEIGHTS
from engines.models.networks import OURS, network_class


def pretrained(
    model_class: str, folder: Path, config: Any, fused: Mapping[str, tuple[str, ...]] | None = None, **options: Any
) -> Any:
    """What `from_pretrained` of a class, or automatic class, of transformers gives for a folder and the options; fused:
    see `engines.models.configs.plans.Plan`.

    Raises UserError for damaged coded weights, or a config.json that does not say whose they are.
    """
    import transformers
    from transformers.conversion_mapping import register_checkpoint_conversion_mapping
    from transformers.core_model_loading import Split, WeightConverter

    if (
        fused
    ):  # transformers splits such tensors while it reads them, wherever they go and whatever quantises them; this
        # adds to the conversions of the class's layers, and a file without such names is read as before
        converters = [WeightConverter(name, list(parts), [Split(0)]) for name, parts in fused.items()]
        register_checkpoint_conversion_mapping(model_class, converters, overwrite=True)
    files = shards(folder)
    own = all(file.parent == folder for file in files)
    if own and files[0].name != WEIGHTS:  # transformers would go by the index
        own = {file.name for file in files} == {*read_json(folder / INDEX)["weight_map"].values()}
    if own and not any(stored.MARK in metadata(file) for file in files):
        return getattr(transformers, model_class).from_pretrained(folder, config=config, **options)
    state = {name: tensor for file in files for name, tensor in stored.read(file).items()}
    network, extra = _class(model_class, config, folder), {}
    usual = issubclass(network, transformers.GenerationMixin)  # a class with a loop of its own has settings of its own
    if usual and (folder / "generation_config.json").is_file():
        extra["generation_config"] = transformers.GenerationConfig.from_pretrained(folder)
    return network.from_pretrained(None, config=config, state_dict=state, **extra, **options)


def check_fit(network: Any, info: Any, how: Plan, name: str) -> None:
    """Raises UserError where the files lack a tensor of the network, or hold one that it has no place for or another
    shape; info: what `from_pretrained` says of loading."""
    keys = [*info["missing_keys"], *info["mismatched_keys"], *(info["unexpected_keys"] if how.config else ())]
    lost = sorted(key for key in map(str, keys) if not key.startswith(how.unread))
    shared = getattr(network, "all_tied_weights_keys", None) or {}  # a name -> the one that the files have
    lost = [key for key in lost if shared.get(key) not in lost]
    if lost:
        what = f"{len(lost)} tensors are missing, left over or of another shape, first '{lost[0]}'"
        raise UserError(
            f"the weights of '{name}' do not fit {type(network).__name__}: {what}; download them again or choose "
            "another model."
        )


def _class(model_class: str, config: Any, folder: Path) -> Any:
    """A class by its name; without a path transformers' automatic classes cannot choose, config.json does."""
    import transformers

    wanted = str((config.architectures or ["missing"])[0]) if model_class.startswith("Auto") else model_class
    candidate = getattr(transformers, wanted, None) or next(
        (network_class(kind) for kind, known in OURS.items() if known == wanted), None
    )
    if isinstance(candidate, type) and issubclass(candidate, transformers.PreTrainedModel):
        return candidate
    raise UserError(
        f"the coded weights of '{folder.name}' need the model's class as `architectures` in config.json, which is "
        f"{wanted[:60]}; name one of transformers, as LlamaForCausalLM."
    )
