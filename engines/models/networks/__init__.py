"""Our own small architectures, one file each that reads like its paper.

A whole model among them is a transformers class with a `model_type` of its own in its config.json. It is named in
`OURS` and loads like any other checkpoint (`engines.models.loading.loader`); no code of a checkpoint is ever run."""

import importlib
from typing import Any

OURS = {  # model type, which is the file's name too -> class
    "block_ffn": "BlockFFNForCausalLM",
    "four_attentions": "FourAttentionsForCausalLM",
    "pldr": "PLDRForCausalLM",
    "ultra_mem": "UltraMemForCausalLM",
    "mu": "MuForSeq2Seq",
    "plain_decoder": "PlainDecoderForCausalLM",
    "scene_text": "SceneTextForCausalLM",
}


def network_class(model_type: str) -> Any:
    """The class of one of our model types, known to transformers' automatic classes from now on."""
    from transformers import AutoConfig, AutoModelForCausalLM

    model_class = getattr(importlib.import_module(f"{__name__}.{model_type}"), OURS[model_type])
    AutoConfig.register(model_type, model_class.config_class, exist_ok=True)
    AutoModelForCausalLM.register(model_class.config_class, model_class, exist_ok=True)
    return model_class
