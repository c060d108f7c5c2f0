"""What a GGUF file says of itself: the keys and the table of tensors before its weights, which are not read.

The package `gguf` reads files, too, but makes an array of every token and merge (seconds for 150,000 of each); here
they are counted and passed over. The format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md."""

import mmap
import re
import struct
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from math import prod
from pathlib import Path
from typing import Any

from engines.core.errors import UserError
from engines.models.gguf import refusals

MAGIC, VERSIONS = b"GGUF", (2, 3)
UNSHIFTED, SHIFTED = (
    "llada llada-moe".split(),
    "dream rnd1".split(),
)  # diffusion; rows of the latter tell the next token
ORIGINAL, LONG_ROPE = "rope.scaling.original_context_length", "rope_factors_long.weight"
TOWERS = ("v.", "mm.", "a.")  # before the names of tensors that look or listen
MISTRAL_7B = {"block_count": 32, "embedding_length": 4096, "feed_forward_length": 14336, "attention.head_count_kv": 8}
PART = re.compile(r"(?P<stem>.+)-(?P<number>\d{5})-of-(?P<count>\d{5})\.gguf", re.IGNORECASE)
ENDS = ("eos", "eot", "eom")  # of the text, of a turn, of a message to a tool
SCALARS = {i: struct.Struct(f"<{form}") for i, form in enumerate("BbHhIif?")} | {
    i: struct.Struct(f"<{form}") for i, form in zip((10, 11, 12), "Qqd", strict=True)
}
COUNT, SHORT = SCALARS[10], SCALARS[4]
TEXT, ARRAY = 8, 9
LONGEST = 4096  # numbers of an array that is kept; there is none longer but of tokens
MOST = 10_000_000  # keys, tensors or texts of a list; no file has more, and a damaged one might say so
HALF = 2  # bytes of a number of the cache
DIMENSIONS = 4  # that a tensor has at most


@dataclass(frozen=True)
class GGUFHeader:
    """What a model's file says of itself.

    path: of the first file; parts: all files, in order. type: model, adapter, imatrix or mmproj. architecture: as
    llama.cpp calls it. parameters and bytes: of all tensors. quantisation: how the weights are coded, by
    llama.cpp's word for it (Q4_K_M), else the type that most of their bytes have. context: positions that it was
    trained for. vocab: tokens. kv_bytes: that a position takes in the cache at float16 over all layers; 0 where
    llama.cpp keeps none, as for diffusion. window: positions of its sliding window, 0 without one. rotations: positions
    up to which its rotations are those of a short text (LongRoPE), 0 where they never change. mask_id: the mask's
    token, or None. end_ids: tokens that end an answer, a turn or a message. tokenizer: llama.cpp's word for its kind
    (gpt2, llama, ...), "" for none. causal: whether positions see earlier ones only. shift: whether row i
    is about token i + 1 on a board of masks. pooling: how rows become one vector, 0 for not at all. towers: whether
    what sees or hears is in the same file. keys: everything else that the file says, without its long lists."""

    path: Path
    parts: tuple[Path, ...]
    type: str
    architecture: str
    name: str
    parameters: int
    bytes: int
    quantisation: str
    layers: int
    context: int
    vocab: int
    kv_bytes: int
    window: int
    rotations: int
    mask_id: int | None
    end_ids: tuple[int, ...]
    chat_template: str
    tokenizer: str
    causal: bool
    shift: bool
    pooling: int = 0
    towers: bool = False
    keys: Mapping[str, Any] = field(default_factory=dict, repr=False)


@dataclass(frozen=True)
class _Tensor:
    name: str
    elements: int
    kind: str
    size: int  # bytes


def read_header(path: Path) -> GGUFHeader:
    """The header of a model's file, or of all files of a split one, of which any may be given. Raises UserError for
    what is no GGUF file or not a whole one, for a part that is missing and for a file without a tokenizer."""
    files = _files(path)
    keys, tensors = _read(files[0])
    named = files[0].name
    count = _whole(keys, "split.count")
    if count > 1 and len(files) == 1:
        raise UserError(
            f"'{named}' is one of {count} files of a model and does not bear its number; give the files the names that "
            f"they were published under, such as model-00001-of-{count:05}.gguf."
        )
    for part in files[1:]:
        tensors += _read(part)[1]
    header = _header(files, keys, tensors)
    if not header.tokenizer:
        refusals.check(header)  # what is no model has none, and is better told by what it is
        raise UserError(
            f"'{named}' has no tokenizer in it, so no text can be read or written; take another GGUF of it."
        )
    return header


def _files(path: Path) -> tuple[Path, ...]:
    """All files of the model, the one that is given among them."""
    match = PART.fullmatch(path.name)
    if not match or int(match["count"]) < 2:
        return (path,)
    names = [f"{match['stem']}-{i + 1:05}-of-{match['count']}{path.suffix}" for i in range(int(match["count"]))]
    parts = tuple(path.with_name(name) for name in names)
    if missing := [part.name for part in parts if not part.is_file()]:
        more = f" (and {len(missing) - 1} more)" if missing[1:] else ""
        raise UserError(
            f"'{path.name}' is one of {len(parts)} files, and {missing[0]}{more} is not in its folder; put all of them "
            "into one folder."
        )
    return parts


def _header(files: tuple[Path, ...], keys: dict[str, Any], tensors: list[_Tensor]) -> GGUFHeader:
    architecture = str(keys.get("general.architecture", ""))

    def of_it(key: str) -> int:
        return _whole(keys, f"{architecture}.{key}")

    held = Counter[str]()
    for tensor in tensors:
        held[tensor.kind] += tensor.size
    ends = [keys.get(f"tokenizer.ggml.{end}_token_id") for end in ENDS]
    mask, word = keys.get("tokenizer.ggml.mask_token_id"), str(keys.get("tokenizer.ggml.model", ""))
    two_way = architecture in (*UNSHIFTED, *SHIFTED)
    return GGUFHeader(
        path=files[0],
        parts=files,
        type=str(keys.get("general.type", "model")),
        architecture=architecture,
        name=str(keys.get("general.name") or files[0].stem),
        parameters=sum(tensor.elements for tensor in tensors),
        bytes=held.total(),
        quantisation=_coded(keys) or (held.most_common(1)[0][0] if held else ""),
        layers=of_it("block_count"),
        context=of_it("context_length"),
        vocab=_whole(keys, "tokenizer.ggml.tokens") or of_it("vocab_size"),
        kv_bytes=0 if two_way else _cache(keys, architecture),
        window=of_it("attention.sliding_window") or (4096 if _untold_window(keys, architecture) else 0),
        rotations=of_it(ORIGINAL) if any(tensor.name.endswith(LONG_ROPE) for tensor in tensors) else 0,
        mask_id=mask if isinstance(mask, int) else None,
        end_ids=tuple(dict.fromkeys(end for end in ends if isinstance(end, int))),
        chat_template=str(keys.get("tokenizer.chat_template", "")),
        tokenizer="" if word == "no_vocab" else word,
        causal=not two_way and keys.get(f"{architecture}.attention.causal") is not False,
        shift=two_way and bool(keys.get("diffusion.shift_logits", architecture in SHIFTED)),
        pooling=of_it("pooling_type"),
        towers=any(tensor.name.startswith(TOWERS) for tensor in tensors),
        keys=keys,
    )


def _untold_window(keys: Mapping[str, Any], architecture: str) -> bool:
    """Whether this is Mistral 7B v0.1, or was tuned from it: llama.cpp's converter writes nothing of its window. It is
    known by its sizes, which are those of v0.2 and of Llama 3, too, and by the base of its rotations, which is not."""
    sizes = {key: _whole(keys, f"llama.{key}") for key in MISTRAL_7B}
    base, scaled = keys.get("llama.rope.freq_base", 1e4), any(key.startswith("llama.rope.scaling.") for key in keys)
    return architecture == "llama" and sizes == MISTRAL_7B and base == 1e4 and not scaled


def _coded(keys: Mapping[str, Any]) -> str:
    """The word of the file for how its weights are coded, "" where it says none."""
    from gguf import LlamaFileType

    names = {int(kind): kind.name for kind in LlamaFileType if kind is not LlamaFileType.GUESSED}
    word = names.get(keys.get("general.file_type", -1), "")
    return word.removeprefix("ALL_").removeprefix("MOSTLY_")


def _cache(keys: Mapping[str, Any], architecture: str) -> int:
    """Bytes of a position's keys and values at float16 in all layers that keep them."""
    layers = _whole(keys, f"{architecture}.block_count") - _whole(keys, f"{architecture}.attention.shared_kv_layers")
    heads = keys.get(f"{architecture}.attention.head_count")
    sharing = keys.get(f"{architecture}.attention.head_count_kv", heads)
    by_layer = [int(n) for n in sharing][:layers] if isinstance(sharing, list) else [int(sharing or 0)] * layers
    query_heads = max(_whole(keys, f"{architecture}.attention.head_count"), 1)
    usual = _whole(keys, f"{architecture}.embedding_length") // query_heads
    widths = [_whole(keys, f"{architecture}.attention.{part}_length") or usual for part in ("key", "value")]
    return sum(by_layer) * sum(widths) * HALF


def _whole(keys: Mapping[str, Any], key: str) -> int:
    """A number of the file, or the greatest of a list; 0 for none."""
    value = keys.get(key, 0)
    numbers = [n for n in value if isinstance(n, int)] if isinstance(value, list) else [value]
    return max((n for n in numbers if isinstance(n, int)), default=0)


def _read(file: Path) -> tuple[dict[str, Any], list[_Tensor]]:
    with _opened(file) as data:
        _check_version(file.name, data)
        cursor = _Cursor(data, 8)
        try:
            count, of_keys = cursor.count(), cursor.count()
            keys = dict(cursor.entry() for _ in range(of_keys))
            infos = [cursor.tensor() for _ in range(count)]
        except (struct.error, OverflowError):
            raise UserError(
                f"'{file.name}' breaks off in its header, after {len(data):,} bytes; download it again."
            ) from None
        except ValueError as error:
            raise UserError(f"'{file.name}' is damaged ({error}); download it again.") from None
        return keys, _measured(file.name, len(data), cursor.at, _whole(keys, "general.alignment") or 32, infos)


@contextmanager
def _opened(file: Path) -> Iterator[mmap.mmap | bytes]:
    try:
        with open(file, "rb") as stream:
            if stream.seek(0, 2) == 0:
                yield b""
                return
            with mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data:
                yield data
    except OSError as error:
        raise UserError(f"'{file}' cannot be read ({error.strerror or error}); give the path of a GGUF file.") from None


def _check_version(name: str, data: mmap.mmap | bytes) -> None:
    """Raises UserError where this is no GGUF file, or one of another version."""
    if data[:4] != MAGIC:
        raise UserError(
            f"'{name}' is not a GGUF file: it does not begin with the four letters GGUF; give one that does."
        )
    version = SHORT.unpack(data[4:8].ljust(4, b"\0"))[0]
    if version and not version & 0xFFFF:
        raise UserError(f"'{name}' was written for big-endian machines; take the usual GGUF of the same model.")
    if version > VERSIONS[-1]:
        raise UserError(
            f"'{name}' is of version {version} of the format, and versions {VERSIONS[0]} to {VERSIONS[-1]} are read "
            "here; update decoding-explorer, or take an older file."
        )
    if version < VERSIONS[0]:
        raise UserError(
            f"'{name}' is of version {version} of the format, which llama.cpp no longer reads; take a newer file of it."
        )


class _Cursor:
    """Reads one thing after the other. Raises struct.error behind the end, ValueError for what cannot be."""

    def __init__(self, data: mmap.mmap | bytes, at: int) -> None:
        self.data, self.at = data, at

    def number(self, form: struct.Struct) -> Any:
        value = form.unpack_from(self.data, self.at)[0]
        self.at += form.size
        return value

    def count(self) -> int:
        number = int(self.number(COUNT))
        if number > MOST:
            raise ValueError(f"it counts {number:,} of something")
        return number

    def text(self) -> str:
        length = self.number(COUNT)
        return self._bytes(length).decode("utf-8", "replace")

    def _bytes(self, count: int) -> bytes:
        if count > len(self.data) - self.at:
            raise struct.error
        self.at += count
        return self.data[self.at - count : self.at]

    def entry(self) -> tuple[str, Any]:
        """A key and its value; of texts, and of a long list, their number."""
        key, kind = self.text(), self.number(SHORT)
        return key, self._list() if kind == ARRAY else self._value(kind)

    def _value(self, kind: int) -> Any:
        if kind == TEXT:
            return self.text()
        if kind not in SCALARS:
            raise ValueError(f"no value is of type {kind}")
        return self.number(SCALARS[kind])

    def _list(self) -> list[Any] | int:
        kind, count = self.number(SHORT), self.count()
        if kind == TEXT:
            self._skip_texts(count)
            return count
        if kind not in SCALARS:
            raise ValueError(f"no list is of type {kind}")
        raw = self._bytes(count * SCALARS[kind].size)
        return [value for (value,) in SCALARS[kind].iter_unpack(raw)] if count <= LONGEST else count

    def _skip_texts(self, count: int) -> None:
        data, at, unpack = self.data, self.at, COUNT.unpack_from
        for _ in range(count):
            at += 8 + unpack(data, at)[0]
        self.at = at

    def tensor(self) -> tuple[str, int, int, int]:
        """(name, numbers, code of the type, offset behind the header) of the next tensor."""
        name, dimensions = self.text(), self.number(SHORT)
        if dimensions > DIMENSIONS:
            raise ValueError(f"its tensor {name[:40]} has {dimensions} dimensions")
        elements = prod(self.number(COUNT) for _ in range(dimensions))
        return name, elements, self.number(SHORT), self.number(COUNT)


def _measured(
    name: str, length: int, behind: int, alignment: int, infos: list[tuple[str, int, int, int]]
) -> list[_Tensor]:
    """The tensors with their bytes. Raises UserError where they reach beyond the file of that length."""
    if not infos:
        return []
    from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType

    sizes = {int(kind): (kind.name, *GGML_QUANT_SIZES[kind]) for kind in GGMLQuantizationType}
    start = -(-behind // alignment) * alignment
    offsets = sorted({offset for *_, offset in infos} | {max(length - start, 0)})
    following = dict(pairwise(offsets))
    tensors, end = [], start
    for tensor_name, elements, code, offset in infos:
        if code in sizes:
            kind, block, size = sizes[code]
            tensor = _Tensor(tensor_name, elements, kind, elements // block * size)
        else:  # newer than the package gguf: it ends where the next one begins
            tensor = _Tensor(tensor_name, elements, f"type {code}", max(following.get(offset, offset) - offset, 0))
        tensors.append(tensor)
        end = max(end, start + offset + tensor.size)
    if end > length:
        raise UserError(
            f"'{name}' is not whole: its weights end at byte {end:,}, and the file has {length:,}; download it again."
        )
    return tensors
