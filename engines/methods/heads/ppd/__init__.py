"""PPD: parallel prompt decoding (Chen et al., arXiv:2405.18628; code hmarkc/parallel-prompt-decoding).

m learned embeddings, "prompt tokens", stand behind the newest token; what the frozen model says at the j-th of them is
a guess of the token j places further on. Every candidate of the draft tree carries prompt tokens of its own, so one
forward verifies this step's guesses and makes the next step's. How many prompt tokens a candidate deserves, and which
candidates are worth a row, is searched for a budget of rows from the measured chances of the guesses.

We depart from the released code in: exact verification above temperature 0 (released: typical acceptance); the budget
is a parameter, small for a CPU (the study `row-budget` measures which one pays on a machine); trees are searched from
accuracies on the model's own held-out answers; a draft vocabulary for the guesses of a large model; training as its
file says, with one copy of each prompt token (the released decoder has one, too)."""

from collections.abc import Sequence

from engines.kit import (
    Generator,
    Int,
    LayeredLM,
    Params,
    Recorder,
    Roles,
    Steps,
    Tensor,
    many,
    part,
    torch,
)
from engines.methods.heads._template import Path, Ranking, laid, rankings_of, ranks_of, vocabulary_of
from engines.methods.heads.ppd.dynamic_tree import SMALLEST, Node, search
from engines.methods.speculative._turn import Target, Turn, drafting
from engines.methods.speculative._verify import Draft


@drafting(
    "ppd",
    title="PPD",
    paper="arXiv:2405.18628",
    code="https://github.com/hmarkc/parallel-prompt-decoding",
    summary="Three learned embeddings after each candidate make the frozen model guess ahead while it verifies.",
    needs={"target": "layered", "prompts": part("prompt-tokens")},
    params=[
        Int("budget", 24, SMALLEST, 64, symbol="B", source="60 to 285 on GPUs"),
    ],
    signature="tree",
)
def decode(models: Roles, prompt: list[int], p: Params, run: Recorder) -> Steps:
    """The official loop, `start_inference` in prompt/model/model.py. The state s is the number of prompt outputs at
    hand: none at first and after a person's change, then those of the last accepted candidate."""
    model, e = models.target, models.prompts.tensors["p"].float().to(models.target.record.device)  # [m, d]
    vocabulary = vocabulary_of(models.prompts, model.record.device)
    trees = search(models.prompts.tensors["accuracy"].tolist(), p.budget)
    target = Target(model, prompt, p, rows=1 + len(e) + p.budget)
    ids, guesses = prompt, list[Ranking]()  # [s]
    while target.unfinished(ids):
        places = (model.max_positions or len(ids) + 2 * len(e)) - len(ids)  # behind the text, for rows
        deepest = min(target.room(ids), places)
        nodes = [node for node in trees.states[len(guesses) - 1] if len(node.path) <= deepest] if guesses else []
        rows = [(path, j) for path, j in layout(nodes, len(e)) if len(path) + j <= places]
        known = [path for path, j in rows if not j]
        P = {node.path: node.P for node in nodes}
        draft = laid(known, ids[-1], guesses, "prompt token", "prompt")
        draft.values, draft.value_is = [P.get(path) for path in known], ("measured chance of its path", "chance")
        draft.tails = [sum(of == path for of, j in rows if j) for path in known]
        iteration, h = forward(
            target, ids, draft, rows, e, run.rng
        )  # h [k, d]: the prompt rows of the last accepted node
        s, guesses = len(guesses), ahead(model, h, vocabulary, len(iteration.ids))
        size = "" if s else f" {models.prompts.parameters:,} trained parameters draft from here on."
        edit = yield run.step(
            **iteration.groups(ranks_of(known)),
            facts=iteration.facts(prompt_rows=sum(draft.tails), state=s, next_state=len(guesses)),
            note=f"{iteration.note()[:-1]}; {many(sum(draft.tails), 'prompt row')} in the same forward.{size}",
        )
        ids = run.apply_edit(edit, iteration.ids, target.cache)
        if ids != iteration.ids:
            guesses = []


def layout(nodes: Sequence[Node], m: int) -> list[tuple[Path, int]]:
    """The rows of a forward as (path of the candidate, 0) and (path, j) for its j-th prompt token, in the released
    order: by the length of the whole path, then by rank, a prompt token counting as rank -j. The root has all m."""
    tails = {(): m, **{node.path: node.prompts for node in nodes}}
    rows = [(path, j) for path, k in tails.items() for j in range(k + 1)]
    return sorted(rows, key=lambda row: (len(row[0]) + row[1], (*row[0], *range(-1, -row[1] - 1, -1))))


def above(rows: Sequence[tuple[Path, int]]) -> list[int]:
    """Row that each row of a layout hangs on: a prompt token on the one before it, the first on its candidate."""
    at = {row: i for i, row in enumerate(rows)}
    return [at[path, j - 1] if j else at[path[:-1], 0] if path else -1 for path, j in rows]


def forward(
    target: Target, ids: list[int], draft: Draft, rows: Sequence[tuple[Path, int]], e: Tensor, rng: Generator
) -> tuple[Turn, Tensor]:
    """One forward over what the cache lacks of the text, candidates and all prompt tokens; the walk; the cache then has
    the text but its last token. Returns the turn and the states [k, d] of the prompt rows of the last row kept."""
    model, cache, base = target.model, target.cache, target.cache.length
    chain, hang, speaks = ids[base:-1], target.hang(ids, above(rows)), target.speaks(ids, draft)
    c, tokens = len(chain), iter(draft.tokens)
    at = [i for i, (_, j) in enumerate(rows) if not j]  # rows of the candidates
    x = model.embed([*chain, *(0 if j else next(tokens) for _, j in rows)])  # [c + n, d]
    for i, (_, j) in enumerate(rows):
        if j:
            x[c + i] = e[j - 1]
    x = model.layers(x, cache, 0, model.num_layers, parents=hang)
    z = model.unembed(torch.cat([x[:c], x[[c + i for i in at]]]), predicts=speaks)  # [c + candidates, V]
    iteration = target.judge(ids, draft, z, rng, at)
    last = rows[at[iteration.verdict.path[-1]]][0]
    tail = [c + i for i, (path, j) in enumerate(rows) if path == last and j]
    return iteration, model.normed(x[tail])


def ahead(model: LayeredLM, h: Tensor, vocabulary: Tensor | None, start: int) -> list[Ranking]:
    """The best guesses [k][RANKS] at states h [k, d] of prompt rows and their chances; they speak of the positions from
    `start` on."""
    if not len(h):
        return []
    return rankings_of(model.unembed(h, vocabulary, normed=True, predicts=start, counts=False), vocabulary)
