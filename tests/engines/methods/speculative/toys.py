"""Toy distributions by context for draft trees: a round on them takes a fraction of a millisecond, and the distribution
of its tokens is known."""

import zlib

import torch

from engines.core.sampling import draw
from engines.methods.speculative._verify import Draft, verify
from tests.engines.fakes import TableCausal

V = 4


class Toy:
    """p and q of every context, from random logits; target and drafter agree more or less."""

    def __init__(self, seed=0, scale=1.5):
        self.seed, self.scale, self._z, self._q = seed, scale, {}, {}

    def logits(self, who, context):
        key = (self.seed, who, *context)
        if key not in self._z:
            rng = torch.Generator().manual_seed(zlib.crc32(repr(key).encode()))
            self._z[key] = torch.randn(V, generator=rng, dtype=torch.float64) * self.scale
        return self._z[key]

    def p(self, context):
        return self.logits("target", context).softmax(-1)

    def q(self, context):
        key = tuple(context)
        if key not in self._q:
            self._q[key] = self.logits("draft", context).softmax(-1)
        return self._q[key]

    def distributions(self, draft):
        return lambda rows: torch.stack([self.q(draft.path(row)) for row in rows])

    def joint(self):
        """The target's distribution of the first two tokens, flat."""
        return torch.stack([self.p([])[a] * self.p([a]) for a in range(V)]).flatten()

    @torch.inference_mode()
    def counts(self, grow, rounds, seed=0):
        """Counts of the first two tokens of many rounds on the trees that grow(draft, rng) gives; a round of one token
        is filled up from p."""
        rng, counts = torch.Generator().manual_seed(seed), torch.zeros(V * V)
        for _ in range(rounds):
            draft = grow(Draft(0), rng)
            z = torch.stack([self.logits("target", draft.path(row)) for row in range(len(draft))])
            verdict = verify(z, draft, 1.0, rng)
            tokens = [*draft.path(verdict.path[-1]), verdict.emitted]
            a, b = (tokens if len(tokens) > 1 else [*tokens, draw(self.p(tokens), rng)])[:2]
            counts[a * V + b] += 1
        return counts


def rebuilt(draft, rows):
    """The tree with these of its rows, in this order; parents before children."""
    new, at = Draft(draft.root, replacement=draft.replacement), {0: 0}
    for row in rows:
        at[row] = new.add(at[draft.parents[row]], draft.tokens[row], draft.chances[row])
    new.distributions = {at[row]: q for row, q in draft.distributions.items() if row in at}
    return new


def pair(seed=0, memory=None, eos_ids=(), vocab_size=5, **options):
    """A target and a drafter that agree now and then."""
    target = TableCausal(vocab_size=vocab_size, seed=seed, memory=memory, eos_ids=eos_ids, **options)
    return {"target": target, "draft": TableCausal(vocab_size=vocab_size, seed=seed + 1, memory=1, eos_ids=eos_ids)}


def check_rows(trace, models, draft_temperature):
    """Each row of each tree was judged in its own context: what the record says of it is what both models say there."""
    written, rows = list(trace.header.prompt_ids), 0
    for step in trace.steps:
        tree = step.tree
        paths = [[]]
        for row in range(1, len(tree.tokens)):
            above, token = paths[tree.parents[row]], tree.tokens[row]
            for who, temperature, recorded in (
                ("draft", draft_temperature, tree.draft_logprobs),
                ("target", 1.0, tree.target_logprobs),
            ):
                z = models[who].logits(written + above)[0].double() / temperature
                assert abs(float(z.log_softmax(-1)[token]) - recorded[row]) < 1e-4
            paths.append([*above, token])
            rows += 1
        written += step.commits.tokens
    return rows
