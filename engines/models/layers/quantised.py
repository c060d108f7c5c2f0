"""Weights in 4 or 8 bits: the linear layers and the stacked experts of a network, which are nearly all of it. Its
embedding, head, norms and routers stay as they are.

4 bits: NF4, the nearest of 16 levels to w / s (QLoRA, arXiv 2305.14314), s the largest |w| of 64 numbers in a row.
8 bits: round(127 w / s), s the largest |w| of a row of the matrix. Scales are float32. A matrix is decoded when it is
used, an expert's when the expert is called, so that one at a time is there in full; products are made in the network's
own type. Only torch is needed, on any device.

transformers' way, bitsandbytes, leaves stacked experts as they are, and in 8 bits computes something else with a layer
whose weight is another one's, too, as all of DiffusionGemma's are."""

import functools
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from engines.core.errors import UserError

BITS = {"4bit": 4, "8bit": 8}
BLOCK = 64  # numbers under one scale, of 4 bits
KEPT = {"lm_head", "router", "gate", "shared_expert_gate"}  # parts of the names of what is left as it is
NF4 = (
    *(-1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635),
    *(-0.18477343022823334, -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725),
    *(0.24611230194568634, 0.33791524171829224, 0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0),
)  # quantiles of a normal distribution, as published


class CodedMatrices(nn.Module):
    """Matrices [E, out, in] in codes; an index gives one of them, decoded."""

    def __init__(self, codes: Tensor, scales: Tensor, shape: torch.Size, dtype: torch.dtype) -> None:
        super().__init__()
        self.shape, self.dtype = shape, dtype
        self.register_buffer("codes", codes, persistent=False)
        self.register_buffer("scales", scales, persistent=False)

    def forward(self, index: Tensor | int) -> Tensor:
        """The matrix [out, in] at an index."""
        return decoded(self.codes[index], self.scales[index], self.shape[1:], self.dtype)

    def __getitem__(self, index: Tensor | int) -> Tensor:
        return self(index)


class CodedLinear(nn.Module):
    """A linear layer whose weight is the only one of coded matrices. For forwards only."""

    def __init__(self, matrices: CodedMatrices, bias: Tensor | None) -> None:
        super().__init__()
        self.matrices, self.bias = matrices, bias
        self.out_features, self.in_features = matrices.shape[1:]

    @property
    def weight(self) -> Tensor:
        """The weight [out, in], decoded: a copy."""
        return self.matrices[0]

    def forward(self, x: Tensor) -> Tensor:
        """x [..., in] to [..., out]."""
        return nn.functional.linear(x, self.weight, self.bias)


def coded(matrix: Tensor, bits: int) -> tuple[Tensor, Tensor]:
    """Codes and scales of a matrix [out, in]; two codes in a byte where they have 4 bits."""
    if bits == 8:
        scales = matrix.float().abs().amax(-1).clamp(min=1e-30)
        return (matrix.float() * (127 / scales)[:, None]).round().to(torch.int8), scales
    blocks = matrix.float().reshape(-1, BLOCK)
    scales, levels = blocks.abs().amax(-1).clamp(min=1e-30), torch.tensor(NF4, device=matrix.device)
    codes = torch.bucketize(blocks / scales[:, None], (levels[1:] + levels[:-1]) / 2, out_int32=True).to(torch.uint8)
    pairs = codes.reshape(-1, 2)
    return pairs[:, 0] << 4 | pairs[:, 1], scales


def decoded(codes: Tensor, scales: Tensor, shape: torch.Size, dtype: torch.dtype = torch.float32) -> Tensor:
    """The matrix of `coded`, in a type."""
    if codes.dtype == torch.int8:
        return codes.to(dtype) * (scales / 127)[:, None].to(dtype)
    levels = torch.tensor(NF4, device=codes.device, dtype=dtype)
    pairs = torch.stack((levels.repeat_interleave(16), levels.repeat(16)), -1)  # of every byte
    return (pairs[codes.int()].reshape(-1, BLOCK) * scales[:, None].to(dtype)).reshape(shape)


def settings(wish: Any) -> Any:
    """What transformers is given as quantisation config for "4bit" or "8bit"; any other wish as it is. Raises UserError
    for another word."""
    if not isinstance(wish, str):
        return wish
    if wish not in BITS:
        raise UserError(f"quantisation '{wish[:40]}' is unknown; choose {' or '.join(BITS)}, or leave it out.")
    return _known(wish)()


def codable(network: Any) -> Iterator[tuple[str, Tensor]]:
    """The parameters of a network that are coded, by name: the weights of linear layers and stacks of experts."""
    kept = KEPT | {*(network._keep_in_fp32_modules or ())}
    for place, module in network.named_modules():
        if kept & {*place.split(".")}:
            continue
        experts = hasattr(module, "_apply_gate")  # of every class whose experts transformers can run in several ways
        for name, parameter in module._parameters.items():
            stack = experts and parameter is not None and parameter.dim() == 3
            if (stack or (type(module) is nn.Linear and name == "weight")) and parameter.shape[-1] * parameter.shape[
                -2
            ] % 64 == 0:
                yield f"{place}.{name}", parameter


def coded_bytes(parameter: Tensor, wish: str) -> float:
    """Bytes of a weight [..., out, in] in the codes of "4bit" or "8bit", with its scales."""
    return parameter.numel() * (BITS[wish] / 8 + 4 / (BLOCK if wish == "4bit" else parameter.shape[-1]))


@functools.cache
def _known(wish: str) -> Any:
    """The config class of a wish, which transformers knows from then on."""
    from transformers.quantizers.auto import register_quantization_config, register_quantizer
    from transformers.utils.quantization_config import QuantizationConfigMixin

    class Config(QuantizationConfigMixin):  # type: ignore[misc]
        def __init__(self, **given: Any) -> None:
            self.quant_method = f"coded_{wish}"

    register_quantizer(f"coded_{wish}")(_quantiser(wish))
    return register_quantization_config(f"coded_{wish}")(Config)


def _quantiser(wish: str) -> Any:
    """What transformers asks while it reads a checkpoint: matrices are coded as they are read, one after the other."""
    from transformers.core_model_loading import ConversionOps
    from transformers.quantizers.base import HfQuantizer

    class Coding(ConversionOps):  # type: ignore[misc]
        def convert(self, input_dict: dict[str, Any], **more: Any) -> dict[str, Any]:
            given = {name: tensor[0] if isinstance(tensor, list) else tensor for name, tensor in input_dict.items()}
            return {name: _codes(tensor, BITS[wish]) for name, tensor in given.items()}

    class Quantiser(HfQuantizer):  # type: ignore[misc]
        names: frozenset[str] | None = None

        def param_needs_quantization(self, model: Any, param_name: str, **more: Any) -> bool:
            if self.names is None:
                self.names = frozenset(name for name, _ in codable(model))
            return param_name in self.names

        def param_element_size(self, model: Any, param_name: str, param: Tensor) -> float:
            coded_here = self.param_needs_quantization(model, param_name)
            return coded_bytes(param, wish) / param.numel() if coded_here else param.element_size()

        def validate_environment(self, *args: Any, **more: Any) -> None:
            places = more.get("device_map")
            kinds = {str(place) for place in places.values()} if isinstance(places, dict) else set()
            if "disk" in kinds or ("cpu" in kinds and kinds != {"cpu"}):
                raise UserError(
                    f"with {wish} weights all layers stay on graphics cards, or all on the CPU, and this device map "
                    "leaves some on the CPU or the disk; leave the quantisation out, or give a device map without them."
                )

        def get_quantize_ops(self) -> Any:
            return Coding()

        def _process_model_after_weight_loading(self, model: Any, **more: Any) -> Any:
            _put_in_place(model)
            return model

        def is_serializable(self) -> bool:
            return False

        @property
        def is_trainable(self) -> bool:
            return False

    return Quantiser


def _codes(weight: Tensor, bits: int) -> nn.Parameter:
    """The codes of a matrix, or of each of several, with what decodes them beside."""
    stack = weight if weight.dim() == 3 else weight[None]
    parts = [coded(matrix, bits) for matrix in stack]
    codes = nn.Parameter(torch.stack([codes for codes, _ in parts]), requires_grad=False)
    scales = torch.stack([scales for _, scales in parts])
    codes.coding = (scales, stack.shape, stack.dtype)  # type: ignore[attr-defined]
    return codes


def _put_in_place(network: Any) -> None:
    """Put coded matrices in the place of the codes that were read. Experts are called one by one from then on: the
    other ways of transformers want the whole stack."""
    made: dict[int, CodedMatrices] = {}
    for place, module in list(network.named_modules()):
        for name, codes in list(module._parameters.items()):
            if not hasattr(codes, "coding"):
                continue
            matrices = made.setdefault(id(codes), CodedMatrices(codes.data, *codes.coding))
            if type(module) is nn.Linear:
                network.set_submodule(place, CodedLinear(matrices, module.bias))
            else:
                del module._parameters[name]
                setattr(module, name, matrices)
                module.config._experts_implementation = "eager"
