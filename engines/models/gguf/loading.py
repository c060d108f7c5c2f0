"""From a GGUF file to a model behind our protocols."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engines.core.errors import UserError
from engines.core.trace import ModelRecord
from engines.models.gguf import refusals
from engines.models.gguf.bits import kept_bits
from engines.models.gguf.header import GGUFHeader, read_header
from engines.models.gguf.library import Weights, library
from engines.models.gguf.tokenizer import GGUFTokenizer
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
    with a device other than cpu, else none). Raises UserError."""
    from engines.models.adapters.gguf import GGUFCausalLM, GGUFMaskedLM

    header = read_header(file)
    refusals.check(header)
    settled = {key: options.pop(key, None) for key in ("device_map", "quantization", "block_size")}
    refuse_options(name, {"dtype": None if dtype == header.quantisation else dtype, **settled})
    if header.causal and (wish := next((key for key in ("mask_id", "shift") if options.get(key) is not None), None)):
        raise UserError(f"{wish} is an option of masked models and {name} is causal; leave it out.")
    layers = _layers(options.pop("gpu_layers", None), device)
    library()  # what is not installed is said before anything is measured
    check_gguf(size_of_gguf(file, name), device, min(USUAL, header.context))
    weights = Weights(header.path, layers)
    tokenizer = GGUFTokenizer(weights, header.chat_template or None)
    own = {"gpu_layers": layers} if layers else {}
    given = {key: value for key, value in options.items() if value is not None}
    record = _record(name, file, header, tokenizer, device, given | own)
    ends = _ends(weights, header, options.get("eos_id"), name)
    if header.causal:
        model = GGUFCausalLM(weights, header, tokenizer, record, ends)
        record.moved = kept_bits(model)[1]
        return model
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
    name: str, file: Path, header: GGUFHeader, tokenizer: GGUFTokenizer, device: str, options: dict[str, Any]
) -> ModelRecord:
    import torch

    words = hashlib.sha256(header.tokenizer.encode())
    for token, text in tokenizer.vocabulary().items():
        words.update(f"{token}\0{text}\0".encode("utf-8", "replace"))
    return ModelRecord(
        role="target",
        name=name if ":" in name and not Path(name).exists() else file.name,
        kind="causal" if header.causal else "masked",
        sha256=sha256(header.path),
        parameters=header.parameters,
        dtype=header.quantisation,
        device=device,
        threads=torch.get_num_threads(),
        tokenizer=words.hexdigest()[:12],
        licence=str(header.keys.get("general.license", "")),
        options=options,
    )
