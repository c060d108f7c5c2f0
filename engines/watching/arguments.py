"""What a forward was given and what it gave: token ids, cache, places and logits, found among arguments and results of
modules that nobody here has written."""

from collections.abc import Mapping
from typing import Any

from engines.core.lazy import Tensor, torch

DECODED = ("decoder_input_ids", "decoder_ids", "decoder_tokens", "tgt", "tgt_ids", "tgt_tokens")  # beside a source
IDS = (*DECODED, "input_ids", "ids", "tokens", "idx", "x", "input", "inputs")
CACHES = ("past_key_values", "past_key_value", "cache", "kv_cache", "past", "layer_past", "cache_params", "state")
POSITIONS = ("position_ids", "cache_position", "input_pos", "positions", "pos_ids", "start_pos", "pos")
NOT_IDS = ("pos", "mask", "label", "keep", "type")


class Unreadable(Exception):
    """A call that cannot be read; the message is a sentence for a person."""


def find_ids(given: Mapping[str, Any]) -> Tensor | None:
    """The token ids among the arguments: a decoder's before those of its source, by a usual name, else the first whole
    numbers of one or two dimensions."""
    usual = [given[name] for name in IDS if name in given]
    others = [value for name, value in given.items() if not any(word in name for word in NOT_IDS)]
    if given.get("decoder_inputs_embeds") is not None:
        return None
    return next((value for value in (*usual, *others) if _whole_numbers(value)), None)


def _whole_numbers(value: Any) -> bool:
    return torch.is_tensor(value) and value.dtype in (torch.int64, torch.int32) and value.ndim in (1, 2)


def check_rows(given: Mapping[str, Any], rows: int) -> None:
    """Raises Unreadable where the rows of logits number another argument than the one whose ids were taken."""
    ids, named = find_ids(given), {k: v for k, v in given.items() if not any(word in k for word in NOT_IDS)}
    if ids is None or rows < 2 or ids.shape[-1] == rows or any("logits" in name for name in given):
        return
    other = next((k for k, v in named.items() if _whole_numbers(v) and v.ndim == 2 and v.shape[1] == rows), None)
    if other is not None:
        text = next(name for name, value in named.items() if value is ids)
        raise Unreadable(
            f"{ids.shape[-1]} ids were fed as '{text}' and {rows} rows of logits came back, as many as '{other}' "
            "holds, so that is the text; watch a module that takes it as decoder_input_ids."
        )


def given_to_decoder(given: Mapping[str, Any], name: str) -> Any:
    """An argument of the decoder, where the call has a source as well; else the one of that name."""
    own = given.get(f"decoder_{name}")
    return own if own is not None or any(given.get(argument) is not None for argument in DECODED) else given.get(name)


def cache_of(given: Mapping[str, Any]) -> Any:
    """The cache among the arguments, or None."""
    usual = [given[name] for name in CACHES if given.get(name) is not None]
    others = [value for name, value in given.items() if "cache" in name.lower()]
    no_cache = (type(None), torch.Tensor, bool, int, float, str)  # a switch, a number, a tensor of positions
    return next(iter([*usual, *(value for value in others if not isinstance(value, no_cache))]), None)


def cache_length(cache: Any) -> int | None:
    """Rows that a cache holds; 0 for none, None where it does not tell."""
    if cache is None:
        return 0
    if hasattr(cache, "get_seq_length"):
        try:
            return int(cache.get_seq_length())
        except ValueError:  # of layers with a state, which has no rows
            return None
    if isinstance(cache, (tuple, list)):
        return 0 if not len(cache) else _buffered(cache)
    length = getattr(cache, "length", None)
    return int(length) if isinstance(length, int) else None


def _buffered(cache: Any) -> int | None:
    """Rows of a list of (keys, values) by layer: tensors, or buffers whose shape says how much of them is in use."""
    last: Any = cache[-1]
    shape: Any = getattr(last[0], "shape", None) if isinstance(last, (tuple, list)) and last else None
    return int(shape[-2]) if shape is not None and len(shape) == 4 else None


def keys_of(cache: Any) -> Tensor | None:
    """The keys [B, h, K, d] of the last layer, which depend on everything before them; None where they cannot be
    seen."""
    cache = getattr(cache, "self_attention_cache", cache)  # beside that of a source
    layers = getattr(cache, "layers", None)
    if layers:
        keys: Any = getattr(layers[-1], "keys", None)
    elif isinstance(cache, (tuple, list)) and cache and isinstance(cache[-1], (tuple, list)) and cache[-1]:
        keys = cache[-1][0]
        data: Any = getattr(keys, "data", None)
        length = _buffered(cache)
        if not torch.is_tensor(keys) and torch.is_tensor(data) and length is not None:
            keys = data[..., :length, :]
    else:
        keys = None
    return keys if torch.is_tensor(keys) and keys.ndim == 4 else None


def logits_of(output: Any, ids: Tensor | None = None, decides: bool = True) -> Tensor | None:
    """The logits [B, n, V] in what a module returned for these ids. decides: whether there must be some, a column for
    each token; else None where there are none."""
    logits: Any = getattr(output, "logits", None)
    if logits is None and isinstance(output, Mapping):
        logits = output.get("logits")
    if logits is None and isinstance(output, (tuple, list)):
        logits = next((tensor for tensor in output if _scores(tensor)), None)
    if logits is None and torch.is_tensor(output):
        logits = output
    if not decides and not _scores(logits):
        return None
    beyond = decides and _scores(logits) and ids is not None and ids.numel() and int(ids.max()) >= logits.shape[-1]
    if not _scores(logits) or beyond:
        kind = type(output).__name__
        raise Unreadable(
            f"the model returned no logits (a {kind[:60]}); watch the module with the output head, whose result has "
            "`.logits` of shape [batch, rows, vocabulary]."
        )
    return logits if logits.ndim == 3 else logits[None]


def _scores(value: Any) -> bool:
    return torch.is_tensor(value) and value.ndim in (2, 3) and value.is_floating_point()


def positions_of(given: Mapping[str, Any], batch: int, n: int) -> Tensor | None:
    """The position ids [B, n] of the rows, where they were given."""
    for name in POSITIONS:
        value: Any = given_to_decoder(given, name) if name == "position_ids" else given.get(name)
        if not torch.is_tensor(value) and (not isinstance(value, int) or isinstance(value, bool)):
            continue
        at = torch.as_tensor(value).detach().cpu().long()
        if at.numel() == 1 and (n == 1 or name in ("start_pos", "pos", "input_pos")):
            return (at.reshape(1, 1) + torch.arange(n)).expand(batch, n)  # where the first row stands
        if at.ndim in (1, 2) and at.shape[-1] == n:
            return at.reshape(-1, n).expand(batch, n)
    return None


def place_of(given: Mapping[str, Any], n: int) -> int | None:
    """Where the rows go in a cache of the whole board: from a marker of the places that are replaced."""
    for name, value in given.items():
        if "replace" in name and torch.is_tensor(value) and value.ndim in (1, 2) and value.shape[-1] >= n:
            marked = value.detach().reshape(-1, value.shape[-1])[0].bool().nonzero().flatten().tolist()
            if len(marked) == n and marked[-1] - marked[0] == n - 1:
                return int(marked[0])
    return None
