"""Measurements of a model by itself: the logits of given tokens behind a text, its likelihood, what its network chooses
without our cache, and what a forward of n rows costs on this machine."""

import statistics
import time
from collections.abc import Mapping, Sequence

from engines.core.errors import UserError
from engines.core.kinds import CausalLM, Model
from engines.core.lazy import torch
from engines.core.meter import synchronise
from engines.core.validation import check_room, takes

ROWS = (1, 2, 4, 8, 16, 32, 64)  # rows of a forward whose cost is measured
PAST = 128  # positions that lie in the cache meanwhile


def next_logits(model: Model, ids: Sequence[int], tokens: Sequence[int]) -> dict[str, list[float]]:
    """Logits of `tokens` as the next token behind `ids`, computed in two ways: the last row fed "alone", as plain
    decoding does it, and the whole text fed "together", as a verifying forward does it. In float32 both agree; in bf16
    rounding differs with the number of rows. Raises UserError."""
    target = _causal(model)
    if not ids or not all(takes(model, t) for t in ids) or any(not 0 <= t < model.vocab_size for t in tokens):
        raise UserError(f"logits need a text of at least one token and ids from 0 to {model.vocab_size - 1}.")
    logits: dict[str, list[float]] = {}
    with torch.inference_mode():
        for name, parts in (("alone", [ids[:-1], ids[-1:]]), ("together", [ids])):
            cache = target.new_cache(len(ids))
            rows = [target.extend(part, cache, last_only=True).logits[0] for part in parts if len(part)]
            logits[name] = [float(rows[-1][token]) for token in tokens]
    return logits


def network_choices(model: Model, ids: Sequence[int], start: int) -> list[int] | None:
    """The most likely token at each place of a text from `start` on, by one forward of the network itself over all of
    it, without our cache, masks and positions; None for a model that has no such network."""
    read = getattr(model, "by_itself", None)
    if read is None or not 0 < start < len(ids):
        return None
    with torch.inference_mode():
        chosen: list[int] = read(ids[:-1])[start - 1 :].argmax(-1).tolist()
    return chosen


def log_likelihood(model: Model, ids: Sequence[int], start: int) -> tuple[float, bool]:
    """The log-probability, in nats, that the model gives the tokens of a text from `start` on behind those before, by
    one forward over all of it, and whether each of them is the one that greedy decoding takes. Raises UserError for a
    model that is not causal, and for a text that does not fit."""
    target = _causal(model)
    if not 0 < start < len(ids) or not all(takes(model, t) for t in ids):
        raise UserError(
            f"start={start} leaves nothing to score in a text of {len(ids)} tokens, or an id is none of the model's; "
            f"give a place behind the first token and before the end, and ids from 0 to {model.vocab_size - 1}."
        )
    check_room({"": model}, list(ids[:-1]), 0)
    with torch.inference_mode():
        logits = target.extend(ids[:-1], target.new_cache(len(ids))).logits[start - 1 :].double()
        wanted = torch.tensor(ids[start:], device=logits.device)
        sums = logits.log_softmax(-1).gather(-1, wanted[:, None]).sum()
        greedy = bool((logits.argmax(-1) == wanted).all())
    return float(sums), greedy


class RowClock:
    """What a forward of some rows costs here and now, behind cached positions that were read once. rows: the most that
    will be asked for; past: cached positions. Raises UserError for a model that is not causal."""

    def __init__(self, model: Model, rows: int = 1, past: int = PAST) -> None:
        self._target = _causal(model)
        self._past = max(0, min(past, model.max_positions - rows - 1))
        self._token = min(model.vocab_size - 1, 100)  # any ordinary one
        with torch.inference_mode():
            self._cache = self._target.new_cache(self._past + rows)
            if self._past:
                self._target.extend([self._token] * self._past, self._cache, last_only=True)

    def seconds(self, rows: int = 1) -> float:
        """Wall seconds of one forward of so many new rows."""
        device = self._target.record.device
        with torch.inference_mode():
            synchronise(device)
            began = time.perf_counter()
            self._target.extend([self._token] * rows, self._cache)
            synchronise(device)
            took = time.perf_counter() - began
            self._cache.crop(self._past)
        return took


def row_costs(model: Model, rows: Sequence[int] = ROWS, repeats: int = 5, past: int = PAST) -> Mapping[int, float]:
    """Median seconds of one forward of n new rows behind `past` cached positions, for each n of `rows`, measured here
    and now after a warm-up."""
    clock, seconds = RowClock(model, max(rows), past), {n: [0.0] * repeats for n in rows}
    for n in rows:
        clock.seconds(n)
    for i in range(repeats):  # sizes take turns, so that a busy moment hits all alike
        for n in rows:
            seconds[n][i] = clock.seconds(n)
    return {n: statistics.median(measured) for n, measured in seconds.items()}


def _causal(model: Model) -> CausalLM:
    if model.record.kind != "causal" or not isinstance(model, CausalLM):
        raise UserError(f"{model.record.name} is {model.record.kind}; this measurement needs a causal model.")
    return model
