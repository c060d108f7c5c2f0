"""What a format takes from a checkpoint: each tensor by name, its shape checked first; none is left over."""

from collections.abc import Iterable
from typing import Any

import torch

from engines.core.errors import UserError
from engines.core.lazy import Tensor
from engines.models.drafters.files import Checkpoint


class Tensors:
    """The tensors of a checkpoint for a target, in one type on one device."""

    def __init__(self, checkpoint: Checkpoint, dtype: torch.dtype, device: torch.device | str) -> None:
        self.checkpoint, self.dtype, self.device = checkpoint, dtype, device
        self.taken: set[str] = set()

    def __contains__(self, name: str) -> bool:
        return name in self.checkpoint.shapes

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape of a tensor. Raises UserError where it is missing."""
        try:
            return self.checkpoint.shapes[name]
        except KeyError:
            near = ", ".join(sorted(self.checkpoint.shapes)[:4])
            raise UserError(
                f"'{self.checkpoint.name}' lacks the tensor {name}; it has {len(self.checkpoint.shapes)} tensors "
                f"({near} ...). Download it again, or check that it is a drafter of this format."
            ) from None

    def take(self, name: str, *shape: int, why: str = "") -> Tensor:
        """A tensor of this shape, in the type and on the device of the target. why: what follows from another shape.
        Raises UserError for another shape, for what is not a number, and where it is missing."""
        actual = self.shape(name)
        if actual != shape:
            raise UserError(
                f"{name} of '{self.checkpoint.name}' is {list(actual)} and should be {list(shape)}"
                f"{f': {why}' if why else ''}; choose a drafter that was made for this target."
            )
        tensor = self.checkpoint.read(name)
        self.taken.add(name)
        if tensor.is_floating_point():
            if not bool(torch.isfinite(tensor).all()):
                raise UserError(
                    f"{name} of '{self.checkpoint.name}' holds values that are not numbers (NaN or infinity); "
                    "download it again."
                )
            tensor = tensor.to(self.dtype)
        return tensor.to(self.device)

    def maybe(self, name: str, *shape: int) -> Tensor | None:
        """A tensor of this shape where the checkpoint has it."""
        return self.take(name, *shape) if name in self else None

    def skip(self, names: Iterable[str]) -> None:
        """Leave these tensors out: the format does not compute with them."""
        self.taken.update(names)

    def finish(self, what: str) -> None:
        """Raises UserError where the checkpoint has tensors that nothing was done with."""
        left = sorted(set(self.checkpoint.shapes) - self.taken)
        if left:
            raise UserError(
                f"'{self.checkpoint.name}' holds {left[0]}{f' and {len(left) - 1} more' if len(left) > 1 else ''}, "
                f"which {what} does not compute with; it is of another form, and leaving them out would draft wrongly."
            )


def count(names: Iterable[str], prefix: str, total: int = 0) -> int:
    """How many layers PREFIX.0., PREFIX.1. ... there are, the first `found` whatever they are called. The file counts,
    not the config."""
    numbers = {name[len(prefix) :].partition(".")[0] for name in names if name.startswith(prefix)}
    while str(total) in numbers:
        total += 1
    return total


def token_id(config: Any, key: str, vocab_size: int, name: str) -> int:
    """The id of a token that a config gives. Raises UserError where it is missing or not in the vocabulary."""
    value = config.get(key)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < vocab_size:
        raise UserError(
            f"config.json of '{name}' says {key}={value!r:.40}; the id of that token should be between 0 and "
            f"{vocab_size - 1}."
        )
    return value


def integer(config: Any, key: str, name: str) -> int:
    """A count that a config gives. Raises UserError where it is missing, no integer, or below 1."""
    value = config.get(key)
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise UserError(f"config.json of '{name}' says {key}={value!r:.40}, which should be a whole number above 0.")
    return value
