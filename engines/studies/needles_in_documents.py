"""A planted fact in long documents (RAPID, arXiv:2502.20330): who finds it, how much of a draft is accepted with and
without retrieval and transfer, and from which length of context on a short draft pays.

Documents are written by chance (`engines/tasks/documents.py`), the answer is checked exactly. Target and drafter are
one model. Every document is read once; all ways to decode go on from there. Forwards behind contexts of several lengths
are timed in turns on this machine; a round is modelled from their middle times."""

from __future__ import annotations

import time
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from functools import partial
from statistics import median
from typing import Any

from engines.core.errors import UserError
from engines.core.lazy import torch
from engines.core.params import Choice, Float, Int, Params, Text
from engines.core.statistics import wilson
from engines.core.study import Axis, Column, Figure, Progress, Receipt, Series, Study, Table, study
from engines.methods.speculative._turn import Drafter, Target
from engines.methods.speculative.rapid import MOST, chain
from engines.methods.speculative.rapid.passages import retrieve
from engines.methods.speculative.rapid.transfer import Look
from engines.tasks.documents import Document, document, passage

SHORT, LAST = "drafter alone", "the last tokens"
RETRIEVED = "retrieved passages"
LOG, FACTS = "harbour log", "people"
LENGTHS, TURNS = (256, 512, 1024, 2048, 4096), 5


@dataclass
class Way:
    """What one way to decode gave: documents with the right code, drafted and accepted tokens, rounds and tokens."""

    right: int = 0
    documents: int = 0
    drafted: int = 0
    accepted: int = 0
    transferred: int = 0
    rounds: int = 0
    tokens: int = 0
    context: list[int] = field(default_factory=list)


@study(
    "needles-in-documents",
    "A planted fact in long documents",
    "arXiv:2502.20330",
    summary="Needle hit rates and acceptance of RAPID on documents with a planted fact, measured, and the cost of a "
    "token by length of context, modelled from measured forwards.",
    inputs=[
        Text("model", "smollm2", help="A causal model; it is read in float32 and drafts for itself."),
        Int("documents", 30, 2, 200, help="Documents, each with its own fact."),
        Choice(
            "kind",
            LOG,
            [LOG, FACTS],
            help="A harbour's log with a code, or facts about people as tiny models read them.",
        ),
        Int("people", 8, 2, 9, help="People of such a passage; the tiny models were trained on up to four."),
        Int("first", 0, 0, 10000, help="Number of the first document; each number is another one."),
        Int("characters", 6000, 500, 30000, help="Length of a document."),
        Int("decoys", 1, 0, 6, help="Facts of the same shape about something else in each document."),
        Int("tokens", 20, 4, 64, help="Tokens of an answer."),
        Int("gamma", 5, 1, MOST, symbol="γ", help="Tokens drafted per round."),
        Float("eta", 10.0, 0.5, 50.0, symbol="η", help="Strength of the transfer, beside 0."),
        Int("chunk", 32, 8, 512, symbol="c", help="Most tokens of a passage."),
        Int("keep", 256, 8, 4096, help="Tokens of the document that the drafter reads."),
        Int("longest", 4096, 256, 8000, help="The longest context that is timed."),
    ],
    departures="BM25 in place of an embedding model; one small model, which answers weakly. Nothing was tuned on these "
    "documents. Times leave out reading the document, which no speculation shortens.",
    runs_models=True,
)
def needles_in_documents(p: Params, progress: Progress) -> Study:
    """Decode every document in every way, then time contexts."""
    from engines import load_model
    from engines.core.kinds import KINDS
    from engines.core.meter import Meter

    loaded: Any = load_model(p.model, dtype="float32")
    record = loaded.record
    if not isinstance(loaded, KINDS["layered"].protocol):
        raise UserError(f"'{p.model}' is not a causal model that is run layer by layer; choose one, as smollm2.")
    model: Any = KINDS["layered"].counted(loaded, "target", Meter())
    ways = {(RETRIEVED, 0.0): Way(), (RETRIEVED, p.eta): Way(), (LAST, 0.0): Way(), (SHORT, None): Way()}
    with torch.no_grad():
        progress(0, p.documents + 1)
        for done in range(p.documents):
            answered(model, asked(p, p.first + done), p, ways)
            progress(done + 1, p.documents + 1, partial(so_far, deepcopy(ways), record))
        times = timed(model, p)
    return told(p, ways, times, record)


def so_far(ways: dict[Any, Way], record: Any) -> Study:
    """The answers there are, without times."""
    note = "Intervals are 95 % (Wilson) over documents; tokens of one document are not independent."
    return Study(tables=[table_of_answers(ways)], notes=[note], models=[record])


def asked(p: Params, seed: int) -> Document:
    """The document of that number."""
    return passage(seed, p.people) if p.kind == FACTS else document(seed, p.characters, decoys=p.decoys)


def answered(model: Any, one: Document, p: Params, ways: dict[Any, Way]) -> None:
    """One document in every way."""
    prompt = model.tokenizer.encode_prompt(one.prompt)
    if len(prompt) + p.tokens > model.max_positions:
        raise UserError(
            f"a document has {len(prompt):,} tokens and {model.record.name} has {model.max_positions:,} positions; "
            "ask for fewer characters."
        )
    settings = Params(max_new_tokens=p.tokens, temperature=0.0, gamma=p.gamma, confidence=0.1)
    target = Target(model, prompt, settings, rows=1 + MOST)
    model.extend(prompt[:-1], target.cache, last_only=True)
    short = retrieve(prompt, model.tokenizer, p.chunk, p.keep, 0.1).ids
    views = {RETRIEVED: short, LAST: prompt[-len(short) :]}
    drafters = {name: Drafter(model, view, settings, 1 + MOST, model.vocab_size) for name, view in views.items()}
    for (context, eta), way in ways.items():
        target.cache.crop(len(prompt) - 1)
        if eta is None:
            ids = plain(model, short, drafters[RETRIEVED].cache, p.tokens)[len(short) :]
            way.rounds, way.tokens = way.rounds + len(ids), way.tokens + len(ids)
        else:
            drafter, view = drafters[context], views[context]
            ids = drafted(drafter, target, prompt, view, settings, eta, way)
        way.context.append(len(short))
        way.documents += 1
        way.right += one.right(model.tokenizer.decode(ids))


def plain(model: Any, prompt: Sequence[int], cache: Any, tokens: int) -> list[int]:
    """The prompt with its greedy answer; the cache may hold the prompt, and more."""
    ids = list(prompt)
    cache.crop(min(cache.length, len(prompt) - 1))
    while len(ids) < len(prompt) + tokens and not (len(ids) > len(prompt) and ids[-1] in model.eos_ids):
        ids.append(int(model.extend(ids[cache.length :], cache, last_only=True).logits[0].argmax()))
    return ids


def drafted(
    drafter: Drafter, target: Target, prompt: list[int], short: Sequence[int], p: Params, eta: float, way: Way
) -> list[int]:
    """RAPID's answer behind a cache that holds the prompt, counted into `way`: the loop of the method, unrecorded."""
    drafter.cache.crop(min(drafter.cache.length, len(short) - 1))
    ids, rng = list(prompt), torch.Generator()
    while target.unfinished(ids):
        draft, q = chain(drafter, [*short, *ids[len(prompt) :]], min(p.gamma, target.room(ids)), p, rng)
        look = Look(eta, 0.1, 1.0, q)
        turn = target.verify(ids, draft, rng, walk=look.walk)
        drafter.settle(turn.verdict.path)
        way.drafted, way.accepted = way.drafted + len(draft) - 1, way.accepted + turn.accepted
        way.transferred, way.rounds = way.transferred + len(look.transferred), way.rounds + 1
        way.tokens, ids = way.tokens + len(turn.gained), turn.ids
    return ids[len(prompt) :]


def timed(model: Any, p: Params) -> list[tuple[int, float, float]]:
    """(context, ms of one row, ms of gamma + 1 rows) for each length, middle ones of turns; the drafter's row is that
    of the shortest context."""
    lengths = [n for n in LENGTHS if n <= min(p.longest, model.max_positions - p.gamma - 1)]
    ids = model.tokenizer.encode_prompt(document(0, 8 * max(lengths)).prompt)[: max(lengths)]
    ids = (ids * (1 + max(lengths) // len(ids)))[: max(lengths)]
    cache = model.new_cache(max(lengths) + p.gamma + 1)
    model.extend(ids, cache, last_only=True)
    found = []
    for n in reversed(lengths):
        cache.crop(n)
        times: dict[int, list[float]] = {1: [], p.gamma + 1: []}
        for _ in range(TURNS):
            for rows, mine in times.items():
                began = time.perf_counter()
                model.extend(ids[:rows], cache)
                mine.append(1e3 * (time.perf_counter() - began))
                cache.crop(n)
        found.append((n, median(times[1]), median(times[p.gamma + 1])))
    return found[::-1]


def told(p: Params, ways: dict[Any, Way], times: list[tuple[int, float, float]], record: Any) -> Study:
    """The tables of answers and of times, with their curves."""
    taken = ways[RETRIEVED, p.eta]
    per_round = taken.tokens / taken.rounds
    costs = [priced(n, one, many, times[0][1], p.gamma, per_round) for n, one, many in times]
    n, one, many = times[-1]
    return Study(
        tables=[table_of_answers(ways), table_of_costs(costs, p, per_round)],
        figures=[curves(costs)],
        receipts=[
            Receipt(
                f"tokens of a round that pays, behind {n:,} tokens",
                "(γ · draft row + verification) / plain row",
                {"γ": p.gamma, "draft row in ms": times[0][1], "verification in ms": many, "plain row in ms": one},
                (p.gamma * times[0][1] + many) / one,
                provenance="modelled",
            )
        ],
        notes=[
            "Intervals are 95 % (Wilson) over documents; tokens of one document are not independent.",
            "At η = 0 the text is that of the target alone, temperature 0.",
            f"With η = {p.eta:g} the text is not the target's own: this is not lossless.",
            "Retrieval and the last tokens give the drafter equally many tokens.",
        ],
        models=[record],
    )


def priced(n: int, one: float, many: float, draft: float, gamma: int, per_round: float) -> list[Any]:
    """A row of the second table."""
    work = gamma * draft + many
    return [n, one, many, draft, work / one, one, work / per_round, one * per_round / work]


def table_of_answers(ways: dict[Any, Way]) -> Table:
    """Hits and acceptance of every way."""
    columns = [
        Column("way", "", "given"),
        Column("η", "", "given"),
        Column("drafter reads", "tokens", "measured"),
        Column("right", "", "measured"),
        Column("share right", "", "measured", 2),
        Column("from", "", "derived", 2),
        Column("to", "", "derived", 2),
        Column("accepted of drafted", "", "measured", 3),
        Column("kept by the transfer", "tokens", "measured"),
        Column("tokens per model call", "", "measured", 2),
    ]
    rows: list[list[Any]] = []
    for (context, eta), way in ways.items():
        low, high = wilson(way.right, way.documents)
        share = way.accepted / way.drafted if way.drafted else None
        calls = None if context == SHORT else way.tokens / way.rounds
        read = round(median(way.context))
        kept = way.transferred if way.drafted else None
        rows.append([context, eta, read, way.right, way.right / way.documents, low, high, share, kept, calls])
    some = next(iter(ways.values()))
    return Table("answers", f"Answers to {some.documents} documents, temperature 0", columns, rows)


def table_of_costs(costs: list[list[Any]], p: Params, per_round: float) -> Table:
    """Forwards and tokens by length of context."""
    columns = [
        Column("context", "tokens", "given"),
        Column("one row", "ms", "measured", 1),
        Column(f"{p.gamma + 1} rows", "ms", "measured", 1),
        Column("drafter's row", "ms", "measured", 1),
        Column("break-even", "tokens per round", "modelled", 2),
        Column("plain", "ms per token", "measured", 1),
        Column("RAPID", "ms per token", "modelled", 1),
        Column("times as fast", "", "modelled", 2),
    ]
    note = f"Modelled with the {per_round:.2f} tokens per round measured above; reading the document is left out."
    return Table("costs", "A token by length of context", columns, costs, note=note)


def curves(costs: list[list[Any]]) -> Figure:
    """Milliseconds per token over the context."""
    x = [float(row[0]) for row in costs]
    series = [
        Series("plain", x, [row[5] for row in costs], "measured"),
        Series("RAPID", x, [row[6] for row in costs], "modelled"),
    ]
    return Figure("costs", "Time of a token", Axis("context", "tokens", log=True), Axis("token", "ms"), series)
