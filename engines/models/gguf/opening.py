"""A GGUF file as a model in this process, without the checks and the trial that `loading` puts before it."""

import hashlib
from typing import Any

import torch

from engines.core.kinds import Model
from engines.core.places import expanded
from engines.core.trace import ModelRecord
from engines.models.gguf.header import ORIGINAL, GGUFHeader
from engines.models.gguf.library import NOTHING, Weights, library
from engines.models.gguf.tokenizer import GGUFTokenizer
from engines.models.tokenizers.tokens import check_end_ids, mask_of


def opened(header: GGUFHeader, name: str, layers: int, **options: Any) -> Model:
    """The model of a file with this header, with those of `load_gguf`'s options that concern it. Raises UserError."""
    from engines.models.gguf.adapter import GGUFCausalLM, GGUFMaskedLM

    # llama.cpp takes LongRoPE's factors of long texts in every context with room for one, whatever is in it
    short = {f"{header.architecture}.{ORIGINAL}": NOTHING} if header.rotations else {}
    weights = Weights(header.path, layers, short)
    tokenizer = GGUFTokenizer(weights, header.chat_template or None)
    given = {key: value for key, value in options.items() if value is not None}
    record = _record(name, header, tokenizer, given | ({"gpu_layers": layers} if layers else {}))
    ends = _ends(weights, header, options.get("eos_id"), name)
    if header.causal:
        return GGUFCausalLM(weights, header, tokenizer, record, ends)
    mask = mask_of(name, (options.get("mask_id"), header.mask_id), tokenizer.vocabulary())
    shift = header.shift if options.get("shift") is None else bool(options["shift"])
    return GGUFMaskedLM(weights, header, tokenizer, record, ends, mask_id=mask, shift=shift)


def _ends(weights: Weights, header: GGUFHeader, given: int | None, name: str) -> frozenset[int]:
    """The tokens that end an answer: the one that was given, or all that the file or llama.cpp takes for one."""
    if given is not None:
        check_end_ids(name, [given], weights.size)
        return frozenset({given})
    ends = library().llama_vocab_is_eog
    return frozenset({*header.end_ids, *(i for i in range(weights.size) if ends(weights.vocab, i))})


def _record(name: str, header: GGUFHeader, tokenizer: GGUFTokenizer, options: dict[str, Any]) -> ModelRecord:
    words = hashlib.sha256(header.tokenizer.encode())
    for token, text in tokenizer.vocabulary().items():
        words.update(f"{token}\0{text}\0".encode("utf-8", "replace"))
    return ModelRecord(
        role="target",
        name=header.path.name if expanded(name).exists() else name,
        kind="causal" if header.causal else "masked",
        parameters=header.parameters,
        dtype=header.quantisation,
        threads=torch.get_num_threads(),
        tokenizer=words.hexdigest()[:12],
        licence=str(header.keys.get("general.license", "")),
        options=options,
    )
