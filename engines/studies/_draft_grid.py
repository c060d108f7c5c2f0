"""The grid of drafts of tiny-ar-l as a study reads it: its checkpoints, what they agree with on held-out prompts, and
forwards of whole batches by the clock; and where a budget of training is best spent.

Shapes: S texts of at most L tokens, R answer rows of all of them, V vocabulary, B sequences, n rows of each.

speed = (1 - A^(gamma + 1)) / ((1 - A) (1 + gamma c)), the times of plain decoding: the expected tokens of a round over
its cost in forwards of the target. Letters: N a size, D tokens of training, A the share of first choices that are the
target's, c a step of the draft over a forward of the target, gamma drafted tokens of a round."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Any

from engines.core.lazy import Tensor, torch, without_gradients
from engines.core.study import Axis, Column, Figure, Series, Table
from engines.models.parts import Part
from engines.studies._scaling import Found, Line, rounds
from engines.tasks import TASKS

if TYPE_CHECKING:
    from engines.models.networks.sized_draft import Size, SizedDraft

CONTEXT, TURNS = 64, 3
WINDOWS = range(1, 9)  # gamma
SPREAD = tuple(2.0**i for i in range(-6, 7))  # of the budgets in the figure, around the one that was asked for
ROWS, TOKENS = 8, 64  # of a timed step of training


@dataclass(frozen=True)
class Answers:
    """The target's greedy answers to held-out prompts: ids [S, L] filled up behind each text, the rows whose next token
    is an answer's (text, place), those tokens [R], p [R, V], and the rows of each prompt."""

    ids: Tensor
    rows: Tensor
    wanted: Tensor
    p: Tensor
    counts: list[int]


def held_out(prompts: int, seed: int) -> list[str]:
    """Prompts of all tasks in turn, none of which anything was trained on."""
    streams = [task.generate("held-out", seed) for task in TASKS.values()]
    return [next(streams[i % len(streams)]).prompt for i in range(prompts)]


@without_gradients
def answers(model: Any, prompts: Sequence[str], tokens: int) -> Answers:
    """Let the target write, and read all texts once more together."""
    texts, rows, wanted, counts = list[list[int]](), list[list[int]](), list[int](), list[int]()
    for text in prompts:
        prompt = model.tokenizer.encode_prompt(text)
        ids, cache = list(prompt), model.new_cache(len(prompt) + tokens)
        while len(ids) < len(prompt) + tokens and not (len(ids) > len(prompt) and ids[-1] in model.eos_ids):
            ids.append(int(model.extend(ids[cache.length :], cache, last_only=True).logits[0].argmax()))
        rows += [[len(texts), t] for t in range(len(prompt) - 1, len(ids) - 1)]
        wanted += ids[len(prompt) :]
        counts.append(len(ids) - len(prompt))
        texts.append(ids)
    longest = max(map(len, texts))
    ids = torch.tensor([[*text, *[0] * (longest - len(text))] for text in texts])
    at = torch.tensor(rows)
    z = model.model(input_ids=ids, use_cache=False).logits[at[:, 0], at[:, 1]]
    return Answers(ids, at, torch.tensor(wanted), z.double().softmax(-1), counts)


def checkpoints(part: Part, embedding: Tensor, positions: int) -> Iterator[tuple[Size, int, int, SizedDraft]]:
    """(size, steps, tokens read in training, draft) of every checkpoint, small ones and short trainings first."""
    from engines.models.networks.sized_draft import SIZES
    from engines.models.parts.grid_drafts import network_of

    for size in SIZES:
        for step, read in part.card["checkpoints"].items():
            yield size, int(step), int(read), network_of(part, f"{size.name}.{step}", embedding, positions)


@without_gradients
def compared(draft: SizedDraft, reference: Answers, gamma: int) -> tuple[list[Found], list[list[bool]]]:
    """What a draft agrees with, prompt by prompt, and row by row its first choice."""
    states = draft.states(reference.ids)[reference.rows[:, 0], reference.rows[:, 1]]
    q = (states @ draft.E.T).double().softmax(-1)  # type: ignore[operator]
    same = (q.argmax(-1) == reference.wanted).tolist()
    shared = torch.minimum(reference.p, q).sum(-1).tolist()
    agreements, flags, start = list[Found](), list[list[bool]](), 0
    for n in reference.counts:
        mine = same[start : start + n]
        agreements.append(Found(sum(mine), sum(shared[start : start + n]), n, *rounds(mine, gamma)))
        flags.append(mine)
        start += n
    return agreements, flags


@without_gradients
def timed(
    model: Any,
    draft: SizedDraft,
    sizes: Sequence[int],
    widths: Sequence[int],
    between: Callable[[], object] = lambda: None,
) -> tuple[dict[Any, float], Any]:
    """Middle milliseconds of a forward of the target on n new rows of B sequences behind CONTEXT tokens, by (B, n), and
    of one step of the draft, by B; all in turns, the caches cropped in between. `between` is called before each
    batch, untimed: a stop is heard there."""
    from transformers import DynamicCache

    E: Any = draft.E
    target_ms: dict[tuple[int, int], list[float]] = {(B, n): [] for B in sizes for n in widths}
    draft_ms: dict[int, list[float]] = {B: [] for B in sizes}
    caches = {}
    for B in sizes:
        ids = torch.full((B, CONTEXT), 20)
        ours, theirs = DynamicCache(), DynamicCache()
        model.model(input_ids=ids, past_key_values=ours, use_cache=True)
        draft.body(inputs_embeds=draft.W_in(E[ids]), past_key_values=theirs, use_cache=True)
        caches[B] = ours, theirs
    for _ in range(TURNS):
        for B, (ours, theirs) in caches.items():
            between()
            for n in widths:
                began = time.perf_counter()
                model.model(input_ids=torch.full((B, n), 20), past_key_values=ours, use_cache=True)
                target_ms[B, n].append(1e3 * (time.perf_counter() - began))
                ours.crop(-n)  # so many off its end
            began = time.perf_counter()
            x = draft.W_in(E[torch.full((B, 1), 20)])
            draft.W_out(draft.body(inputs_embeds=x, past_key_values=theirs, use_cache=True).last_hidden_state) @ E.T
            draft_ms[B].append(1e3 * (time.perf_counter() - began))
            theirs.crop(-1)
    return {k: median(v) for k, v in target_ms.items()}, {B: median(v) for B, v in draft_ms.items()}


@without_gradients
def steps_timed(model: Any, drafts: Mapping[str, SizedDraft]) -> tuple[float, dict[str, float]]:
    """Middle milliseconds of a forward of the target on one new row, and of a step of each draft, in turns."""
    every = {name: timed(model, draft, (1,), (1,)) for name, draft in drafts.items()}
    return median(target[1, 1] for target, _ in every.values()), {name: step[1] for name, (_, step) in every.items()}


# --- the plan


@dataclass(frozen=True)
class Offer:
    """A size: its line A(log10 D), the trained tokens per second of this machine, c, and the longest training that the
    line has seen."""

    size: str
    line: Line
    tokens_per_s: float
    c: float
    seen: float

    def at(self, seconds: float) -> tuple[float, float, int, float]:
        """(D, A, gamma, speed) of the best window for so much training."""
        D = max(1.0, seconds * self.tokens_per_s)
        A = min(max(self.line.at(D), 0.0), 0.99)
        gamma = max(WINDOWS, key=lambda g: (speed(A, self.c, g), -g))
        return D, A, gamma, speed(A, self.c, gamma)


def speed(A: float, c: float, gamma: int) -> float:
    """Times of plain decoding; A below 1."""
    return (1 - A ** (gamma + 1)) / ((1 - A) * (1 + gamma * c))


def trained_per_second(drafts: Sequence[SizedDraft]) -> list[float]:
    """Tokens per second of a step of training (forward, backward, update) of each draft, in turns, the middle one. The
    drafts change meanwhile: give copies."""
    seconds: list[list[float]] = [[] for _ in drafts]
    updates = [torch.optim.AdamW(draft.requires_grad_(True).train().parameters(), lr=1e-4) for draft in drafts]
    ids = torch.full((ROWS, TOKENS), 20)
    for _ in range(TURNS + 1):  # the first one is slower: the optimiser makes its state
        for draft, update, mine in zip(drafts, updates, seconds, strict=True):
            began = time.perf_counter()
            update.zero_grad()
            draft(ids).logsumexp(-1).mean().backward()
            update.step()
            mine.append(time.perf_counter() - began)
    return [ROWS * TOKENS / median(mine[1:]) for mine in seconds]


def plan_table(offers: Sequence[Offer], seconds: float) -> Table:
    """What the budget buys with each size, and which one it is best spent on."""
    columns = [
        Column("draft", "", "given"),
        Column("trained", "tokens per second", "measured", 0),
        Column("D", "tokens", "derived", 0),
        Column("beyond the longest training", "times", "derived", 1),
        Column("A", "", "modelled", 3),
        Column("c", "", "measured", 3),
        Column("best γ", "tokens", "modelled"),
        Column("speed", "times plain", "modelled", 2),
        Column("chosen", "", "derived"),
    ]
    plans = {offer.size: offer.at(seconds) for offer in offers}
    chosen = max(plans, key=lambda size: plans[size][3])
    rows: list[list[Any]] = []
    for offer in offers:
        D, A, gamma, times = plans[offer.size]
        rows.append([offer.size, offer.tokens_per_s, D, D / offer.seen, A, offer.c, gamma, times, offer.size == chosen])
    note = (
        "A comes from the size's own line, at most 0.99; more than 1 in the fourth column is an extrapolation. The "
        "target's answers and their probabilities are not counted into the budget."
    )
    return Table("plan", f"What {seconds:g} seconds of training buy here", columns, rows, note=note)


def plan_figure(offers: Sequence[Offer], seconds: float) -> Figure:
    """The speed of each size by budget: which line is on top changes."""
    budgets = [seconds * part for part in SPREAD]
    lines = [Series(offer.size, budgets, [offer.at(s)[3] for s in budgets], "modelled") for offer in offers]
    across = Axis("training", "seconds", log=True)
    return Figure("plan", "Speed by seconds of training", across, Axis("times as fast as plain decoding"), lines)


def offers_of(
    drafts: Mapping[str, SizedDraft],
    lines: Mapping[str, Line],
    step_ms: Mapping[str, float],
    target_ms: float,
    D: float,
) -> list[Offer]:
    """What each size has to offer. drafts: the longest trained of each, which are changed; step_ms: a step of it,
    target_ms: a forward of the target on one row; D: tokens of the longest training."""
    rates = trained_per_second(list(drafts.values()))
    return [
        Offer(size, lines[size], rate, step_ms[size] / target_ms, D) for size, rate in zip(drafts, rates, strict=True)
    ]
