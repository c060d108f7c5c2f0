"""llama.cpp through `c_interface`: a loaded file, and a context with its cells.

What it writes to its log is kept instead of shown; an error of ours quotes it."""

from __future__ import annotations

import ctypes
import threading
import weakref
from collections import deque
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from engines.core.errors import UserError
from engines.models.gguf import c_interface
from engines.models.gguf.c_interface import BF16, F16, F32

if TYPE_CHECKING:
    import numpy.typing as npt

MOST_SEQUENCES = 256  # llama.cpp's LLAMA_MAX_SEQ
GUARD = MOST_SEQUENCES - 1  # the sequence that a context keeps for itself
NOTHING = 2**31 - 1  # behind every position
_log: deque[str] = deque(maxlen=20)
_loading = threading.Lock()  # llama.cpp's log is one for all


def installed() -> str:
    """The names and versions of what is installed, "" for nothing. Loads nothing."""
    return ", ".join(name for name, _ in c_interface.candidates())


def require() -> None:
    """Raises UserError where no llama.cpp is installed. Loads nothing."""
    if not installed():
        raise UserError(f"GGUF files are run by llama.cpp, which is not installed here; {c_interface.install()}.")


@cache
def library() -> Any:
    """llama.cpp's functions, its log turned to us, with the `name` of what was installed. Raises UserError where none
    is, or none that can be used. A library may end the process while it is loaded, on a processor that it was not built
    for: `trial` loads it in another one before."""
    require()
    refused = list[UserError]()
    for name, path in c_interface.candidates():
        try:
            llama = c_interface.bound(name, path)
        except UserError as error:
            refused.append(error)
            continue

        @c_interface.Log
        def keep(level: int, text: bytes, _: object) -> None:
            if level == c_interface.ERROR and (line := text.decode("utf-8", "replace").strip()):
                _log.append(line)

        llama.name, llama.keep = name, keep  # the callback lives as long as the library
        llama.llama_log_set(keep, None)
        llama.llama_backend_init()
        return llama
    raise refused[0]


def reason(otherwise: str) -> str:
    """The first line that llama.cpp wrote of an error since the log was cleared; the later ones only say that it
    failed."""
    return _log[0][:200] if _log else otherwise


class Weights:
    """A loaded file. layers: of the network that run on an accelerator, -1 for all. instead: whole numbers that are to
    stand in place of the file's, by their keys. Raises UserError."""

    def __init__(self, path: Path, layers: int = 0, instead: Mapping[str, int] = {}) -> None:
        llama = library()
        if layers and not llama.llama_supports_gpu_offload():
            raise UserError(f"{llama.name} runs on the processor alone; {c_interface.for_cards()}.")
        params = llama.llama_model_default_params()
        params.n_gpu_layers = layers
        numbers = (c_interface.Override * (len(instead) + 1))()  # the last one is empty
        for number, (key, value) in zip(numbers, instead.items(), strict=False):
            number.key, number.number = key.encode(), value
        params.kv_overrides = ctypes.addressof(numbers)
        with _loading:
            _log.clear()
            self.pointer = llama.llama_model_load_from_file(str(path).encode(), params)
            if not self.pointer:
                raise UserError(f"llama.cpp cannot load {path.name} ({reason('no reason given')}).")
        self.vocab = llama.llama_model_get_vocab(self.pointer)
        self.size = int(llama.llama_vocab_n_tokens(self.vocab))
        self.window = int(llama.llama_model_n_swa(self.pointer))  # that some of its layers see, 0: all see everything
        weakref.finalize(self, llama.llama_model_free, self.pointer)


def _free(context: Any, weights: Weights) -> None:
    """Free a context. weights: what it lies beside, which is therefore freed after it."""
    library().llama_free(context)


class Context:
    """Cells for keys and values beside loaded weights, each with a position and the sequences that it belongs to, and
    forwards over them.

    cells: how many positions there is room for. rows: fed at once by llama.cpp; more are fed in pieces of so many.
    causal: whether a row sees only what stands before it; if not, `rows` has to hold a whole board. full: keys, values
    and attention in float32. steady: whether a row is to have the same bits beside any number of others.

    llama.cpp's own programs keep both in float16, and so it is here, where the code of the weights moves a row's bits
    anyway: then greedy's text is theirs. But with one type for both, texts of 512 positions are split between threads
    for a single row, and the attention of 64 rows and more is tiled: either moves a row's last bits. So a steady
    context keeps values in bfloat16 (Q4_1: the same bits of 1 to 64 rows behind 20 to 700 positions), and its logits
    are as near to those of torch in float32 (KL 0.0036 for both, of 710 positions).

    With a sliding window llama.cpp takes a cell for free that belongs to one sequence only, whose next position does
    not see it; a cache that is cut back would lack it. So every cell belongs to a second one, GUARD, too."""

    def __init__(
        self,
        weights: Weights,
        cells: int,
        *,
        rows: int,
        threads: int,
        causal: bool = True,
        full: bool = False,
        steady: bool = False,
    ) -> None:
        llama = library()
        self.weights, self.cells, self._llama = weights, cells, llama
        params = llama.llama_context_default_params()
        params.n_ctx = cells
        params.n_batch = cells
        params.n_ubatch = min(rows, params.n_batch)
        params.n_seq_max = MOST_SEQUENCES if causal else 1
        params.n_threads = params.n_threads_batch = threads
        params.flash_attn_type = 0 if full else 1  # off or on
        params.type_k = F32 if full else F16
        params.type_v = F32 if full else BF16 if steady else F16
        params.swa_full, params.kv_unified, params.no_perf = True, True, True
        with _loading:
            _log.clear()
            self.pointer = llama.llama_init_from_model(weights.pointer, params)
            if not self.pointer:
                raise UserError(
                    f"llama.cpp has no room for {cells} positions ({reason('no reason given')}); take a shorter "
                    "prompt, fewer new tokens or a smaller file."
                )
        weakref.finalize(self, _free, self.pointer, weights)
        self._memory = llama.llama_get_memory(self.pointer)
        self._window = weights.window if causal else 0  # a board is fed whole, into cells that are all free
        self._used, self._changed = set[int](), 0  # sequences with cells; the position from which GUARD lacks some
        if not causal:
            llama.llama_set_causal_attn(self.pointer, False)

    def feed(
        self,
        tokens: Sequence[int],
        positions: Sequence[int],
        sequences: Sequence[Sequence[int]],
        last_only: bool = False,
    ) -> npt.NDArray[np.float32]:
        """Logits [n, V] of n rows, or [1, V] of the last one. sequences: those that each row belongs to; it sees the
        cells of the first. Raises UserError where llama.cpp refuses them."""
        n, llama = len(tokens), self._llama
        batch = llama.llama_batch_init(n, 0, max(map(len, sequences)))
        try:
            batch.n_tokens = n
            for i, (token, position, ids) in enumerate(zip(tokens, positions, sequences, strict=True)):
                batch.token[i], batch.pos[i], batch.n_seq_id[i] = token, position, len(ids)
                batch.logits[i] = not last_only or i == n - 1
                for place, sequence in enumerate(ids):
                    batch.seq_id[i][place] = sequence
            _log.clear()
            self._guard()
            if code := llama.llama_decode(self.pointer, batch):
                raise UserError(f"llama.cpp could not run {n} rows (code {code}: {reason('no reason given')}).")
        finally:
            llama.llama_batch_free(batch)
            self._used.update(*sequences)
            self._changed = min(self._changed, *positions)
        wanted = 1 if last_only else n
        logits = np.ctypeslib.as_array(llama.llama_get_logits(self.pointer), (wanted, self.weights.size))
        return logits.copy()

    def _guard(self) -> None:
        """Let GUARD have the cells that other sequences have, and no more."""
        if self._window:
            self._llama.llama_memory_seq_rm(self._memory, GUARD, self._changed, -1)
            for sequence in self._used:
                self._llama.llama_memory_seq_cp(self._memory, sequence, GUARD, self._changed, -1)
            self._changed = NOTHING

    def join(self, source: int, target: int, begin: int, end: int) -> None:
        """Let the cells of sequence `source` from position `begin` up to `end` (-1: all) belong to `target`, too."""
        self._llama.llama_memory_seq_cp(self._memory, source, target, begin, end)
        self._used.add(target)

    def leave(self, sequence: int, begin: int, end: int = -1) -> None:
        """Let the cells from position `begin` up to `end` leave a sequence; those that belong to none are free."""
        self._llama.llama_memory_seq_rm(self._memory, sequence, begin, end)
        self._changed = min(self._changed, max(begin, 0))
        if begin <= 0 and end < 0:
            self._used.discard(sequence)

    def gather(self, sequence: int) -> None:
        """Move the cells of the only sequence that is left to the beginning, in their order. With a sliding window in
        pieces as long as the window: llama.cpp copies what the last position of a sequence sees."""
        llama = self._llama
        length = llama.llama_memory_seq_pos_max(self._memory, sequence) + 1
        spare, pieces = int(sequence == 0), dict[int, Any]()
        for begin in range(0, length, step := self._window or length):
            self.join(sequence, spare, begin, begin + step)
            size = llama.llama_state_seq_get_size(self.pointer, spare)
            pieces[begin] = piece = (ctypes.c_uint8 * size)()
            if llama.llama_state_seq_get_data(self.pointer, piece, size, spare) != size:
                raise UserError(f"llama.cpp could not copy its cache ({reason('no reason given')}).")
            self.leave(spare, begin)
        self.clear()
        for begin, piece in pieces.items():
            self._guard()
            if llama.llama_state_seq_set_data(self.pointer, piece, len(piece), spare) != len(piece):
                raise UserError(f"llama.cpp could not restore its cache ({reason('no reason given')}).")
            self.join(spare, sequence, begin, -1)
            self.leave(spare, begin)

    def clear(self) -> None:
        """Free all cells."""
        self._llama.llama_memory_clear(self._memory, False)
        self._used, self._changed = set(), 0
