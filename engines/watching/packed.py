"""Whether the rows of a forward are one text: checked before any of them is read.

Shapes: B sequences, n rows fed, K columns of a mask."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from engines.core.lazy import Tensor, torch
from engines.watching.arguments import Unreadable, given_to_decoder
from engines.watching.hooks import Call

BORDERS = ("cu_seq", "cumulative_seq")  # in the names of arguments that say where each text of a packed row begins
NUMBERS = ("seq_idx", "segment_ids", "sequence_ids", "document_ids")  # that say for each row which text it is of


def check_one_text(call: Call) -> None:
    """Raises Unreadable where the rows of each sequence belong to several texts, or have logits elsewhere than at their
    end."""
    if call.n < 2:
        return
    if why := next(_several(call), ""):
        raise Unreadable(
            f"a call's rows belong to several texts ({why}), as requests that are packed into one row; watch them one "
            "at a time."
        )
    for name, value in call.given.items():
        wanted = _rows_named(value, call.n) if "logit" in name and call.batch == 1 else []
        if wanted and wanted != list(range(call.n - len(wanted), call.n)):
            raise Unreadable(
                f"{name} asks for the logits of the rows {', '.join(map(str, wanted[:8]))} of {call.n}, which are not "
                "the last ones, so these are not one text and its drafts; watch requests one at a time."
            )


def _several(call: Call) -> Iterator[str]:
    """What says that there are several texts in a sequence."""
    for name, value in call.given.items():
        if torch.is_tensor(value) and any(word in name.lower() for word in BORDERS) and value.ndim == 1:
            if (texts := int((value.diff() > 0).sum())) > call.batch:
                yield f"{name} has the borders of {texts}"
        elif name in NUMBERS and torch.is_tensor(value) and bool((value.diff() != 0).any()):
            yield f"{name} tells them apart"
    mask: Any = given_to_decoder(call.given, "attention_mask")
    if torch.is_tensor(mask) and mask.ndim == 4 and mask.shape[-2] == call.n:
        if row := _apart(seen_by(mask[0, 0])):
            yield f"by the mask none of the rows from {row} on sees one before it"
    elif torch.is_tensor(mask) and mask.ndim == 2 and not mask.is_floating_point() and int(mask.max()) > 1:
        yield "attention_mask numbers them"
    elif call.positions is not None and (row := _again(call.positions[0].numpy())):
        yield f"the position ids begin again at row {row}"


def seen_by(mask: Tensor) -> np.ndarray:
    """Which columns each row sees [n, K], by a mask of that shape: True, or a number that is not hugely negative."""
    sees = mask if mask.dtype == torch.bool else mask > -1e4 if mask.is_floating_point() else mask.bool()
    return sees.detach().cpu().numpy()


def _apart(seen: np.ndarray) -> int:
    """The first row from which on none sees a column that one before it saw [n, K]; 0 where there is none. Padding sees
    itself at most."""
    for row in np.flatnonzero(~(seen[1:] & seen[:-1]).any(1)) + 1:
        before = seen[:row]
        new = seen[row:] & ~before.any(0)
        if before.sum(1).max() > 1 and (new == seen[row:]).all(1)[0] and new.sum(1).max() > 1:
            return int(row)
    return 0


def _again(positions: np.ndarray) -> int:
    """The first row [n] that stands before the first one, or at the beginning again; 0 where there is none. Padding on
    the left has the positions 0, or 1 throughout."""
    for row in range(1, len(positions)):
        here, before = positions[row], positions[row - 1]
        again = here == before == positions[0] > 1 or here < positions[0] or 0 == here < before
        if again and not (positions[:row] == 1).all():
            return row
    return 0


def _rows_named(value: Any, n: int) -> list[int]:
    """The rows that an argument names: a list or tensor of numbers, or of truths; none for a single number, which
    counts them from the end."""
    if torch.is_tensor(value) and value.ndim == 1 and not value.is_floating_point():
        named = value.nonzero()[:, 0].tolist() if value.dtype == torch.bool else value.tolist()
    elif isinstance(value, (list, tuple, range)) and all(isinstance(number, int) for number in value):
        named = list(value)
    elif isinstance(value, slice):
        named = list(range(n)[value])
    else:
        return []
    return [row + n if row < 0 else row for row in named]
