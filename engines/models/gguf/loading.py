"""From a GGUF file to a model behind our protocols."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import torch

from engines.core.errors import UserError
from engines.core.trace import ModelRecord
from engines.models.gguf import refusals
from engines.models.gguf.header import GGUFHeader, read_header
from engines.models.gguf.library import Weights, library
from engines.models.gguf.tokenizer import GGUFTokenizer
from engines.models.gguf.trial import tried
from engines.models.hub import sha256
from engines.models.sizing import check_gguf, refuse_options, size_of_gguf

if TYPE_CHECKING:
    from engines.core.kinds import Model

USUAL = 4096  # positions of cache for which there has to be room
SHOWN = 6  # candidates that an error names
ALL_LAYERS = -1


def load_gguf(file: Path, name: str, *, device: str = "cpu", dtype: Any = None, **options: Any) -> Model:
    """Load a GGUF file as a causal or, of a diffusion architecture, a masked model. name: as it was given. dtype: only
    the file's own word. options: mask_id, shift, eos_id, gpu_layers (of the network, on an accelerator; by default all
    with a device other than cpu, else none). At its first use on a machine a file is tried in a process of its own
    (`trial`). Raises UserError."""
    header = read_header(file)
    refusals.check(header)
    settled = {key: options.pop(key, None) for key in ("device_map", "quantization", "block_size")}
    refuse_options(name, {"dtype": None if dtype == header.quantisation else dtype, **settled})
    if header.causal and (wish := next((key for key in ("mask_id", "shift") if options.get(key) is not None), None)):
        raise UserError(f"{wish} is an option of masked models and {name} is causal; leave it out.")
    layers = _layers(options.pop("gpu_layers", None), device)
    check_gguf(size_of_gguf(file, name), device, min(USUAL, header.context))
    digest = sha256(header.path)
    moved = tried(header, digest, layers, torch.get_num_threads())
    model: Any = opened(file, name, layers, **options)
    model.record.moved, model.record.sha256, model.record.device = moved, digest, device
    return cast("Model", model)


def opened(file: Path, name: str, layers: int, **options: Any) -> Model:
    """The model of a file, in this process and without the checks of `load_gguf`."""
    from engines.models.adapters.gguf import GGUFCausalLM, GGUFMaskedLM

    header = read_header(file)
    weights = Weights(header.path, layers)
    tokenizer = GGUFTokenizer(weights, header.chat_template or None)
    given = {key: value for key, value in options.items() if value is not None}
    record = _record(name, file, header, tokenizer, given | ({"gpu_layers": layers} if layers else {}))
    ends = _ends(weights, header, options.get("eos_id"), name)
    if header.causal:
        return GGUFCausalLM(weights, header, tokenizer, record, ends)
    mask = _mask(tokenizer, header, options.get("mask_id"), name)
    shift = header.shift if options.get("shift") is None else bool(options["shift"])
    return GGUFMaskedLM(weights, header, tokenizer, record, ends, mask, shift)


def _layers(wish: Any, device: str) -> int:
    """How many layers go to an accelerator."""
    if wish is not None and (isinstance(wish, bool) or not isinstance(wish, int) or wish < ALL_LAYERS):
        raise UserError(f"gpu_layers={wish!r:.40} cannot be; give how many layers run on the card, or -1 for all.")
    layers = int(wish) if wish is not None else 0 if device == "cpu" else ALL_LAYERS
    if layers and not library().llama_supports_gpu_offload():
        raise UserError(
            "this llama.cpp was built for the processor alone; leave gpu_layers and device out, or build it for the "
            "card (for CUDA: `CMAKE_ARGS=-DGGML_CUDA=on pip install --force-reinstall --no-cache-dir --no-deps "
            "llama-cpp-python`)."
        )
    return layers


def _ends(weights: Weights, header: GGUFHeader, given: int | None, name: str) -> frozenset[int]:
    """The tokens that end an answer: the one that was given, or all that the file or llama.cpp takes for one."""
    if given is not None and not 0 <= given < weights.size:
        raise UserError(f"eos_id={given} is not in the vocabulary of {name}; ids go from 0 to {weights.size - 1}.")
    if given is not None:
        return frozenset({given})
    ends = library().llama_vocab_is_eog
    return frozenset({*header.end_ids, *(i for i in range(weights.size) if ends(weights.vocab, i))})


def _mask(tokenizer: GGUFTokenizer, header: GGUFHeader, given: int | None, name: str) -> int:
    for mask in (given, header.mask_id):
        if mask is not None:
            return int(mask)
    named = ((i, text) for i, text in tokenizer.vocabulary().items() if "mask" in text.lower())
    found = ", ".join(f"{text} {i}" for i, text in list(named)[:SHOWN]) or "–"
    raise UserError(
        f"'{name}' does not say which token is its mask; give it as mask_id=... (candidates in its tokenizer: {found})."
    )


def _record(
    name: str, file: Path, header: GGUFHeader, tokenizer: GGUFTokenizer, options: dict[str, Any]
) -> ModelRecord:
    words = hashlib.sha256(header.tokenizer.encode())
    for token, text in tokenizer.vocabulary().items():
        words.update(f"{token}\0{text}\0".encode("utf-8", "replace"))
    return ModelRecord(
        role="target",
        name=name if ":" in name and not Path(name).exists() else file.name,
        kind="causal" if header.causal else "masked",
        parameters=header.parameters,
        dtype=header.quantisation,
        threads=torch.get_num_threads(),
        tokenizer=words.hexdigest()[:12],
        licence=str(header.keys.get("general.license", "")),
        options=options,
    )
