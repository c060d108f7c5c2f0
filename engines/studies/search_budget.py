"""What a search buys (arXiv:2505.13672): right answers against tokens written and against calls of the reward model,
for one sample, a vote, and with the same reward model the best of n, particle filtering and A*-decoding at several
widths, on the same problems. All but the sample and the vote are runs of their methods; a vote asks nobody."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

from engines.core.errors import UserError
from engines.core.kinds.causal import CausalLM
from engines.core.lazy import torch
from engines.core.method import Method
from engines.core.params import Float, Int, Params, Text
from engines.core.sampling import distribution, draw
from engines.core.statistics import wilson
from engines.core.study import Axis, Column, Figure, Progress, Series, Study, Table, study
from engines.core.trace import ModelRecord
from engines.tasks.chains import answer_of

WIDTHS, SAMPLES, LONGEST = (2, 3, 4), (4, 8), 96


@dataclass(frozen=True)
class Tried:
    """One rule on one problem: whether it was right, and what it cost."""

    right: bool
    tokens: int
    calls: int


@study(
    "search-budget",
    "What a search over steps buys",
    "arXiv:2505.13672",
    summary="Right answers against tokens and calls of the reward model: one sample, a vote, best of n, A*-decoding.",
    inputs=[
        Text("model", "tiny-reasoner", help="A reasoner with a trained reward model of its steps."),
        Int("problems", 24, 10, 200, help="Held-out chains of five operations, in the order of their generator."),
        Float("temperature", 1.2, 0.1, 2.0, step=0.05, help="Of the policy, for every rule."),
        Int("budget", 12, 1, 64, help="Expansions of a search."),
        Int("seed", 0, 0, 10_000, help="Problems and samples."),
    ],
    departures="A synthetic overthinker as the policy and a reward model with exact labels from its own traces: both "
    "far from the paper's models.",
    runs_models=True,
)
def search_budget(p: Params, progress: Progress) -> Study:
    """Sample, search, count."""
    from engines.models.zoo import load_model
    from engines.tasks import CHAINS

    model = load_model(p.model)
    if model.record.kind != "causal":
        raise UserError(f"'{p.model}' is a {model.record.kind} model; a policy writes from left to right: give that.")
    found = dict[str, list[Tried]]()
    for done, example in enumerate(islice(CHAINS.generate("held-out", p.seed, size=5), p.problems)):
        progress(done, p.problems)
        chain = example.prompt.partition(": ")[2]
        for rule, tried in each(model, chain, example.answer, p, p.seed + 31 * done):
            found.setdefault(rule, []).append(tried)
    return told(found, model.record)


def each(model: CausalLM, chain: str, right: str, p: Params, seed: int) -> list[tuple[str, Tried]]:
    """All rules on one problem."""
    from engines.methods.search import a_star_decoding, best_of_n, particle_filtering

    prompt = model.tokenizer.encode_prompt(chain)
    samples = [sampled(model, prompt, p.temperature, seed + i) for i in range(max(SAMPLES))]
    answers = [answer_of(model.tokenizer.decode(ids)) for ids in samples]
    rows = [("one sample", Tried(answers[0] == right, len(samples[0]), 0))]
    for n in SAMPLES:
        said = Counter(answer for answer in answers[:n] if answer).most_common(1)
        tokens = sum(map(len, samples[:n]))
        rows.append((f"vote of {n}", Tried(bool(said) and said[0][0] == right, tokens, 0)))
    for n in SAMPLES:
        rows.append((f"best of {n}", tried(best_of_n.decode, model, chain, right, p, seed, n=n)))
        rows.append((f"particles, {n}", tried(particle_filtering.decode, model, chain, right, p, seed, n=n)))
    for k in WIDTHS:
        search = tried(a_star_decoding.decode, model, chain, right, p, seed, k=k, budget=p.budget)
        rows.append((f"A*, k = {k}", search))
    return rows


def tried(method: Method, model: CausalLM, chain: str, right: str, p: Params, seed: int, **params: int) -> Tried:
    """A run of a method that counts its tokens and calls."""
    from engines import run

    given = {**params, "temperature": p.temperature, "max_new_tokens": LONGEST}
    trace = run(method.info.slug, model, chain, params=given, seed=seed, detail="light")
    facts = trace.steps[-1].facts
    return Tried(answer_of(trace.text) == right, int(facts["tokens_of_all_paths"]), int(facts["prm_calls"]))


def sampled(model: CausalLM, prompt: Sequence[int], temperature: float, seed: int) -> list[int]:
    """The tokens of one sample, its end mark among them."""
    rng, cache, fed = torch.Generator().manual_seed(seed), model.new_cache(len(prompt) + LONGEST), list(prompt)
    drawn = list[int]()
    while len(drawn) < LONGEST and not (drawn and drawn[-1] in model.eos_ids):
        z = model.extend(fed, cache, last_only=True).logits[-1]
        fed = [draw(distribution(z, temperature), rng)]
        drawn += fed
    return drawn


def told(found: dict[str, list[Tried]], record: ModelRecord) -> Study:
    """The table, and right answers against both costs."""
    rows: list[list[str | float | int | bool | None]] = []
    for rule, tried in found.items():
        n, right = len(tried), sum(one.right for one in tried)
        tokens, calls = (sum(getattr(one, name) for one in tried) / n for name in ("tokens", "calls"))
        rows.append([rule, right / n, *wilson(right, n), tokens, calls])
    columns = [
        Column("rule", "", "given"),
        Column("right", "", "measured", 3),
        Column("from", "", "derived", 3),
        Column("to", "", "derived", 3),
        Column("written", "tokens", "measured", 1),
        Column("reward model", "calls", "measured", 1),
    ]
    return Study(
        tables=[Table("rules", "The same problems by each rule, means with 95 % intervals", columns, rows)],
        figures=[_figure(rows, 4, "tokens", "tokens written"), _figure(rows, 5, "calls", "calls of the reward model")],
        notes=["A call scores one state; a vote and a single sample ask no reward model."],
        models=[record],
    )


def _figure(rows: list[list[str | float | int | bool | None]], column: int, unit: str, title: str) -> Figure:
    """Right answers against one cost, the rules by family."""
    series = []
    for family in ("one sample", "vote", "best", "particles", "A*"):
        own = [row for row in rows if str(row[0]).startswith(family) and (column == 4 or float(str(row[5])) > 0)]
        if own:
            low, high = ([float(str(row[i])) for row in own] for i in (2, 3))
            y: list[float | None] = [float(str(row[1])) for row in own]
            x = [float(str(row[column])) for row in own]
            names = [str(row[0]) for row in own]
            series.append(Series(family, x, y, "measured", style="points", low=low, high=high, text=names))
    return Figure(unit, f"Right answers against {title}", Axis(title, unit), Axis("share right"), series)
