"""From a folder with config.json and safetensors to a model behind our protocols, through transformers' classes."""

import importlib
import json
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

from engines.core.devices import give_back
from engines.core.errors import UserError
from engines.core.kinds import KINDS, Model
from engines.core.trace import ModelRecord
from engines.models.configs.bounds import check_experts, check_size
from engines.models.configs.mapping import plan
from engines.models.configs.plans import Plan, check_class, config_of, refusing
from engines.models.files.hub import (
    check_folder,
    count_parameters,
    read_json,
    sha256,
    shards,
    tokenizer_folder,
)
from engines.models.files.unread import TOKENIZER_FILES, check_tokenizer
from engines.models.forwards import prepared
from engines.models.layers.quantised import settings
from engines.models.loading.sizing import LARGE, OWN_KINDS, SMALL, chosen_dtype
from engines.models.loading.sizing import check_folder as check_room
from engines.models.loading.vocabulary import added, check_ends, eos_ids, wrap
from engines.models.loading.wanted import still_wanted
from engines.models.loading.weights import check_fit, pretrained
from engines.models.tokenizers.tokens import mask_of

OPTION_KINDS = {  # an option -> the kinds of models that have it
    "mask_id": ("masked", "block", "two-way"),
    "shift": ("masked", "block", "two-way"),
    "block_size": ("block", "two-way"),
}
NO_NUMBERS = "device 'meta' holds no numbers, so nothing runs on it; use 'cpu' or 'cuda'."


def load_folder(
    folder: Path,
    name: str,
    *,
    kind: str | None = None,
    device: str = "cpu",
    dtype: Any = None,
    revision: str = "",
    licence: str = "",
    **options: Any,
) -> Model:
    """Load a model. options: mask_id, eos_id, shift, block_size, device_map, quantization. Raises UserError if the
    folder or a wish does not fit."""
    digest = check_folder(folder, name)
    check_tokenizer((file.name for file in tokenizer_folder(folder).iterdir()), name)
    raw = read_json(folder / "config.json")
    check_size(raw, folder, name)
    check_experts(raw, folder, name)
    _check_types(options)
    with refusing(name, {}):  # some publish the block length as a setting of generation
        how = plan(read_json(folder / "generation_config.json") | raw, name, options.get("block_size"))
    require_kind(name, how.kinds, kind)
    for option, kinds in OPTION_KINDS.items():
        if options.get(option) is not None and not {*kinds} & {*how.kinds}:
            several = f"{', '.join(kinds[:-1])} and {kinds[-1]}"
            raise UserError(f"{option} is an option of {several} models and {name} is {how.kind}; leave it out.")
    if _bytes(folder) >= LARGE or (dtype is not None and 4 * _bytes(folder) >= LARGE):
        check_room(folder, name, device, dtype, options)
    still_wanted()
    if raw.get("draft_of"):
        return _draft(folder, name, str(raw["draft_of"]), how, device, _dtype(dtype, folder), digest, options)
    if how.kind in OWN_KINDS:  # each has an adapter of its name with `LOADED`
        load, adapter = importlib.import_module(f"engines.models.adapters.{how.kind}").LOADED
        seeing = load(folder, name, _dtype(dtype, folder), usable(device), options)
        return cast(Model, adapter(seeing, _record(folder, name, how.kind, seeing, digest, licence, revision)))
    network = _network(folder, name, how, device, _dtype(dtype, folder), options)
    core = _tokenizer(tokenizer_folder(folder), how)
    config, ends = network.config.get_text_config(), eos_ids(network, core, options.get("eos_id"))
    check_ends(name, how, core, ends, config.vocab_size)
    masks = {*how.kinds} & {*OPTION_KINDS["mask_id"]}
    given = (options.get("mask_id"), how.mask_id, getattr(core, "mask_token_id", None))
    mask_id = mask_of(name, given, added(core)) if masks else None
    tokenizer = wrap(core, config, ends, mask_id, how)
    record = _record(folder, name, how.kind, network, digest, licence, revision, tokenizer_folder(folder))
    record.options = _told(options)
    with refusing(name, {}):  # a family that nobody thought of can lack anything that an adapter asks for
        return prepared(_model(how, network, tokenizer, record, mask_id, ends, options))


def _model(
    how: Plan,
    network: Any,
    tokenizer: Any,
    record: ModelRecord,
    mask_id: int | None,
    eos_ids: frozenset[int],
    options: dict[str, Any],
) -> Model:
    """A loaded network as a model of its kind. mask_id: of masked, block and two-way models; options: shift and
    block_size, where they were given."""
    from engines.models.adapters.block import HFBlockMaskedLM, HFTwoWayLM
    from engines.models.adapters.canvas import HFCanvasLM
    from engines.models.adapters.causal import HFCausalLM
    from engines.models.adapters.family import check_family, try_out
    from engines.models.adapters.layered import HFLayeredLM
    from engines.models.adapters.masked import HFMaskedLM
    from engines.models.adapters.power_law import HFPowerLawLM
    from engines.models.adapters.seq2seq import HFSeq2SeqLM, MuSeq2SeqLM
    from engines.models.adapters.sparse import HFMemoryLM, HFMoELM
    from engines.models.adapters.split import HFSplitLM
    from engines.models.layers.packed import pack

    if how.kind in ("seq2seq", "power-law"):
        pair = MuSeq2SeqLM if network.config.model_type == "mu" else HFSeq2SeqLM
        return (pair if how.kind == "seq2seq" else HFPowerLawLM)(network, tokenizer, record, eos_ids)
    if how.kind == "canvas":
        return HFCanvasLM(network, tokenizer, record, eos_ids)
    if mask_id is None:
        made = {"split": HFSplitLM, "moe": HFMoELM, "memory": HFMemoryLM, "layered": HFLayeredLM}
        causal = next((made[kind] for kind in made if kind in how.also), HFCausalLM)
        check_family(network, record)
        model = causal(pack(network), tokenizer, record, eos_ids)  # other kinds feed whole boards, which gain nothing
        if causal is HFCausalLM:  # the families that run layer by layer are known, and tested each
            try_out(model)
        return model
    shift = how.shift if options.get("shift") is None else bool(options["shift"])
    if how.kind == "masked":
        return HFMaskedLM(network, tokenizer, record, eos_ids, mask_id=mask_id, shift=shift)
    block_size = how.block_size if options.get("block_size") is None else options["block_size"]
    blocks: dict[str, Any] = {"mask_id": mask_id, "block_size": block_size, "shift": shift}
    if "two-way" in how.also:
        return HFTwoWayLM(pack(network), tokenizer, record, eos_ids, **blocks)
    return HFBlockMaskedLM(network, tokenizer, record, eos_ids, **blocks)


def _check_types(options: dict[str, Any]) -> None:
    for option in ("mask_id", "eos_id", "block_size"):
        value = options.get(option)
        if value is not None and (not isinstance(value, int) or isinstance(value, bool)):
            raise UserError(f"{option}={value!r:.60} is not an integer; give one, for example {option}=32.")
    if options.get("shift") not in (None, True, False):
        raise UserError(
            f"shift={options['shift']!r:.60} cannot be; give True (a logit speaks of the next position) or False."
        )


def _draft(
    folder: Path, name: str, target: str, how: Plan, device: str, dtype: Any, digest: str, options: dict[str, Any]
) -> Model:
    """A draft model: its own layers, with embedding and tokenizer of its target."""
    from engines.models.adapters.draft import HFDraftLM, load_draft, target_folder
    from engines.models.layers.packed import pack

    if wish := next((key for key in ("device_map", "quantization") if options.get(key) is not None), None):
        raise UserError(f"{wish} is not an option of a draft model and '{name}' is one; leave it out.")
    base = target_folder(target, name)
    network, draft_ids = load_draft(folder, base, dtype, usable(device))
    core = _tokenizer(base, how)
    ends = eos_ids(network, core)
    record = _record(folder, name, how.kind, network, digest, "", "", tokenizer=base)
    return prepared(HFDraftLM(pack(network), wrap(core, network.config, ends, None), record, ends, draft_ids=draft_ids))


def require_kind(name: str, has: Collection[str], wanted: str | None) -> None:
    """Raise UserError if a kind was asked for and is none of the model's, or if there is no such kind."""
    if wanted is not None and wanted not in KINDS:
        raise UserError(f"kind '{wanted}' is unknown; choose one of {', '.join(KINDS)}.")
    if wanted is not None and wanted not in has:
        raise UserError(
            f"a {wanted} model is needed and {name} is {' and '.join(sorted(has))}; choose a {wanted} model "
            "(`decoding-explorer models` lists them)."
        )


def _dtype(wanted: Any, folder: Path) -> Any:
    """The type to load in; transformers finds out what "auto" is."""
    if wanted == "auto" or (wanted is None and _bytes(folder) > SMALL):
        return "auto"
    return chosen_dtype(wanted, None, 0)


def _network(folder: Path, name: str, how: Plan, device: str, dtype: Any, options: dict[str, Any]) -> Any:
    with refusing(name, {}):
        config = config_of(folder, name, how)
    check_class(config, how, name)
    where = options.get("device_map") or (usable(device) if device != "cpu" else None)
    placed = where.values() if isinstance(where, dict) else [where]
    if any(str(place).partition(":")[0] == "meta" for place in placed):
        raise UserError(NO_NUMBERS)
    wish = settings(options.get("quantization"))
    extra = {"quantization_config": wish} if wish is not None else {}
    with _quiet(_bytes(folder) <= SMALL, report=not how.unread), refusing(name, options):
        network, info = pretrained(
            how.model_class,
            folder,
            config,
            fused=how.fused,
            key_mapping=dict(how.rename) or None,
            dtype=dtype,
            device_map=where,
            use_safetensors=True,
            local_files_only=True,
            trust_remote_code=False,
            output_loading_info=True,
            **extra,
        )
    check_fit(network, info, how, name)
    if _bytes(folder) > SMALL:
        give_back()
    return network


@contextmanager
def _quiet(wanted: bool, report: bool) -> Iterator[None]:
    """Without transformers' progress bar, which only flickers where loading takes no time, and without its report
    where tensors are passed over on purpose."""
    from transformers.utils import logging

    bar, level = wanted and logging.is_progress_bar_enabled(), logging.get_verbosity()
    if bar:
        logging.disable_progress_bar()
    logging.set_verbosity(level if report else logging.ERROR)
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bar:
            logging.enable_progress_bar()


def _bytes(folder: Path) -> int:
    return sum(shard.stat().st_size for shard in shards(folder))


def usable(device: str) -> str:
    """A device on which something can be computed here. Raises UserError."""
    import torch

    try:
        kind = torch.empty(0, device=device).device.type
    except (RuntimeError, AssertionError) as error:
        raise UserError(
            f"device '{device}' is not available here ({str(error).splitlines()[0]}); use 'cpu' or 'cuda'."
        ) from None
    if kind == "meta":
        raise UserError(NO_NUMBERS)
    return device


def _tokenizer(folder: Path, how: Plan) -> Any | None:
    import transformers

    if not any((folder / file).is_file() for file in TOKENIZER_FILES):
        return None
    with refusing(f"the tokenizer of {folder.name}", {}):
        return getattr(transformers, how.tokenizer_class).from_pretrained(
            folder, local_files_only=True, trust_remote_code=False
        )


def _told(options: dict[str, Any]) -> dict[str, Any]:
    """The options that were set, as plain values that the loader takes as well; a quantisation config as its
    dictionary."""
    given = {name: value for name, value in options.items() if value is not None}
    converted = {name: value.to_dict() if hasattr(value, "to_dict") else value for name, value in given.items()}
    return json.loads(json.dumps(converted, default=str))


def _record(
    folder: Path,
    name: str,
    kind: str,
    network: Any,
    digest: str,
    licence: str,
    revision: str,
    tokenizer: Path | None = None,
) -> ModelRecord:
    """What a run says about its model. licence: "" for that of its card; `tokenizer`: where that lies, if not in the
    model's own folder."""
    import torch

    files = (((tokenizer or folder) / file) for file in TOKENIZER_FILES)
    return ModelRecord(
        role="target",
        name=name,
        kind=kind,
        sha256=digest,
        revision=revision,
        parameters=count_parameters(folder),
        dtype=str(network.dtype).removeprefix("torch."),
        device=str(network.device),
        threads=torch.get_num_threads(),
        tokenizer=next((sha256(file)[:12] for file in files if file.is_file()), ""),
        licence=licence or str(read_json(folder / "card.json").get("licence", "")),
    )
