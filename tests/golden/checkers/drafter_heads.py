"""Golden cases of published heads: Medusa's and Hydra's logits, trees and rounds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from engines.core.golden_cases import differ
from engines.core.lazy import torch
from engines.core.trees import row_depths
from engines.methods.heads import hydra, medusa
from engines.methods.heads._template import filled, parents_of
from engines.methods.speculative._turn import Turn
from engines.methods.speculative._verify import Draft

from .cases import Given, leaf_paths

if TYPE_CHECKING:
    from .drafters import Check

TOLERANCE = 1e-4


def tops(z: Any, drafter: Any, wanted: list[Given]) -> list[dict[str, Any]]:
    """The rows of logits [k, v] in the words of the data."""
    top = z.topk(3)
    rows = []
    for step, (columns, values) in enumerate(zip(top.indices, top.values, strict=True)):
        told = {
            "step": step,
            "head": step,
            "draft_id": int(columns[0]),
            "target_id": int(drafter.tokens(columns)[0]),
            "top3_draft_ids": columns.tolist(),
            "top3_ids": columns.tolist(),
            "top3_target_ids": drafter.tokens(columns).tolist(),
            "top3_logits": [float(v) for v in values],
        }
        rows.append({key: told[key] for key in wanted[step]})
    return rows


class HeadsCheck:
    """Medusa: heads on one state, a tree of fixed shape."""

    choices, own_token_first = "medusa_choices", False

    def __init__(self, check: Check) -> None:
        self.check, self.case = check, check.case

    def all(self, name: str) -> Any:
        yield self.logits(name)
        case = self.case
        if "tree" in case:
            yield self.tree(name)
        if "spec_decode_chain" in case:
            wanted = case["spec_decode_chain"]
            chain = [tuple([0] * (i + 1)) for i in range(len(wanted.get("choices") or range(wanted.get("k", 0))))]
            yield self.decode(f"{name}.spec_decode_chain", wanted, chain, self.own_token_first)
        if "spec_decode_tree" in case:
            paths = [tuple(path) for path in case["tree"][self.choices]]
            yield self.decode(f"{name}.spec_decode_tree", case["spec_decode_tree"], paths, True)

    def heads(self) -> Any:
        return medusa.Published(self.check.drafter)

    def logits(self, name: str) -> str | None:
        """What each head guesses behind the prompt."""
        wanted = self.case["heads"]
        z = self.heads().guess(self.check.all_states()[-1], len(self.check.prompt) + 1, len(wanted))
        return differ(f"{name}.heads", tops(z, self.check.drafter, wanted), wanted, TOLERANCE)

    def tree(self, name: str) -> str | None:
        """Tokens of the tree below the verifier's next token, in the order of the paths, and the rows to its leaves."""
        wanted = self.case["tree"]
        ids = [*self.check.prompt, self.case["first_token"]]
        paths, parents = parents_of(map(tuple, wanted[self.choices]))
        draft = self.grown(ids, self.check.all_states(), paths, parents)
        rows = [[draft.tokens[row] for row in path] for path in leaf_paths(parents)]
        deepest = max(map(len, rows))
        got = {
            "tree_tokens": draft.tokens,
            "position_offsets": row_depths(parents),
            "candidates": sorted([*row, *[self.filler(draft)] * (deepest - len(row))] for row in rows),
        }
        expected = {key: sorted(wanted[key]) if key == "candidates" else wanted[key] for key in got if key in wanted}
        return differ(f"{name}.tree", {key: got[key] for key in expected}, expected)

    def filler(self, draft: Draft) -> int:
        """What the official code fills short paths up with."""
        return 0

    def grown(self, ids: list[int], states: Any, paths: Any, parents: Any) -> Draft:
        """The filled tree behind the text `ids`, from states [n, d] of all of it but the last token."""
        z = self.heads().guess(states[-1], len(ids), max(map(len, paths)))
        return Draft.of(filled(paths, ids[-1], z.topk(10).indices.tolist()), parents, "draft")

    def decode(self, name: str, wanted: Given, choices: list[tuple[int, ...]], first: bool) -> str | None:
        """Rounds with a tree of these paths. first: see `Check.same_rounds`."""
        paths, parents = parents_of(choices)
        states: list[Any] = []

        def draft(ids: list[int]) -> Draft:
            return self.grown(ids, torch.cat(states), paths, parents)

        def learn(turn: Turn) -> None:
            n = self.check.n
            states.extend([turn.hidden_chain[n], turn.hidden[n][turn.verdict.path]])

        rounds = self.check.rounds(wanted, draft, learn)
        return self.check.same_rounds(name, rounds, wanted, own_token_first=first)


class HydraCheck(HeadsCheck):
    """Hydra: head i reads the i guesses before it."""

    choices, own_token_first = "hydra_choices", True

    def filler(self, draft: Draft) -> int:
        """Its index -1 is the last row of the tree."""
        return draft.tokens[-1]

    def logits(self, name: str) -> str | None:
        """What each head guesses behind the first choices of those before."""
        wanted, d = self.case["heads"], self.check.drafter
        ids = [*self.check.prompt, self.case["first_token"]]
        h, line, seen = d.state(d, self.check.all_states(), d.pasts()), [ids[-1]], []
        for i in range(len(wanted)):
            seen.append(d.guess(d, i, h, [line], len(ids) + i))
            line = [*line, int(seen[-1].argmax())]
        return differ(f"{name}.heads", tops(torch.cat(seen), d, wanted), wanted, TOLERANCE)

    def grown(self, ids: list[int], states: Any, paths: Any, parents: Any) -> Draft:
        """See `HeadsCheck`; the prefix layer reads everything anew, which what it keeps between rounds must equal."""
        d = self.check.drafter
        return hydra.grown(hydra.Published(d), d.state(d, states, d.pasts()), paths, parents, ids)
