"""FastDraft: how to train your draft (Zafrir et al., arXiv:2411.11055; no code is public).

A recipe, not a decoder: a very small model with the target's vocabulary is trained on text and on the target's own
answers until it is predictable, and drafts in plain speculative decoding. So the decoding here is a greedy chain of
gamma drafts (Leviathan et al., arXiv:2211.17192), and what is looked at is the training: one draft was kept at several
moments of it, any of them may draft, and the others read along what was written.

A draft puts its first choices forward, and one is accepted if the target writes the same: its own first choice, above
temperature 0 a draw. A checkpoint's first choices on the written text therefore settle where each of its own rounds
would have ended, whichever one drafts.

We depart from the paper in: the drafts of tiny-ar-l were trained in one stage, on the probabilities that the target
gives to the texts of its tasks, without pre-training on plain text and on code (the three stages in order are in the
card of smollm2-draft, of which one checkpoint ships).

Letters: n tokens written by a round, V vocabulary, D the target's hidden size."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial
from string import ascii_lowercase, digits
from typing import TYPE_CHECKING, Any

from engines.kit import (
    Alternatives,
    CausalLM,
    Choice,
    Int,
    Params,
    Position,
    Record,
    Recorder,
    Roles,
    Steps,
    Stops,
    TokenId,
    UserError,
    part,
    slider,
    torch,
)
from engines.methods.speculative._turn import VERBS, Drafter, Target, drafting
from engines.methods.speculative._verify import Draft

if TYPE_CHECKING:
    from engines.models.networks.sized_draft import SizedDraft

MOST = 16
DIGITS = digits + ascii_lowercase


class Schooling(Record):
    """What one draft puts first in front of each token that a round wrote, at every length of its training."""

    tokens_seen: list[int]  # read in training by each checkpoint, the shortest training first
    drafting: int  # the checkpoint that drafts
    gamma: int
    end: Position  # where the answer is cut
    start: Position  # of the first token that this round wrote
    first: list[list[TokenId]]  # [checkpoints, n]

    def alternatives(self, run: Alternatives) -> dict[str, Stops]:
        """With another gamma the rounds that the text so far takes with each checkpoint, a digit of base 36 for each:
        twice the drafts that stay, and 1 where that is all of them."""
        begin, text, guessed = (
            len(run.header.prompt_ids),
            run.kept.setdefault("text", []),
            run.kept.setdefault("at", {}),
        )
        for step in run.steps[run.kept.get("read", 0) :]:
            commits = zip(step.commits.positions, step.commits.tokens, strict=True) if step.commits else ()
            for position, token in commits:
                text[position - begin :] = [token] if token >= 0 else []
        run.kept["read"] = len(run.steps)
        guessed |= {self.start - begin + i: row for i, row in enumerate(zip(*self.first, strict=True))}
        asked = [guessed.get(i, [None] * len(self.first)) for i in range(len(text))]

        def played(gamma: float) -> list[str]:
            hits = ([token == row[c] for token, row in zip(text, asked, strict=True)] for c in range(len(self.first)))
            rounds = (rounds_of(row, int(gamma), self.end - begin) for row in hits)
            return ["".join(DIGITS[2 * kept + full] for kept, full in row) for row in rounds]

        return {"gamma": Stops.over(slider(0, MOST, 1, self.gamma), played)}


def rounds_of(hits: Sequence[bool], gamma: int, room: int) -> list[tuple[int, bool]]:
    """The rounds of a draft whose first choice is the text's token where it hits: how many drafts stay, and whether all
    of them do. A token of the target's own follows. room: tokens that the text may have."""
    rounds, at = list[tuple[int, bool]](), 0
    while at < len(hits):
        most = min(gamma, room - at - 1)
        kept = next((i for i, hit in enumerate(hits[at : at + most]) if not hit), min(most, len(hits) - at))
        rounds.append((kept, kept == most))
        at += kept + 1
    return rounds


@drafting(
    "fastdraft",
    title="FastDraft",
    own="one draft at six moments of its training",
    paper="arXiv:2411.11055",
    summary="A tiny draft trained for its target: the longer it was trained, the longer its guesses hold.",
    needs={"target": "causal", "grid": part("draft-grid")},
    params=[
        Int("gamma", 3, 0, MOST, symbol="γ", neutral=0, source="3 in the paper's tables"),
        Choice("size", "d64x4", ["d16x1", "d32x1", "d64x1", "d64x4"], source="ours"),
        Choice("checkpoint", "512", ["16", "32", "64", "128", "256", "512"], source="ours"),
    ],
    signature="schooling",
    emits={"intervals"},
    records={"schooling": Schooling},
)
def decode(models: Roles, prompt: list[int], p: Params, run: Recorder) -> Steps:
    """One round per step: the chosen checkpoint drafts gamma first choices, the target verifies them."""
    school = School(models.grid, p.size, p.checkpoint)
    model = models.target.beside(school.draft, "draft")
    target = Target(models.target, prompt, p, rows=MOST + 1)
    drafter = Drafter(model, prompt, p, rows=MOST, vocab_size=models.target.vocab_size)
    ids = prompt
    while target.unfinished(ids):
        draft = Draft(ids[-1])
        for i in range(min(p.gamma, target.room(ids))):
            z = drafter.behind(ids, draft, [i]).logits[0]  # [V]
            x = int(z.argmax())
            draft.add(i, x, chance=float(z.softmax(-1)[x]))
            if x in models.target.eos_ids:
                break
        iteration = target.verify(ids, draft, run.rng)
        drafter.settle(iteration.verdict.path)
        edit = yield run.step(
            **iteration.groups(),
            intervals=run.calls(VERBS),
            records={
                "schooling": partial(school.read, iteration.ids, len(iteration.gained), gamma=p.gamma, end=target.end)
            },
            facts=iteration.facts(),
            note=f"A draft trained on {school.tokens_seen[school.drafting]:,} tokens: {iteration.note()}",
        )
        ids = run.apply_edit(edit, iteration.ids, target.cache, drafter.cache)


class School:
    """All checkpoints of one size of a grid, the shortest training first. One of them drafts, any may read along."""

    def __init__(self, grid: Any, size: str, steps: str) -> None:
        """grid: the part; steps: the training of the checkpoint that drafts. Raises UserError for one that the grid
        does not have."""
        self.grid = grid
        seen = {str(name): int(tokens) for name, tokens in grid.card["checkpoints"].items()}
        if steps not in seen:
            raise UserError(f"{grid.name} has no draft of {steps[:20]} steps; it has those of {', '.join(seen)}.")
        self.tokens_seen, self.drafting = [*seen.values()], [*seen].index(steps)
        self.checkpoints = [f"{size}.{name}" for name in seen]
        self._readers: Callable[[], list[SizedDraft]] = list

    def draft(self, target: Any) -> CausalLM:
        """The checkpoint that drafts, as a model with a cache; all share the target's embedding."""
        from engines.models.parts import grid_drafts  # it needs torch, which listing methods does not load

        E = target.model.get_input_embeddings().weight.cpu()
        self._readers = cache(
            lambda: [
                grid_drafts.network_of(self.grid, name, E, target.max_positions).to(target.device)
                for name in self.checkpoints
            ]
        )
        name = self.checkpoints[self.drafting]
        return grid_drafts.draft(f"{self.grid.name}@{name}", name, target)

    def read(self, ids: Sequence[int], n: int, gamma: int, end: int) -> Schooling:
        """What each checkpoint puts first in front of the last n of these tokens, all before them given."""
        with torch.no_grad():
            text = torch.tensor([ids[:-1]])
            states = [(reader, reader.states(text.to(reader.E.device))[0, -n:]) for reader in self._readers()]
            first = [(h @ reader.E.T).argmax(-1).tolist() for reader, h in states]
        return Schooling(self.tokens_seen, self.drafting, gamma, end, len(ids) - n, first)
