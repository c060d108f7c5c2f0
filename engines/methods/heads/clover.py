"""Clover: draft heads that pass their knowledge on (Xiao et al., arXiv:2405.00263; no code is public).

One extra transformer block (the augmenting block) makes states of the model's last hidden states that are fit for
guessing several tokens ahead. From the newest one the drafter goes on depth by depth: the embedding of the last guess
comes back as its input (the regressive connection), a small cross-attention (the attention decoder) merges it with the
states so far, and the next state ranks the next guess. A tree of guesses is verified in one forward.

We depart from the paper, whose wiring is not public, in: the running state goes on by s' = A s + T e + O attention,
whose linear part ridge regression fills before training; the tree is built from accuracies measured on held-out text;
a draft vocabulary where the model's is large; exact verification above temperature 0.

Letters: h the model's last states, a those behind the block, s the running state, M the states on a path (its memory),
e the embedding of a guess, K depths, R_i the head of depth i."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from engines.kit import (
    Bool,
    Choice,
    Int,
    Params,
    Record,
    Recorder,
    Roles,
    Steps,
    Tensor,
    UserError,
    part,
    torch,
)
from engines.methods.heads import _template as template
from engines.methods.speculative._turn import Target, drafting
from engines.methods.speculative._verify import Draft
from engines.models.networks.exits import Past


class Rankings(Record):
    """What the drafter ranked after each row of the tree that it went on from, and at each depth the control, whose
    heads see no guess."""

    linked: bool  # whether guesses came back as inputs
    rows: list[int]  # of the tree, one for each of `ranked`
    ranked: list[template.Ranking]
    control: list[template.Ranking] = []  # by depth; empty where none ships, and where the control itself drafted


class Control:
    """The heads that see no guess, beside a run that they do not draft for. They read the states that the drafter's
    block reads, and only while a step is recorded."""

    def __init__(self, model: Any, net: Any | None, vocabulary: Tensor | None, p: Params) -> None:
        """net: None where there are none to compare with."""
        self.model, self.vocabulary, self.linked, self.past = model, vocabulary, bool(p.link), Past()
        self.net = net.to(model.record.device) if net is not None and p.link else None
        self.unread: Tensor | None = None  # states h [n, d] of the newest rows
        self.a: Tensor | None = None  # the augmented state [d] at the last row that was read

    def accept(self, h: Tensor, length: int) -> None:
        """The states of the rows that a step added, of which the text keeps those before position `length`."""
        self.past.crop(length)
        self.unread = h[: max(0, length - self.past.length)]

    def beside(
        self, ranked: Mapping[int, template.Ranking], depths: int, position: int, block: bool
    ) -> Rankings | None:
        """What the drafter ranked after these rows of the tree, and the control for its `depths` places from `position`
        on; None where nothing was drafted."""
        control = self._ranked(depths, position, block) if self.net is not None else []
        both = [[ranking.rounded() for ranking in rankings] for rankings in (ranked.values(), control)]
        return Rankings(self.linked, [*ranked], *both) if ranked else None

    def _ranked(self, depths: int, position: int, block: bool) -> list[template.Ranking]:
        from engines.models.networks.clover_drafter import augmented  # it needs torch, which listing does not load

        assert self.net is not None
        if self.unread is not None and len(self.unread):
            states = augmented(self.net.block, self.unread, self.past)
            self.a, self.unread = (states if block else self.unread.float())[-1], None
        if not depths or self.a is None:
            return []
        x = torch.cat([self.net.predicted(self.a[None], i) for i in range(depths)])
        return template.rankings_of(
            self.model.unembed(x, self.vocabulary, normed=True, predicts=position), self.vocabulary
        )


@drafting(
    "clover",
    title="Clover",
    own="after the abstract, own wiring and training",
    paper="arXiv:2405.00263",
    summary="A small recurrent drafter: each guess comes back as its input, and attention merges it with what it knew.",
    needs={"target": "layered", "drafter": part("clover-drafter")},
    params=[
        Int("nodes", 12, 0, 63, neutral=0, source="ours"),
        Int("K", 3, 1, 3, symbol="K", source="ours"),
        Bool("link", True, source="on in the paper"),
        Choice("memory", "all", ["all", "last"], source="ours"),
        Bool("block", True, source="on in the paper"),
    ],
    signature="conveyor",
    records={"rankings": Rankings},
)
def decode(models: Roles, prompt: list[int], p: Params, run: Recorder) -> Steps:
    """a is the augmented state at the row that spoke the newest token, so a turn without one (the first, and after a
    person's change) reads the text and drafts nothing. The block reads accepted rows only, behind the verification."""
    from engines.models.networks.clover_drafter import augmented, drafter_of
    from engines.models.networks.exits import Past  # these need torch, which listing methods does not load

    model, n = models.target, models.target.num_layers
    drafter, accuracy = drafter_for(models.drafter, p.link)
    drafter, past = drafter.to(model.record.device), Past()
    vocabulary = template.vocabulary_of(models.drafter, model.record.device)
    control = Control(model.unbooked(), drafter_of(models.drafter.tensors, False) if run.full else None, vocabulary, p)
    paths, parents = template.parents_of(path for path, _ in template.likeliest(accuracy[: p.K], p.nodes))
    target = Target(model, prompt, p, rows=len(paths))
    numbers = sum(tensor.numel() for tensor in drafter.parameters())
    ids, a = prompt, None
    looked: dict[str, float] = {}
    ranked: dict[int, template.Ranking] = {}
    while target.unfinished(ids):
        draft, known = Draft(ids[-1], "draft"), paths[:1]
        if a is not None and len(paths) > 1:
            deepest = target.deepest(ids)
            known = [path for path in paths if len(path) <= deepest]
            last_only = p.memory == "last"
            draft, ranked, looked = regressive_tree(
                model.playing("draft"), drafter, vocabulary, a, known, parents[: len(known)], ids, last_only
            )
        base = target.cache.length
        iteration = target.verify(ids, draft, run.rng, hidden=(n,))
        h = iteration.states[n][: target.cache.length - base]
        states = augmented(drafter.block, h, past) if p.block else h.float()
        size = "" if a is not None else f" {numbers:,} trained parameters draft from here on."
        depth = max(map(len, known))
        facts = iteration.facts(depth=depth, rows_of_the_block=len(h) if p.block else 0, **looked)
        records = {"rankings": partial(control.beside, ranked, depth, len(ids), p.block)}
        edit = yield run.step(
            **iteration.groups(template.ranks_of(known)), records=records, facts=facts, note=iteration.note() + size
        )
        ids = run.apply_edit(edit, iteration.ids, target.cache)
        past.crop(target.cache.length)
        control.accept(h, target.cache.length)
        a, ranked, looked = states[-1] if ids == iteration.ids else None, {}, {}


def drafter_for(part: Any, link: bool) -> tuple[Any, list[list[float]]]:
    """The drafter of a part and its accuracies [K][RANKS]; without the link the control. Raises UserError where the
    part has no control."""
    from engines.models.networks.clover_drafter import CONTROL, drafter_of

    drafter = drafter_of(part.tensors, link)
    if drafter is None:
        raise UserError(
            f"link was switched off and {part.name} has no heads that were trained without it; switch it on."
        )
    accuracy: Tensor = part.tensors["accuracy" if link else f"{CONTROL}accuracy"]
    return drafter, accuracy.tolist()


def regressive_tree(
    model: Any,
    drafter: Any,
    vocabulary: Tensor | None,
    a: Tensor,
    paths: Sequence[template.Path],
    parents: Sequence[int],
    ids: Sequence[int],
    last_only: bool = False,
) -> tuple[Draft, dict[int, template.Ranking], dict[str, float]]:
    """The tree of these paths below the text `ids`, from the augmented state a [d], all nodes of a depth at once; what
    was ranked after each row that has children; and what the attention decoder looked at on average, in shares. Each
    node has a memory [m, d] of its own, which its children go on from."""
    memory, looks = {-1: a[None]}, list[Tensor]()

    def ranked(i: int, rows: list[int], draft: Draft) -> list[template.Ranking]:
        M = torch.stack([memory[draft.parents[row]] for row in rows])  # [rows, i + 1, d]
        M, look = drafter.onward(M[:, -1:] if last_only else M, model.embed([draft.tokens[row] for row in rows]))
        memory.update(zip(rows, M, strict=True))
        looks.append(look.mean((0, 1)))  # [m + 1]: the states, then the guess
        z = model.unembed(drafter.predicted(M[:, -1], i), vocabulary, normed=True, predicts=[len(ids) + i] * len(rows))
        return template.rankings_of(z, vocabulary)

    return *template.by_depth(paths, parents, ids[-1], ranked), shares(looks)


def shares(looks: Sequence[Tensor]) -> dict[str, float]:
    """Where the attention of each depth went, the mean over its nodes and heads: the guess itself, the newest state,
    older ones. Nothing without attention."""
    if not looks or not float(looks[0].sum()):
        return {}
    weights = [(float(x[-1]), float(x[-2]), float(x[:-2].sum())) for x in looks]
    guess, newest, older = (sum(column) / len(weights) for column in zip(*weights, strict=True))
    return {"looks_at_the_guess": guess, "looks_at_the_newest_state": newest, "looks_at_older_states": older}
