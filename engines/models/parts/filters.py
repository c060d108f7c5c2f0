"""Filters: tiny networks that read the confidences of one block and say which proposals are final already. Found beside
their model, checked, computed.

A filter belongs to the weights whose confidences it was trained on; its folder stands beside the model's, with
`-filter` behind the name. It is made by `python -m engines.training filter MODEL`, which also converts the
PyTorch state dicts that others publish."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from engines.core.errors import UserError
from engines.core.lazy import Tensor, torch
from engines.core.trace import ModelRecord
from engines.models import parts

KEYS = ("linear1.weight", "linear1.bias", "linear2.weight", "linear2.bias")
LARGEST = 4_000_000  # bytes; a filter for blocks of 32 has 8,448
COMMAND = "python -m engines.training filter"


@dataclass(frozen=True)
class BlockFilter:
    """g: R^b -> R^b, W2 relu(W1 c + b1) + b2, for blocks of b positions: 2 b^2 + 2 b parameters in float32."""

    name: str
    sha256: str
    W1: Tensor
    b1: Tensor
    W2: Tensor
    b2: Tensor

    @property
    def size(self) -> int:
        """The block length b that it was trained for."""
        return len(self.b1)

    def __call__(self, c: Tensor) -> Tensor:
        """Confidences c [n] or [R, n], n <= b -> the probability that each proposal is final, same shape; zeros stand
        in for what a short block lacks.

        Raises UserError for a block longer than b.
        """
        n = c.shape[-1]
        if n > self.size:
            raise UserError(
                f"block_length={n} is longer than the {self.size} inputs of the filter {self.name}; use {self.size}, "
                f"or train one for {n}."
            )
        W1, b1, W2, b2 = (t.to(c.device) for t in (self.W1, self.b1, self.W2, self.b2))
        padded = torch.nn.functional.pad(c.float(), (0, self.size - n))
        return torch.sigmoid(torch.relu(padded @ W1.T + b1) @ W2.T + b2)[..., :n]


def filter_of(record: ModelRecord) -> BlockFilter:
    """The filter that belongs to a model. Raises UserError where there is none, or one of other weights, and names the
    command that makes it."""
    ways = "give a file of your own as filter=..., or set accept_thres=1, which needs none"
    part = parts.load_part("filter", [record], way_out=lambda: ways)
    return from_state(part.tensors, part.name, part.sha256)


def read_filter(path: str) -> BlockFilter:
    """A filter of one's own from a safetensors file. Raises UserError with one sentence for whatever is wrong, so that
    it tells nothing about other files."""
    if path.lower().endswith((".pth", ".pt", ".bin")):
        raise UserError(
            f"filter={path[:200]} is a pickle, which is never read while decoding; convert it once, in a clone of "
            f"the repository, with `{COMMAND} --convert FILE`."
        )
    try:
        file = Path(path).expanduser()
        if file.suffix == ".safetensors" and file.is_file() and file.stat().st_size <= LARGEST:
            part = parts.read_part(file.resolve(), file.stem)
            return from_state(part.tensors, part.name, part.sha256)
    except (OSError, ValueError, RuntimeError, UserError):
        pass
    raise UserError(
        f"filter={path[:200]} is not a filter: give a safetensors file that holds {', '.join(KEYS)} for one block "
        "length, or leave it empty."
    )


def from_state(state: Mapping[str, Tensor], name: str, digest: str = "") -> BlockFilter:
    """A filter from the tensors linear1 and linear2. Raises UserError unless both are square layers of one size with
    finite numbers."""
    b = len(bias) if isinstance(bias := state.get(KEYS[1]), torch.Tensor) and bias.ndim else 0
    if not b or not parts.fits(state, dict(zip(KEYS, [(b, b), (b,)] * 2, strict=True))):
        raise UserError(
            f"{name} is not a filter: it has to hold {', '.join(KEYS)} for one block length and nothing else."
        )
    return BlockFilter(name, digest, *(state[key].float() for key in KEYS))
