"""What a forward costs here beside transformers' own class on the same weights, and whether greedy writes the text of
its `generate`:  python -m tests.engines.models.forwards [--repeats 15] [--json]

Both take turns on rows behind the same positions; other work on the machine spoils the times. --json puts the tables
among those that the page shows under *Docs*."""

import argparse
import copy
import datetime
import statistics
import time
from collections.abc import Callable
from itertools import takewhile
from typing import Any, NamedTuple

import msgspec
import torch
import transformers
from transformers import DynamicCache

import engines
from engines.core.machine import machine
from engines.models.adapters.block import shifted
from engines.models.adapters.causal import HFCausalLM
from engines.models.files.smollm2 import ensure
from explorer.bench.classes import class_prompts
from explorer.papers.measured import RECORDS
from explorer.papers.tables import Cell, Measured, shown

FILE = RECORDS / "program.json"
TITLE, TEXTS = "A forward beside transformers' own", "Greedy's text beside that of transformers' generate"
CAUSAL = (("smollm2", "bfloat16"), ("smollm2", "float32"), ("tiny-ar-m", "float32"))
SIZES = ((200, 1), (200, 8), (200, 64), (1000, 1), (1000, 8), (4000, 1), (4000, 8))  # positions, rows behind them
BOARDS = (("tiny-dlm", 16), ("tiny-dlm", 64), ("tiny-blockdlm", 64))  # masked models, positions
NEW_TOKENS = 64


class Cost(NamedTuple):
    """Seconds of a forward, medians, and the ratios of the turns: median, first and third quarter. same: the logits of
    both are equal to the bit."""

    stock: float
    ours: float
    over: tuple[float, float, float]
    same: bool


def stock_of(name: str, model: Any) -> Any:
    """The network as transformers loads it; of our own, whose files are packed, a copy: in float32 it is the same."""
    if name != "smollm2":
        return copy.deepcopy(model.model)
    kind = getattr(transformers, type(model.model).__name__)
    return kind.from_pretrained(ensure()[0], dtype=model.model.dtype).eval().requires_grad_(False)


def cost(stock: Callable[[], torch.Tensor], ours: Callable[[], torch.Tensor], repeats: int) -> Cost:
    """The two in turns, after one of each that is not timed."""
    same, seconds = torch.equal(stock(), ours()), list[tuple[float, float]]()
    for i in range(repeats):
        took = {}
        for each in (stock, ours)[:: -1 if i % 2 else 1]:
            began = time.perf_counter()
            each()
            took[each] = time.perf_counter() - began
        seconds.append((took[stock], took[ours]))
    low, middle, high = statistics.quantiles([b / a for a, b in seconds], n=4)
    first, second = (statistics.median(each) for each in zip(*seconds, strict=True))
    return Cost(first, second, (middle, low, high), same)


def causal(model: HFCausalLM, network: Any, past: int, rows: int, repeats: int) -> Cost:
    """Rows behind so many positions that were read once."""
    ids = [(7 * i + 100) % model.vocab_size for i in range(past + rows)]
    cache, theirs, new = model.new_cache(past + rows), DynamicCache(config=network.config), torch.tensor([ids[past:]])
    with torch.no_grad():
        model.extend(ids[:past], cache, last_only=True)
        network(input_ids=torch.tensor([ids[:past]]), past_key_values=theirs, logits_to_keep=1)

    def stock() -> torch.Tensor:
        with torch.no_grad():
            logits: torch.Tensor = network(input_ids=new, past_key_values=theirs).logits[0].float()
        theirs.crop(-rows)
        return logits

    def ours() -> torch.Tensor:
        logits = model.extend(ids[past:], cache).logits
        cache.crop(past)
        return logits

    return cost(stock, ours, repeats)


def board(model: Any, network: Any, positions: int, repeats: int) -> Cost:
    """A whole board of a masked model. A block-causal network of transformers is given the mask that makes it one."""
    x = torch.arange(positions) % model.vocab_size
    mask = None
    if model.record.kind == "block":
        block = torch.arange(positions) // model.block_size
        mask = (block[None, :] <= block[:, None])[None, None]

    def stock() -> torch.Tensor:
        with torch.no_grad():
            logits: torch.Tensor = network(input_ids=x[None], attention_mask=mask, use_cache=False).logits[0].float()
        logits = shifted(logits) if model.shift else logits
        logits[:, model.mask_id] = -torch.inf
        return logits

    def ours() -> torch.Tensor:
        logits: torch.Tensor = model(x)
        return logits

    return cost(stock, ours, repeats)


def texts(model: Any, network: Any, new: int = NEW_TOKENS) -> tuple[int, int, int]:
    """(prompts whose text is that of `generate`, prompts, tokens up to the first other one in all of them together)."""
    same, shared, asked, stops = 0, 0, [prompts[0] for prompts in class_prompts().values()], sorted(model.eos_ids)
    how = {"max_new_tokens": new, "eos_token_id": stops, "pad_token_id": stops[0], "do_sample": False}
    for prompt in asked:
        trace = engines.run("greedy", model, prompt, params={"max_new_tokens": new}, detail="none")
        ids = trace.header.prompt_ids
        with torch.no_grad():
            made = network.generate(torch.tensor([ids]), **how)[0, len(ids) :].tolist()
        answers = [list(takewhile(lambda t: t not in stops, one)) for one in (trace.output_ids, made)]
        same += answers[0] == answers[1]
        shared += sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(*answers, strict=False)))
    return same, len(asked), shared


def measured(repeats: int, command: str) -> list[Measured]:
    """Both tables."""
    date, here = datetime.datetime.now(datetime.UTC).date().isoformat(), machine()
    here = f"{here}, {torch.get_num_threads()} thread{'s' * (torch.get_num_threads() > 1)}"
    rows, said = list[list[Cell]](), list[list[Cell]]()
    for name, dtype in CAUSAL:
        model: Any = engines.load_model(name, dtype=dtype)
        network = stock_of(name, model)
        for past, n in SIZES:
            if past + n < model.max_positions:
                rows.append(_row(name, dtype, n, past, causal(model, network, past, n, repeats)))
        if name == "smollm2":
            same, asked, shared = texts(model, network)
            said.append([name, dtype, f"{same} of {asked}", shared])
    for name, positions in BOARDS:
        model = engines.load_model(name)
        network = stock_of(name, model)
        rows.append(_row(name, model.record.dtype, positions, 0, board(model, network, positions, repeats)))
    columns = ["model", "type", "rows", "behind", "transformers, ms", "here, ms", "of transformers' time", "same bits"]
    notes = [
        f"Medians of {repeats} alternating forwards; of the ratio the median and the quarters. The last two models "
        "read a whole board at once.",
        "In bfloat16 the weights here lie in the kernels' layout, and the heads of up to three rows are grouped: "
        "their last bit can be another.",
    ]
    first = Measured(TITLE, command, here, date, columns, rows, notes=notes)
    columns = ["model", "type", "same text", "tokens up to the first other one, all prompts"]
    prompts = f"the first prompt of each class, {NEW_TOKENS} tokens"
    return [first, Measured(TEXTS, command, here, date, columns, said, prompts)]


def _row(name: str, dtype: str, rows: int, past: int, found: Cost) -> list[Cell]:
    over: Cell = [round(one, 2) for one in found.over]
    ms = round(1000 * found.stock, 1), round(1000 * found.ours, 1)
    return [name, dtype, rows, past, *ms, over, "yes" if found.same else "no"]


def main() -> None:
    """Measure, print, and put the tables among those of the page where that is asked for."""
    asked = argparse.ArgumentParser(prog="python -m tests.engines.models.forwards", description=__doc__)
    asked.add_argument("--repeats", type=int, default=15)
    asked.add_argument("--json", action="store_true")
    told = asked.parse_args()
    found = measured(told.repeats, f"python -m tests.engines.models.forwards --repeats {told.repeats}")
    for table in map(shown, found):
        print("\n".join(["", table.title, *table.about, *("; ".join(map(str, row)) for row in table.rows)]))
    if told.json:
        kept = msgspec.json.decode(FILE.read_bytes(), type=list[Measured])
        kept = [*found, *(one for one in kept if one.title not in (TITLE, TEXTS))]
        FILE.write_bytes(msgspec.json.format(msgspec.json.encode(kept), indent=1) + b"\n")


if __name__ == "__main__":
    main()
