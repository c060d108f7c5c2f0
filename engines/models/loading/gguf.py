"""From a GGUF file to a model behind our protocols."""

from pathlib import Path
from typing import Any, cast

import torch

from engines.core.errors import UserError
from engines.core.kinds import Model
from engines.models.files.hub import sha256
from engines.models.gguf import refusals
from engines.models.gguf.adapter import opened
from engines.models.gguf.header import read_header
from engines.models.gguf.llama_cpp import require
from engines.models.gguf.trial import tried
from engines.models.loading.sizing import check_gguf, refuse_options, size_of_header
from engines.models.loading.wanted import still_wanted

USUAL = 4096  # positions of cache for which there has to be room
ALL_LAYERS = -1


def load_gguf(file: Path, name: str, *, device: str = "cpu", dtype: Any = None, **options: Any) -> Model:
    """Load a GGUF file as a causal or, of a diffusion architecture, a masked model. name: as it was given. dtype: only
    the file's own word. options: mask_id, shift, eos_id, gpu_layers (of the network, on an accelerator; by default all
    but on cpu). At its first use a file is tried in a process of its own (`trial`). Raises UserError."""
    header = read_header(file)
    refusals.check(header)
    require()
    settled = {key: options.pop(key, None) for key in ("device_map", "quantization", "block_size")}
    refuse_options(name, {"dtype": None if dtype == header.quantisation else dtype, **settled})
    if header.causal and (wish := next((key for key in ("mask_id", "shift") if options.get(key) is not None), None)):
        raise UserError(f"{wish} is an option of masked models and {name} is causal; leave it out.")
    layers = _layers(options.pop("gpu_layers", None), device)
    check_gguf(size_of_header(header, name), device, min(USUAL, header.context))
    digest = sha256(header.path)
    still_wanted()
    moved = tried(header, digest, layers, torch.get_num_threads())
    model: Any = opened(header, name, layers, **options)
    model.record.moved, model.record.sha256, model.record.device = moved, digest, device
    model.weight_bytes = header.bytes
    return cast("Model", model)


def _layers(wish: Any, device: str) -> int:
    """How many layers go to an accelerator."""
    if wish is not None and (isinstance(wish, bool) or not isinstance(wish, int) or wish < ALL_LAYERS):
        raise UserError(f"gpu_layers={wish!r:.40} cannot be; give how many layers run on the card, or -1 for all.")
    return int(wish) if wish is not None else 0 if device == "cpu" else ALL_LAYERS
