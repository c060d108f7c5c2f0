"""GGUF files behind `CausalLM` and `MaskedLM`: llama.cpp computes, logits are all that is seen of it.

Shapes: L board positions, n rows fed, V vocabulary."""

import hashlib
import weakref
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from engines.core.errors import UserError
from engines.core.kinds import Extended, KVCache, Model
from engines.core.kinds.base import Ids, Parents
from engines.core.places import expanded
from engines.core.trace import ModelRecord
from engines.models.adapters.base import Warmed, check_board, check_mask_id, check_position, distributions
from engines.models.adapters.causal import place
from engines.models.gguf.header import ORIGINAL, GGUFHeader
from engines.models.gguf.llama_cpp import NOTHING, Context, Weights, library
from engines.models.gguf.sequences import BLOCK, SLACK, SequenceCache
from engines.models.gguf.tokenizer import GGUFTokenizer
from engines.models.layers.slots import check_capacity
from engines.models.tokenizers.tokens import check_end_ids, mask_of

ROWS, MOST_ROWS = 64, 512  # computed at once: so that a row keeps its bits, and as llama.cpp's own programs do


class GGUFModel(Warmed):
    """What both kinds share. full: computed in float32, as the weights are."""

    def __init__(
        self,
        weights: Weights,
        header: GGUFHeader,
        tokenizer: GGUFTokenizer,
        record: ModelRecord,
        eos_ids: frozenset[int],
    ) -> None:
        self.file, self.header, self.record, self.eos_ids = weights, header, record, eos_ids
        self.tokenizer: Any = tokenizer
        self.vocab_size, self.num_layers = weights.size, header.layers
        short = min(header.rotations or header.context, header.context)
        self.window_ignored = 0 < header.window < short and not weights.window  # by llama.cpp, as for Phi-3
        self.rotations_change = short < header.context and not self.window_ignored
        self.max_positions = header.window if self.window_ignored else short
        self.full = header.quantisation == "F32"
        self.device = torch.device("cpu")  # where token ids have to be, and where logits come

    def _context(self, cells: int, rows: int = 0) -> Context:
        steady = self.record.moved == 0
        return Context(
            self.file,
            -(-cells // BLOCK) * BLOCK,
            rows=rows or (ROWS if steady else MOST_ROWS),
            threads=torch.get_num_threads(),
            causal=self.header.causal,
            full=self.full,
            steady=steady,
        )


class GGUFCausalLM(GGUFModel):
    """See `CausalLM`. Its layers cannot be reached: `extend` gives no hidden states."""

    takes_trees = True
    alibi = False
    longest_answer = None
    picture = None

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._idle: list[Context] = []  # one at most: to make a context takes as long as several forwards

    @property
    def instead(self) -> str:
        """What to load for methods that read layers, in words."""
        return instead(self.header)

    @property
    def position_bytes(self) -> int:
        """Bytes of keys and values that a position takes in all layers."""
        return self.header.kv_bytes * (2 if self.full else 1)

    def _first_calls(self) -> None:
        cache = self.new_cache(4)
        self.extend([0, 0, 0], cache)
        self.extend([0], cache)

    def new_cache(self, capacity: int) -> SequenceCache:
        """An empty cache for up to `capacity` positions. Raises UserError where there is no memory for it."""
        check_capacity(capacity)
        cells = capacity + SLACK
        context = self._idle.pop() if self._idle and self._idle[0].cells >= cells else self._context(cells)
        context.clear()
        cache = SequenceCache(context, capacity, self.position_bytes)
        weakref.finalize(cache, _back, weakref.ref(self), context)
        return cache

    def extend(
        self,
        tokens: Ids,
        cache: KVCache,
        *,
        parents: Parents = None,
        hidden: Sequence[int] = (),
        last_only: bool = False,
    ) -> Extended:
        """See `CausalLM`. Logits [n, V] (or [1, V]) in float32. Raises UserError if rows do not fit the cache or the
        model's positions, and where hidden states are asked for."""
        assert isinstance(cache, SequenceCache)
        if hidden:
            raise UserError(
                f"this method reads hidden states and {self.record.name} is a GGUF file, of which llama.cpp gives "
                f"logits only; load {self.instead}, or choose another method."
            )
        ids = [int(token) for token in tokens]
        new = place(len(ids), parents, cache.length)
        if self.window_ignored and (last := max(new.positions)) >= self.max_positions:
            raise UserError(
                f"{self.record.name} has a sliding window of {self.max_positions} positions, which llama.cpp ignores, "
                f"and position {last} was fed; use a shorter prompt or fewer new tokens, or load the model's "
                "safetensors."
            )
        check_position(self, max(new.positions))
        early = new.past + new.early  # rows in the cache
        if new.chain:
            above = list(range(early - 1, early - 1 + len(ids)))
        else:
            above = [new.past + parent if parent >= 0 else new.past - 1 for parent in new.parents[new.early :]]
        return Extended(torch.from_numpy(cache.feed(ids, above, list(new.positions), last_only)))

    def by_itself(self, tokens: Ids) -> Tensor:
        """Logits [n, V] of a whole text, fed from the beginning into an empty context of its own."""
        ids = [int(token) for token in tokens]
        context = self._context(len(ids))
        return torch.from_numpy(context.feed(ids, range(len(ids)), [[0]] * len(ids)))


def _back(model: weakref.ref[GGUFCausalLM], context: Context) -> None:
    """Keep the context of a cache that is gone for the next one, the larger of two."""
    owner = model()
    if owner is not None and (not owner._idle or owner._idle[0].cells < context.cells):
        owner._idle[:] = [context]


def instead(header: GGUFHeader) -> str:
    """The form of a file's model whose layers can be reached, by the name that the file gives it, if any."""
    sources = ("general.source.huggingface.repository", "general.source.repo_url", "general.base_model.0.repo_url")
    named = next((str(header.keys[key]) for key in sources if header.keys.get(key)), "")
    name = named.removeprefix("https://huggingface.co/").strip("/")
    return f"the model's safetensors ({name or 'its hub id or folder'})"


class GGUFMaskedLM(GGUFModel):
    """See `MaskedLM`: a diffusion model whose rows see the whole board. Nothing is kept between forwards.

    shift: row i of the network predicts token i + 1; moved here, row 0 keeps its own. The mask is never proposed."""

    def __init__(self, *given: Any, mask_id: int, shift: bool) -> None:
        super().__init__(*given)
        self.mask_id, self.shift = check_mask_id(mask_id, self.vocab_size, self.record), shift
        self._board: Context | None = None

    def _first_calls(self) -> None:
        self(torch.full((min(8, self.max_positions),), self.mask_id))

    def __call__(self, x: Tensor) -> Tensor:
        """x [L] -> logits [L, V], or [B, L] -> [B, L, V], float32. Raises UserError if L exceeds `max_positions`."""
        length = x.shape[-1]
        check_board(self, length)
        if self._board is None or self._board.cells < length:
            cells = -(-length // BLOCK) * BLOCK
            self._board = self._context(cells, cells)
        boards = [self._one(board) for board in x.reshape(-1, length).tolist()]
        return torch.stack(boards).reshape(*x.shape, self.vocab_size)

    def _one(self, board: list[int]) -> Tensor:
        assert self._board is not None
        self._board.clear()
        logits = torch.from_numpy(self._board.feed(board, range(len(board)), [[0]] * len(board)))
        return distributions(logits, self)


def opened(header: GGUFHeader, name: str, layers: int, **options: Any) -> Model:
    """The model of a file with this header, with those of `load_gguf`'s options that concern it. Raises UserError."""
    # llama.cpp takes LongRoPE's factors of long texts in every context with room for one, whatever is in it
    short = {f"{header.architecture}.{ORIGINAL}": NOTHING} if header.rotations else {}
    weights = Weights(header.path, layers, short)
    tokenizer = GGUFTokenizer(weights, header.chat_template or None)
    given = {key: value for key, value in options.items() if value is not None}
    record = _record(name, header, tokenizer, given | ({"gpu_layers": layers} if layers else {}))
    ends = _ends(weights, header, options.get("eos_id"), name)
    if header.causal:
        return GGUFCausalLM(weights, header, tokenizer, record, ends)
    mask = mask_of(name, (options.get("mask_id"), header.mask_id), tokenizer.vocabulary())
    shift = header.shift if options.get("shift") is None else bool(options["shift"])
    return GGUFMaskedLM(weights, header, tokenizer, record, ends, mask_id=mask, shift=shift)


def _ends(weights: Weights, header: GGUFHeader, given: int | None, name: str) -> frozenset[int]:
    """The tokens that end an answer: the one that was given, or all that the file or llama.cpp takes for one."""
    if given is not None:
        check_end_ids(name, [given], weights.size)
        return frozenset({given})
    ends = library().llama_vocab_is_eog
    return frozenset({*header.end_ids, *(i for i in range(weights.size) if ends(weights.vocab, i))})


def _record(name: str, header: GGUFHeader, tokenizer: GGUFTokenizer, options: dict[str, Any]) -> ModelRecord:
    words = hashlib.sha256(header.tokenizer.encode())
    for token, text in tokenizer.vocabulary().items():
        words.update(f"{token}\0{text}\0".encode("utf-8", "replace"))
    return ModelRecord(
        role="target",
        name=header.path.name if expanded(name).exists() else name,
        kind="causal" if header.causal else "masked",
        parameters=header.parameters,
        dtype=header.quantisation,
        threads=torch.get_num_threads(),
        tokenizer=words.hexdigest()[:12],
        licence=str(header.keys.get("general.license", "")),
        options=options,
    )
