"""What an early exit knows and what it costs to act on it (Mirror-SD, arXiv:2510.13161): how much of the target's
probability its kappa likeliest tokens hold, by layer, and how long a step would take on two devices.

The model writes greedily and every row of the answer is read behind every layer, with the ridge map where there is one
and as it is. Layers, heads and the draft's branches are timed one after another on this machine; a step on two devices
is modelled from their middle times (equations 5, 10 and 14), with no cost of communication."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from itertools import pairwise
from statistics import median
from typing import TYPE_CHECKING, Any

from engines.core.errors import UserError
from engines.core.params import Int, Params, Text
from engines.core.study import Axis, Column, Figure, Progress, Receipt, Series, Study, Table, study
from engines.kit import Taps
from engines.methods.system.mirror_sd.rounds import LONGEST, WIDEST, Latency, Rollouts, Stages, channel, overlap
from engines.models.exits import exits_of, maps_of, scaled

if TYPE_CHECKING:
    from torch import Tensor

WIDTHS, DEPTHS, TURNS = (1, 2, 4, 8, 16), (0.25, 0.5, 0.75, 0.8), 5
PROMPTS = "add: 457 + 86 | sort: Zoe, Mia, Leo, Ada, Kim | story: Mia, boat | copy: blue red green"


@study(
    "early-guesses",
    "What an early exit knows, and a step on two devices",
    "arXiv:2510.13161",
    summary="How much of the target's probability the likeliest tokens of every layer's exit hold, measured, and the "
    "time of a step of Mirror-SD by exit and number of guesses, modelled from measured stages.",
    inputs=[
        Text("model", "tiny-ar-l", help="A causal model with a draft and with maps for its exits."),
        Text("prompts", PROMPTS, help="Prompts to answer, with | between them."),
        Int("tokens", 32, 12, 256, help="Tokens written behind each prompt."),
        Int("kappa", 8, 1, WIDEST, symbol="κ", help="Guesses of an exit, in the first table."),
        Int("gamma", 3, 1, LONGEST, symbol="γ", help="Tokens of a window, in the second table."),
    ],
    departures="Nothing runs on two devices; the transfer between them is left out, so that modelled times are the "
    "best case. The maps in front of exits are ours.",
    runs_models=True,
)
def early_guesses(p: Params, progress: Progress) -> Study:
    """Write, read every layer, time the stages, lay them out."""
    from engines import load_model
    from engines.models.parts import load_part
    from engines.models.zoo import companion

    model: Any = load_model(p.model, kind="layered", dtype="float32")
    role = companion(p.model, "draft")
    if role is None:
        raise UserError(f"'{p.model}' has no draft model here; choose one that has, as tiny-ar-l or smollm2.")
    draft: Any = load_model(role, dtype="float32")
    prompts = [text.strip() for text in p.prompts.split("|") if text.strip()]
    if not prompts:
        raise UserError("no prompt was given; write one or several with | between them.")
    maps = load_part("exit-maps", [model.record])
    R = maps_of(maps, exits_of(maps.tensors), model.num_layers)
    found: dict[tuple[int, bool], list[float]] = {}
    rows, longest = 0, list[int]()
    for done, text in enumerate(prompts):
        progress(done, len(prompts))
        prompt = model.tokenizer.encode_prompt(text)
        ids = answered(model, prompt, p.tokens)
        longest = max(longest, ids, key=len)
        rows += looked(model, ids, len(prompt), R, p.kappa, found)
    if rows == 0 or len(longest) <= 2 * p.gamma + 1:
        raise UserError("the answers are too short to read a window in them; give other prompts or more tokens.")
    layers, head, z = timed(model, longest, p.gamma)
    branches = {kappa: grown(draft, model.vocab_size, longest, p.gamma, z, kappa) for kappa in WIDTHS}
    return told(p, rows, found, layers, head, branches, [model.record, draft.record])


def answered(model: Any, prompt: Sequence[int], tokens: int) -> list[int]:
    """The prompt with a greedy answer."""
    ids, cache = list(prompt), model.new_cache(len(prompt) + tokens)
    while len(ids) < len(prompt) + tokens and not (len(ids) > len(prompt) and ids[-1] in model.eos_ids):
        ids.append(int(model.extend(ids[cache.length :], cache, last_only=True).logits[0].argmax()))
    return ids


def looked(
    model: Any,
    ids: Sequence[int],
    start: int,
    maps: Mapping[int, Tensor],
    kappa: int,
    found: dict[tuple[int, bool], list[float]],
) -> int:
    """Add to found[layer, mapped] = [first choices among the kappa guesses, omega], over the rows that wrote the answer
    behind `start`; returns how many."""
    streams: dict[int, Tensor] = {}
    taps = Taps(stream=lambda i, x: streams.update({i: x[start - 1 : len(ids) - 1]}))
    h = model.layers(model.embed(ids), model.new_cache(len(ids)), 0, model.num_layers, taps=taps)
    q = model.unembed(h[start - 1 : len(ids) - 1]).softmax(-1)
    for i in range(1, model.num_layers):
        heads = {False: model.unembed(streams[i])}
        if i in maps:
            heads[True] = model.unembed(scaled(streams[i]) @ maps[i].T, normed=True)
        for mapped, z in heads.items():
            tokens, _ = channel(z, kappa)
            hits = (tokens == q.argmax(-1, keepdim=True)).any(-1)
            so_far = found.setdefault((i, mapped), [0.0, 0.0])
            so_far[0] += float(hits.sum())
            so_far[1] += float(overlap(q, tokens).sum())
    return len(q)


def timed(model: Any, ids: Sequence[int], gamma: int) -> tuple[list[float], float, Tensor]:
    """Middle milliseconds of each layer and of the output head on gamma + 1 rows behind the others, and the logits
    [gamma + 1, V] of an exit half-way."""
    N, n = model.num_layers, gamma + 1
    cache, turns, heads = model.new_cache(len(ids)), list[list[float]](), list[float]()
    model.layers(model.embed(ids[:-n]), cache, 0, N)
    for _ in range(TURNS):
        marks = list[float]()

        def mark(_: int, __: Tensor, marks: list[float] = marks) -> None:
            marks.append(time.perf_counter())

        h = model.layers(model.embed(ids[-n:]), cache, 0, N, taps=Taps(stream=mark))
        began = time.perf_counter()
        z = model.unembed(h)
        heads.append(1e3 * (time.perf_counter() - began))
        turns.append([1e3 * (b - a) for a, b in pairwise(marks)])
        cache.crop(len(ids) - n)
    return [median(times) for times in zip(*turns, strict=True)], median(heads), z


def grown(model: Any, vocab_size: int, ids: Sequence[int], gamma: int, z: Tensor, kappa: int) -> list[float]:
    """Middle milliseconds of each internal step of a draft that grows branches behind kappa guesses of every row."""
    draft = Rollouts(model, len(ids) + 3 * LONGEST, vocab_size)
    turns, window = list[list[float]](), ids[len(ids) - gamma :]
    for _ in range(1 + TURNS):  # the first one reads the text, too
        stages = Stages()
        draft.grow(ids[:-gamma], window, channel(z, kappa), gamma, stages)
        turns.append([1e3 * (ended - began) for _, _, began, ended in stages.parts])
    return [median(times) for times in zip(*turns[1:], strict=True)]


def told(
    p: Params,
    rows: int,
    found: Mapping[tuple[int, bool], list[float]],
    layers: Sequence[float],
    head: float,
    branches: Mapping[int, Sequence[float]],
    models: Sequence[Any],
) -> Study:
    """Both tables with their curves, and one step with its numbers."""
    N = len(layers)
    exits = sorted({min(max(round(depth * N), 1), N - 1) for depth in DEPTHS})
    steps = {
        (at, kappa): Latency(sum(layers[:at]), sum(layers[at:]) + head, times, early=head)
        for at in exits
        for kappa, times in branches.items()
    }
    guesses: list[list[Any]] = [
        [i, "mapped" if mapped else "raw", hits / rows, omega / rows]
        for (i, mapped), (hits, omega) in sorted(found.items())
    ]
    shown = steps[exits[-1], 2]
    terms: dict[str, float | str] = {
        "lower layers in ms": shown.prefix,
        "exit's head in ms": shown.early,
        "upper layers with the head in ms": shown.budget,
        "branches in ms": shown.draft,
    }
    return Study(
        tables=[table_of_guesses(guesses, rows, p.kappa), table_of_steps(steps, p.gamma)],
        figures=figures(guesses, steps),
        receipts=[
            Receipt(
                f"a step with the exit behind layer {exits[-1]} and two guesses",
                "lower layers + exit's head + max(upper layers with the head, branches)",
                terms,
                shown.mirror,
                unit="ms",
                provenance="modelled",
            )
        ],
        notes=["Times are middle ones of stages that ran one after another here. No stage ran beside another."],
        models=list(models),
    )


def table_of_guesses(guesses: list[list[Any]], rows: int, kappa: int) -> Table:
    """What the guesses of every exit hold."""
    columns = [
        Column("exit behind layer", "", "given"),
        Column("head", "", "given"),
        Column("first choice among them", "", "measured", 3),
        Column("omega", "", "measured", 3),
    ]
    note = f"{rows} rows of greedy answers, at temperature 1."
    return Table("guesses", f"What {kappa} guesses of an exit hold", columns, guesses, note=note)


def table_of_steps(steps: Mapping[tuple[int, int], Latency], gamma: int) -> Table:
    """Every step with its stages."""
    columns = [
        Column("exit behind layer", "", "given"),
        Column("κ", "guesses", "given"),
        Column("branches", "", "given"),
        Column("upper layers with the head", "ms", "measured", 2),
        Column("branches grow", "ms", "measured", 2),
        Column("exposed", "ms", "modelled", 2),
        Column("step on two devices", "ms", "modelled", 2),
        Column("in order, without an exit", "ms", "modelled", 2),
        Column("times as fast", "", "modelled", 2),
    ]
    rows: list[list[Any]] = [
        [at, kappa, kappa * (gamma + 1), s.budget, s.draft, s.exposed, s.mirror, s.serial, s.serial / s.mirror]
        for (at, kappa), s in steps.items()
    ]
    note = "The same branches are in both orders; plain speculation would draft one window only."
    return Table("steps", f"A step with windows of {gamma}", columns, rows, note=note)


def figures(guesses: Sequence[Sequence[Any]], steps: Mapping[tuple[int, int], Latency]) -> list[Figure]:
    """Omega over the exits; the time of a step over the number of guesses."""
    lines = [
        Series(
            f"exit behind layer {at}",
            [float(kappa) for exit_layer, kappa in steps if exit_layer == at],
            [step.mirror for (exit_layer, _), step in steps.items() if exit_layer == at],
            "modelled",
        )
        for at in sorted({at for at, _ in steps})
    ]
    held = [line(guesses, kind) for kind in ("raw", "mapped")]
    return [
        Figure("omega", "The target's probability of an exit's guesses", Axis("exit", "layers"), Axis("omega"), held),
        Figure("step", "A step on two devices", Axis("κ", "guesses"), Axis("step", "ms"), lines),
    ]


def line(guesses: Sequence[Sequence[Any]], kind: str) -> Series:
    """Omega over the layers, of exits with a map or as they are."""
    own = [row for row in guesses if row[1] == kind]
    return Series(kind, [float(row[0]) for row in own], [row[3] for row in own], "measured")
