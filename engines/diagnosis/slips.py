"""Slips that people made with published drafters, each tried the other way round: if a drafter says much more of what
its target writes once a slip is turned, somebody made it. Sources: the list in `assets/docs/models.md`.

Most are tried on the drafter itself. Three are slips of a loop, not of a checkpoint, and show in what a loop or a
server drafted: rows that keep the first token, no norm at the output, and rows that stay though they should go."""

import copy
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import permutations
from typing import Any

import torch

from engines.models.adapters.layered import RAW
from engines.models.drafters.network import ROPE_BASE, Rotation

MOST_ORDERED = 3  # states whose orders are all tried
BASES = (ROPE_BASE, 500_000.0, 1_000_000.0, 5_000_000.0)  # of the rotations, that published models have


@dataclass(frozen=True)
class Turn:
    """A slip turned: what it is called, the sentence that says what would be wrong, and the drafter with it turned.
    form: which of several turns of this slip it is."""

    name: str
    wrong: str
    turned: Any
    form: str = ""


def turns(drafter: Any, target: Any) -> Iterator[Turn]:
    """All that apply to a drafter of this format, loaded for this target."""
    for step in (1, -1):
        if (reads := _shifted(drafter, step)) is not None:
            wrong = (
                f"It was trained on the states of layers {_told(reads)}, and reads those of {_told(drafter.reads)}: "
                "ids that count outputs of layers were taken for inputs, or the other way round."
            )
            yield Turn(f"layer ids {step:+d}", wrong, _with(drafter, reads=reads))
    if hasattr(drafter, "residual_normed"):
        word = "is" if drafter.residual_normed else "is not"
        wrong = (
            f"norm_before_residual {word} set, and its weights are those of the other form: the flag got lost or was "
            "added in a conversion."
        )
        yield Turn("norm_before_residual", wrong, _with(drafter, residual_normed=not drafter.residual_normed))
        yield from _fc_norms(drafter)
    if hasattr(drafter, "output_normed"):
        form = "raw" if drafter.output_normed else "behind the norm"
        wrong = f"norm_output={drafter.output_normed} is wrong: it was trained to read its own output {form}."
        yield Turn("norm_output", wrong, _with(drafter, output_normed=not drafter.output_normed))
    yield from _orders(drafter)
    if drafter.stack:
        yield from _bases(drafter, target, drafter.stack[0].sizes)
        yield from _eps(drafter, target, drafter.stack[0].sizes)
    if drafter.table is not None and drafter.table.shape[1] == drafter.width:
        wrong = "It brings embeddings of its own, and was trained on the target's."
        yield Turn("embeddings", wrong, _with(drafter, table=None))
    if drafter.vocabulary is not None:
        yield from _ids(drafter)


def _shifted(drafter: Any, step: int) -> tuple[int, ...] | None:
    """Its layer ids shifted, as `extend` numbers them; None where a layer would not be there. A drafter of the last
    state alone has only the stream before the final norm on its other side."""
    n, reads = drafter.num_layers, drafter.reads
    if reads == (n,):
        return (RAW,) if step < 0 else None
    if reads == (RAW,):
        return (n,) if step > 0 else None
    shifted = [(n if i == RAW else i) + step for i in reads]
    if not all(0 <= i <= n for i in shifted):
        return None
    return tuple(RAW if i == n else i for i in shifted)


def _orders(drafter: Any) -> Iterator[Turn]:
    """What it reads in another order: states, and embedding and state in its first projection and first attention."""
    reads, fc, layer = drafter.reads, getattr(drafter, "fc", None), next(iter(drafter.stack), None)
    for other in dict.fromkeys(permutations(reads)) if 1 < len(reads) <= MOST_ORDERED else ():
        if other != reads:
            wrong = f"It was trained on the states of layers {_told(other)} in this order, and reads {_told(reads)}."
            yield Turn("order of the states", wrong, _with(drafter, reads=other), _told(other))
    if len(reads) > 1:
        for i, step in ((i, step) for i in range(len(reads)) for step in (1, -1)):
            if (moved := _shifted(_with(drafter, reads=reads[i : i + 1]), step)) is not None:
                shifted = (*reads[:i], *moved, *reads[i + 1 :])
                wrong = f"It was trained on the states of layers {_told(shifted)}, and reads those of {_told(reads)}."
                yield Turn("one layer id", wrong, _with(drafter, reads=shifted), f"{i + 1}: {step:+d}")
    order = "It reads embedding and state in one order in {}, and was trained with the other."
    if fc is not None and len(reads) != 2 and fc.shape[1] % 2 == 0:
        yield Turn("halves of fc", order.format("fc"), _with(drafter, fc=_halved(fc)))
    if layer is not None and layer.q.shape[1] == 2 * drafter.width:
        for names in ("qkv", "q", "k", "v"):
            halved = {name: _halved(getattr(layer, name)) for name in names}
            wrong = order.format(", ".join(f"{name}_proj" for name in names))
            twin = _with(drafter, **_first_with(drafter, **halved))
            yield Turn("halves of the attention's input", wrong, twin, ", ".join(names))
    for name in "qkv" if layer is not None else "":
        w = getattr(layer, name)
        if len(w) % 4 == 0:
            wrong = (
                f"The two halves of the heads in {name}_proj are exchanged, as a wrong merge of two parts leaves them."
            )
            twin = _with(drafter, **_first_with(drafter, **{name: w.roll(len(w) // 2, 0)}))
            yield Turn("halves of the heads", wrong, twin, name)
    yield from _heads(drafter)
    if hasattr(drafter, "e_norm") and hasattr(drafter, "s_norm"):
        wrong = "The norms of embedding and state are exchanged: the names of the two tensors were mixed up."
        yield Turn("norms exchanged", wrong, _with(drafter, e_norm=drafter.s_norm, s_norm=drafter.e_norm))


def _heads(drafter: Any) -> Iterator[Turn]:
    """The same rows cut into twice as many heads, and half as many."""
    layer = next(iter(drafter.stack), None)
    if layer is None or layer.q_norm is not None or len({block.H for block in drafter.stack}) > 1:
        return
    sizes = layer.sizes
    for e in (sizes.head_dim // 2, sizes.head_dim * 2):
        if e % 2 or len(layer.q) % e or len(layer.k) % e:
            continue
        cut = replace(sizes, head_dim=e, heads=len(layer.q) // e)
        parts = [_with(block, sizes=cut, H=len(block.q) // e, G=len(block.k) // e) for block in drafter.stack]
        wrong = f"Its attention was trained with heads of {e} numbers, and its config says {sizes.head_dim}."
        twin = _with(drafter, rotation=Rotation(cut, drafter.target.device), stack=parts)
        yield Turn("heads", wrong, twin, f"of {e}")


def _halved(w: torch.Tensor) -> torch.Tensor:
    """[d, w] with the halves of its columns exchanged."""
    return w.roll(w.shape[1] // 2, 1)


def _first_with(drafter: Any, **changes: Any) -> dict[str, Any]:
    """The attributes of a drafter whose first layer differs in this."""
    first, *others = drafter.stack
    return {"stack": [_with(first, **changes), *others]}


def _told(reads: tuple[int, ...]) -> str:
    return ", ".join("the last (before its norm)" if i == RAW else str(i) for i in reads)


def _fc_norms(drafter: Any) -> Iterator[Turn]:
    """The norm before fc: taken away where there is one, put in (with weights of one) where there is none."""
    if drafter.input_norm is not None or drafter.fc_norms:
        wrong = "It has a norm before fc, and its fc was trained without one."
        yield Turn("norm before fc", wrong, _with(drafter, input_norm=None, fc_norms=[]))
        return
    ones = torch.ones(drafter.fc.shape[1], dtype=drafter.fc.dtype, device=drafter.fc.device)
    wrong = "Its fc was trained behind a norm of the states, and the files have none: the tensor got lost."
    yield Turn("norm before fc", wrong, _with(drafter, input_norm=ones), "one for all states")
    each = _with(drafter, fc_norms=[ones[: drafter.width]] * (len(ones) // drafter.width))
    yield Turn("norm before fc", wrong.replace("a norm", "a norm for each"), each, "one for each state")


def _eps(drafter: Any, target: Any, sizes: Any) -> Iterator[Turn]:
    """The epsilon of the norms: the target's."""
    eps = float(getattr(target.config, "rms_norm_eps", sizes.eps))
    if eps != sizes.eps:
        wrong = f"Its norms were trained with rms_norm_eps={eps:g} (the target's), and its config says {sizes.eps:g}."
        changed = [_with(layer, sizes=replace(layer.sizes, eps=eps)) for layer in drafter.stack]
        yield Turn("rms_norm_eps", wrong, _with(drafter, stack=changed))


def _bases(drafter: Any, target: Any, sizes: Any) -> Iterator[Turn]:
    rope = getattr(target.config, "rope_parameters", None) or {}
    own = float(rope.get("rope_theta") or getattr(target.config, "rope_theta", 0) or ROPE_BASE)
    for base in dict.fromkeys((own, *BASES)):
        if base != sizes.theta:
            missing = " (what a missing rope_theta means)" if base == ROPE_BASE else ""
            whose = " (the target's)" if base == own else missing
            wrong = (
                f"Its rotations were trained with the base {base:,.0f}{whose}, and its config says {sizes.theta:,.0f}."
            )
            rotation = Rotation(replace(sizes, theta=base), drafter.target.device)
            yield Turn("rope base", wrong, _with(drafter, rotation=rotation), f"{base:,.0f}")


def _ids(drafter: Any) -> Iterator[Turn]:
    """d2t read the other way: its numbers are ids where they were read as offsets, or offsets where as ids."""
    columns = torch.arange(drafter.columns, device=drafter.vocabulary.device)
    offsets = drafter.vocabulary - columns
    for wrong, vocabulary, form in (
        ("d2t holds the tokens themselves, and was read as offsets.", offsets, "as ids"),
        ("d2t holds offsets, and was read as the tokens themselves.", drafter.vocabulary + columns, "as offsets"),
    ):
        if 0 <= int(vocabulary.min()) <= int(vocabulary.max()) < drafter.vocab_size:
            yield Turn("d2t", wrong, _with(drafter, vocabulary=vocabulary), form)


def _with(drafter: Any, **changes: Any) -> Any:
    """A drafter that shares all tensors and differs in this."""
    twin = copy.copy(drafter)
    for name, value in changes.items():
        setattr(twin, name, value)
    return twin
