"""How much memory a checkpoint needs, from its config.json alone: the network of its plan, built without numbers (on
torch's device meta), tells every parameter that it has. A GGUF file tells them in its header."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from engines.core.devices import GIGABYTE, cards, chosen_device, free_bytes, gigabytes
from engines.core.errors import UserError
from engines.models.configs.bounds import check_size, within
from engines.models.configs.mapping import plan
from engines.models.configs.plans import Plan, check_class, config_of, refusing
from engines.models.files.hub import count_parameters, header, read_json, shards, tokenizer_folder
from engines.models.files.unread import check_tokenizer
from engines.models.gguf.header import GGUFHeader
from engines.models.layers.quantised import BITS, codable, coded_bytes

LARGE = GIGABYTE  # bytes of weights from which on it is told what they need, and refused where there is no room
SMALL = 100e6  # bytes of weights up to which float32 is the default
SECONDS = 60.0  # that a network without numbers may take to build
CACHED = ("k_proj", "v_proj")  # names of the layers that make keys and values
OWN_KINDS = ("reader", "scene")  # kinds of our own networks, which no class of transformers holds
SPREAD = ("auto", "balanced", "balanced_low_0", "sequential")  # device maps that transformers fills in itself


class NoRoom(UserError):
    """The weights do not fit into the memory that is free."""


@dataclass(frozen=True)
class Size:
    """What a model needs. parameters: of the network, shared ones once. weights: bytes, as they are loaded, exact.
    cache: bytes that a position of text takes in the key-value cache where every layer keeps it, an estimate from the
    shapes of the layers; 0 where that cannot be told. parts: bytes of every tensor, by name."""

    name: str
    parameters: int
    dtype: str
    quantization: str
    weights: int
    cache: int = 0
    parts: Mapping[str, int] = field(default_factory=dict, repr=False)

    def __str__(self) -> str:
        form = f"{self.quantization} and {self.dtype}" if self.quantization else self.dtype
        cache = f", and about {gigabytes(self.cache * 1000)} of cache for 1,000 tokens" if self.cache else ""
        return f"{self.name} has {self.parameters:,} parameters: {gigabytes(self.weights)} of weights as {form}{cache}"

    @property
    def large(self) -> bool:
        """Whether it is refused where there is no room, and worth a word before it is loaded."""
        return self.weights >= LARGE

    def beside(self, device: str, device_map: Any = None) -> str:
        """What it needs, with what is free on the devices that it would go to."""
        places = {place for group, _ in shares(self, chosen_device(device), device_map) for place in group}
        rooms = {place: free_bytes(place) for place in sorted(places)}
        sentences = [f"{gigabytes(room)} are free on {place}" for place, room in rooms.items() if room is not None]
        return "; ".join([str(self), *sentences])


def size_of_folder(
    folder: Path, name: str, dtype: Any = None, quantization: Any = None, block_size: int | None = None
) -> Size:
    """What a folder that has a config.json needs, with weights in it or without. Raises UserError."""
    if not (folder / "config.json").is_file():
        raise UserError(f"'{name}' has no config.json, so it is not a transformers model; what it needs is not known.")
    check_tokenizer((file.name for file in tokenizer_folder(folder).iterdir()), name)
    raw = read_json(folder / "config.json")
    if quantization is not None and quantization not in BITS:
        raise UserError(f"quantisation '{quantization!s:.40}' is unknown; choose {' or '.join(BITS)}, or leave it out.")
    files = _files(folder)
    if files:
        check_size(raw, folder, name)
    with refusing(name, {}):
        how = plan(read_json(folder / "generation_config.json") | raw, name, block_size)
    stored = stored_dtype(files, raw)
    if how.kind in OWN_KINDS or raw.get("draft_of"):
        numbers = count_parameters(folder)
        chosen = chosen_dtype(dtype, stored, numbers * stored.itemsize)
        return Size(name, numbers, _word(chosen), "", numbers * chosen.itemsize)
    with refusing(name, {}):
        network = within(SECONDS, lambda: network_without_numbers(folder, name, how), f"building '{name}'")
    tensors = {key: tensor for key, tensor in network.named_parameters() if not key.startswith(how.unread)}
    numbers = sum(tensor.numel() for tensor in tensors.values())
    chosen = chosen_dtype(dtype, stored, numbers * stored.itemsize)
    parts = {key: tensor.numel() * chosen.itemsize for key, tensor in tensors.items()}
    for key, tensor in codable(network) if quantization else ():
        if key in parts:
            parts[key] = round(coded_bytes(tensor, quantization))
    buffers = {key: buffer for key, buffer in network.named_buffers() if not key.startswith(how.unread)}
    parts |= {key: buffer.numel() * buffer.element_size() for key, buffer in buffers.items()}
    cache = _cache(network) * chosen.itemsize
    return Size(name, numbers, _word(chosen), quantization or "", sum(parts.values()), cache, parts)


def size_of_header(header: GGUFHeader, name: str) -> Size:
    """What a GGUF file with this header needs."""
    return Size(name, header.parameters, header.quantisation, "", header.bytes, header.kv_bytes)


def refuse_options(name: str, options: Mapping[str, Any]) -> None:
    """Raises UserError where something is wished for a GGUF file that is settled in it."""
    if wished := next((option for option, value in options.items() if value is not None), None):
        raise UserError(
            f"{wished} is not an option of a GGUF file, whose weights are used as they lie in it, and '{name}' is one; "
            "leave it out, or take another file of the model."
        )


def check_gguf(size: Size, device: str, positions: int) -> None:
    """Raises NoRoom, with the figures, where the weights and the cache of so many positions do not fit into the memory
    that is free. Small models are not held against it."""
    needed, free = size.weights + size.cache * positions, free_bytes(device)
    if not size.large or free is None or needed <= free:
        return
    cache = f" and {gigabytes(size.cache * positions)} of cache for {positions:,} tokens" if size.cache else ""
    shorter = "a shorter context, " if size.weights <= free else ""
    raise NoRoom(
        f"'{size.name}' takes {gigabytes(size.weights)} of weights as {size.dtype}{cache}, and {gigabytes(free)} are "
        f"free on {device}; choose {shorter}a file of fewer bits (Q4_K_M has about 4.8 a weight), or a smaller model."
    )


def _files(folder: Path) -> list[Path]:
    """The weight files, where all of them are there: of a model of the hub they may still be on their way."""
    files = shards(folder)
    return files if all(file.is_file() for file in files) else []


def network_without_numbers(folder: Path, name: str, how: Plan) -> Any:
    """The network of a plan on torch's device meta. Raises UserError."""
    import torch
    import transformers

    config = config_of(folder, name, how)
    check_class(config, how, name)
    made = getattr(transformers, how.model_class)
    with torch.device("meta"):
        network = made.from_config(config) if how.model_class.startswith("Auto") else made(config)
    network.tie_weights()
    return network


def _cache(network: Any) -> int:
    """Numbers that a position takes in the cache: the widths of the layers that make keys and values, each weight
    counted once; values that are the keys' own are kept, too."""
    seen, total = set[int](), 0
    for module in network.modules():
        keys, values = (getattr(module, name, None) for name in CACHED)
        if keys is not None and hasattr(keys, "out_features") and id(keys.weight) not in seen:
            seen.add(id(keys.weight))
            total += keys.out_features + getattr(values, "out_features", keys.out_features)
    return total


def stored_dtype(files: list[Path], raw: Mapping[str, Any]) -> Any:
    """The type in which a checkpoint's weights lie: what transformers takes for "auto"."""
    import torch

    types = {"F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16"}
    nested = raw.get("text_config")
    text: Mapping[str, Any] = nested if isinstance(nested, Mapping) else {}
    type_name = next(
        (str(config[key]) for config in (raw, text) for key in ("dtype", "torch_dtype") if config.get(key)), ""
    )
    held = (entry.get("dtype") for file in files for entry in header(file).values())
    dtype = getattr(torch, type_name.removeprefix("torch."), None) if type_name else None
    if not isinstance(dtype, torch.dtype):
        dtype = getattr(torch, next((types[str(code)] for code in held if code in types), "float32"))
    return dtype


def chosen_dtype(wanted: Any, stored: Any, stored_bytes: float) -> Any:
    """The type that weights are loaded in: the one that is wished; else float32 for few bytes, as stored for more.
    Raises UserError."""
    import torch

    if wanted is None:
        return torch.float32 if stored_bytes <= SMALL else stored
    value = getattr(torch, wanted.removeprefix("torch."), None) if isinstance(wanted, str) else wanted
    if wanted == "auto":
        return stored
    if not (isinstance(value, torch.dtype) and value.is_floating_point):
        raise UserError(f"dtype '{wanted}' is unknown; choose float32, bfloat16, float16 or auto (as stored).")
    return value


def _word(dtype: Any) -> str:
    return str(dtype).removeprefix("torch.")


def check_folder(folder: Path, name: str, device: str, dtype: Any, options: Mapping[str, Any]) -> None:
    """Raises NoRoom, with the figures, where the weights of a large model do not fit into the memory that is free.
    options: of `load_model`."""
    wish, block_size = options.get("quantization"), options.get("block_size")
    if wish is not None and not isinstance(wish, str):
        return  # a config of transformers, which alone knows what it makes of the weights
    size = size_of_folder(folder, name, dtype, wish, block_size)
    if size.weights < LARGE:
        return

    def smaller() -> dict[str, int]:
        return {} if wish else {bits: size_of_folder(folder, name, dtype, bits, block_size).weights for bits in BITS}

    check_room(size, device, options.get("device_map"), smaller)


def check_room(
    size: Size, device: str, device_map: Any = None, smaller: Callable[[], Mapping[str, float]] = dict
) -> None:
    """Raises NoRoom where the weights alone do not fit into the free memory of the places that they go to. smaller: a
    quantisation -> bytes of the weights with it, to be named where that would fit."""
    for places, needed in shares(size, device, device_map):
        rooms = [free_bytes(place) for place in places]
        if None in rooms or needed <= (free := sum(room or 0 for room in rooms)):
            continue
        fitting = {wish: count for wish, count in smaller().items() if count <= free}
        ways = [f"quantisation {wish} ({gigabytes(count)})" for wish, count in fitting.items()]
        if not device_map and places != ["cpu"] and needed <= free + (free_bytes("cpu") or 0):
            ways.append("device_map auto")
        asked, there, form = gigabytes(needed), " + ".join(places), size.quantization or size.dtype
        if ways:
            raise NoRoom(
                f"the weights of '{size.name}' take {asked} as {form}, and {gigabytes(free)} are free on {there}; "
                f"choose {', '.join(ways)}, or a smaller model."
            )
        raise NoRoom(
            f"the weights of '{size.name}' take {asked} as {form}, and {gigabytes(free)} are free on {there}; choose a "
            "smaller model, or a machine with more memory."
        )


def shares(size: Size, device: str, device_map: Any) -> list[tuple[list[str], float]]:
    """Groups of devices, and how many bytes each has to hold."""
    if isinstance(device_map, Mapping):
        totals: dict[str, float] = {}
        places = {
            str(part): f"cuda:{target}" if isinstance(target, int) else str(target)
            for part, target in device_map.items()
        }
        for name, count in size.parts.items():
            holders = [part for part in places if not part or name == part or name.startswith(f"{part}.")]
            if holders:
                place = places[max(holders, key=len)]
                totals[place] = totals.get(place, 0) + count
        return [([place], count) for place, count in totals.items() if place != "disk"]
    if device_map in SPREAD:
        beside = [] if size.quantization and cards() else ["cpu"]
        return [([*cards(), *beside], size.weights)]
    return [([str(device_map or device)], size.weights)]
