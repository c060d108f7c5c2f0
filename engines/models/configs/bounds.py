"""What a stranger's checkpoint may ask of this machine before anything of it is built or run: a network that its
weights can fill, and a chat template that comes to an end."""

import ctypes
import re
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from engines.core.errors import UserError
from engines.models.files.hub import count_parameters, header, shards

T = TypeVar("T")
LAYERS = ("num_hidden_layers", "num_layers", "n_layers", "n_layer", "num_decoder_layers", "encoder_layers")
WIDTHS = ("hidden_size", "d_model", "n_embd")
SIDES = ("vocab_size", "intermediate_size", "mlp_hidden_size", "d_ff")
EXPERTS, MOST_EXPERTS = ("num_experts", "num_local_experts", "n_routed_experts"), 4096
EXPERT = re.compile(r"(.*\.experts\.)(\d+)(\..*)")  # a tensor of one
SPARE = 32  # times as many numbers as there are: quantised weights hold several in one
FEW = 10**6  # numbers that are always allowed


class Late(Exception):
    """Raised inside what takes too long."""


def check_size(raw: Mapping[str, Any], folder: Path, name: str) -> None:
    """Raises UserError for a config.json that describes a network far larger than the weights beside it, its part for
    text included."""
    if isinstance(text := raw.get("text_config"), Mapping):
        check_size(text, folder, name)
    held, tensors = count_parameters(folder), sum(len(header(shard)) for shard in shards(folder))
    if raw.get("draft_of"):  # its embedding is its target's
        return

    def given(*names: str) -> list[tuple[str, int]]:
        return [(key, raw[key]) for key in names if isinstance(raw.get(key), int)]

    wide = max((value for _, value in given(*WIDTHS)), default=1)
    for key, value in given(*LAYERS, *WIDTHS, *SIDES, *EXPERTS):
        most = (
            max(tensors, 1)
            if key in LAYERS
            else MOST_EXPERTS
            if key in EXPERTS
            else (FEW + SPARE * held) // max(1, wide if key in SIDES else 1)
        )
        if not 0 <= value <= most:
            raise UserError(
                f"config.json of '{name}' says {key}={value}, which the {tensors:,} tensors ({held:,} numbers) in its "
                f"folder cannot fill; download it again or choose another model."
            )


def check_experts(raw: Mapping[str, Any], folder: Path, name: str) -> None:
    """Raises UserError where a matrix of an expert is missing, with its name: experts are stacked while they are read,
    and what would be said then names none."""
    wanted = next((raw[key] for key in EXPERTS if isinstance(raw.get(key), int)), 0)
    held: dict[tuple[str, str], set[int]] = {}
    for shard in shards(folder):
        for match in filter(None, map(EXPERT.fullmatch, header(shard))):
            held.setdefault((match[1], match[3]), set()).add(int(match[2]))
    for (before, after), numbers in held.items():
        if lost := sorted(set(range(wanted)) - numbers):
            raise UserError(
                f"'{name}' has {len(numbers)} of {wanted} experts in its files: {before}{lost[0]}{after} is missing; "
                "download it again."
            )


def within(seconds: float, compute: Callable[[], T], what: str) -> T:
    """The value of `compute`, run in a thread that is given up after that long. Raises UserError, and what `compute`
    raises."""
    results: list[T] = []
    failed: list[BaseException] = []

    def work() -> None:
        try:
            results.append(compute())
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=work, name="bounded", daemon=True)
    thread.start()
    thread.join(seconds)
    if thread.is_alive():
        assert thread.ident is not None
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident), ctypes.py_object(Late))
        thread.join(1)
        raise UserError(f"{what} did not come to an end within {seconds:g} seconds; choose another model.")
    if failed:
        raise failed[0]
    return results[0]
