"""One round of drafting and verifying: the target with its cache, the drafter with its own, and what a round leaves for
the record.

Both caches lack the newest tokens of the text at the start of a round: the target's the last one (row 0 of the next
tree), the drafter's that one and the accepted tokens that it did not write itself. What is missing is fed along with
the next call."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from engines.core.method import Decode, Method
from engines.core.trace import Unit
from engines.kit import (
    CausalLM,
    Extended,
    Fed,
    Float,
    Generator,
    LaneInfo,
    Param,
    Params,
    Path,
    Paths,
    Tensor,
    Tree,
    behind,
    distribution,
    draw,
    entropy,
    many,
    max_new_tokens,
    method,
    token_probability,
    torch,
)
from engines.methods.speculative._verify import Draft, Verdict, emitted_tokens, record_tree, verify

EMITS = {"commits", "scores", "candidates", "tree", "facts", "note"}
LANES: dict[str, LaneInfo | Unit] = {
    "confidence": LaneInfo("probability", "Probability of each written token under the target."),
    "entropy": LaneInfo("nats", "Entropy of the target's distribution at each written token."),
}
OWN = "the target's own"  # of a token that was chosen, not drawn
VERBS = {"draft": "draft", "target": "verify"}


def drafting(
    slug: str,
    *,
    params: Sequence[Param],
    new_tokens: int = 64,
    greedy: bool = False,
    emits: Collection[str] = (),
    lanes: Mapping[str, LaneInfo | Unit] | None = None,
    lossless: bool | Mapping[str, Any] | Sequence[Mapping[str, Any]] = True,
    **declared: Any,
) -> Callable[[Decode], Method]:
    """`method` for one of the family, which reduces to greedy decoding. emits, lanes: what it has beside those of every
    round. Where `params` has none the length of the answer is its first parameter, usually `new_tokens`, and the
    target's temperature its last, unless it is `greedy` alone."""
    known = {param.name for param in params}
    first = [] if "max_new_tokens" in known else [max_new_tokens(new_tokens)]
    last = [] if greedy or "temperature" in known else [temperature()]
    return method(
        slug,
        params=[*first, *params, *last],
        emits=EMITS | {*emits},
        lanes=LANES | {**(lanes or {})},
        baseline="greedy",
        lossless=lossless,
        **declared,
    )


def temperature(help: str = "Above 0 tokens are drawn; the distribution stays that of plain sampling.") -> Param:
    """The target's temperature, called the same in every method of the family. help: "" for a method that does not
    always keep the distribution: its paper's file says what it keeps."""
    return Float(
        "temperature",
        0.0,
        0.0,
        2.0,
        step=0.05,
        symbol="T",
        help=help,
    )


def draft_temperature(default: float = -1.0, source: str = "") -> Param:
    """The drafter's own temperature: it changes how much is accepted, and under exact verification never the
    distribution of the text."""
    return Float(
        "draft_temperature",
        default,
        -1.0,
        2.0,
        step=0.05,
        symbol="T_d",
        help="Temperature of the drafter; 0 drafts its first choices, -1 follows the target's temperature.",
        source=source,
    )


def propose(
    draft: Draft, row: int, z: Tensor, temperature: float, rng: Generator, vocabulary: Tensor | None = None, V: int = 0
) -> float:
    """Put a drafted token behind a row: the first choice of logits z [v], or above temperature 0 one that is drawn from
    q, which the test then takes. Returns its probability. vocabulary [v]: the tokens, of V, that the logits are of."""
    q = distribution(z.double(), temperature) if temperature else z.softmax(-1)
    i = draw(q, rng) if temperature else int(z.argmax())
    if temperature:
        draft.distributions[row] = q if vocabulary is None else q.new_zeros(V).index_copy(0, vocabulary.long(), q)
    draft.add(row, i if vocabulary is None else int(vocabulary[i]), chance=float(q[i]))
    return float(q[i])


class Target:
    """The target model's side of a run: its cache, the verifying forward and the limits of the answer."""

    def __init__(self, model: CausalLM, prompt: Sequence[int], p: Params, rows: int) -> None:
        """rows: the largest tree that will be fed, root included."""
        self.model, self.start, self.end = model, len(prompt), len(prompt) + p.max_new_tokens
        self.cache = model.new_cache(self.end + rows)
        self.p = p

    def unfinished(self, ids: Sequence[int]) -> bool:
        """Whether there is something left to write."""
        return len(ids) < self.end and not (len(ids) > self.start and ids[-1] in self.model.eos_ids)

    def room(self, ids: Sequence[int]) -> int:
        """How deep a draft may go: tokens that may still be accepted, with one more behind them."""
        return self.end - len(ids) - 1

    def deepest(self, ids: Sequence[int]) -> int:
        """The same, and no deeper than the model has positions for."""
        return min(self.room(ids), (self.model.max_positions or self.end) - len(ids))

    def hang(self, ids: Sequence[int], parents: Sequence[int]) -> list[int]:
        """The parents of what the cache lacks of the text, but for the last token, and of a tree behind it."""
        c = len(ids) - 1 - self.cache.length
        return [*range(-1, c - 1), *(c + t if t >= 0 else c - 1 for t in parents)]

    def speaks(self, ids: Sequence[int], draft: Draft) -> list[int]:
        """The position that each of these rows predicts."""
        return [*range(self.cache.length + 1, len(ids)), *(len(ids) + depth for depth in draft.depths())]

    def read(self, ids: list[int], draft: Draft, hidden: Sequence[int] = ()) -> TargetRows:
        """Feed what the cache lacks of the text, and the tree behind it, in one forward. hidden: layers whose states at
        the tree's rows are wanted."""
        base, parents = self.cache.length, self.hang(ids, draft.parents)
        out = self.model.extend([*ids[base:-1], *draft.tokens], self.cache, parents=parents, hidden=hidden)
        return TargetRows(ids, draft, out.logits, out.hidden)

    def keep(self, rows: TargetRows, verdict: Verdict, at: Sequence[int] | None = None) -> Turn:
        """The round with this outcome. The cache then holds the text but its last token. at: the place of each row of
        the draft among all that were fed behind the text, if there were others between them."""
        ids, draft, chain, c = rows.ids, rows.draft, rows.chain, rows.c
        read = [row for row in verdict.path if row < len(rows.z)]  # the last one kept may not have been read
        self.cache.keep(len(ids) - 1 - c, [*range(c), *(c + (r if at is None else at[r]) for r in read)])
        gained = emitted_tokens(draft, verdict)[: self.end - len(ids)]
        self.cache.crop(min(self.cache.length, len(ids) + len(gained) - 1))
        states = {layer: h[c:] for layer, h in rows.hidden.items()}
        before = {layer: h[:c] for layer, h in rows.hidden.items()}
        return Turn(ids, draft, verdict, rows.z, rows.logits[:c], gained, chain, states, before)

    def verify(
        self,
        ids: list[int],
        draft: Draft,
        rng: Generator,
        *,
        hidden: Sequence[int] = (),
        rule: Callable[..., Verdict] = verify,
    ) -> Turn:
        """Read the tree, walk it and keep what was accepted. rule: another than the exact one."""
        rows = self.read(ids, draft, hidden)
        return self.keep(rows, rule(rows.z, draft, self.p.temperature, rng, self.model.eos_ids))

    def judge(
        self, ids: list[int], draft: Draft, logits: Tensor, rng: Generator, at: Sequence[int] | None = None
    ) -> Turn:
        """The same of a tree that the method has fed itself: logits [c + n, V], see `TargetRows`; at: as in `keep`."""
        rows = TargetRows(ids, draft, logits)
        return self.keep(rows, verify(rows.z, draft, self.p.temperature, rng, self.model.eos_ids), at)


@dataclass(frozen=True)
class TargetRows:
    """What one forward of the target gave for a draft: logits [c + n, V] of the c tokens `chain` of the text that the
    cache lacked, the last one excepted, and of the tree's n rows behind them."""

    ids: list[int]
    draft: Draft
    logits: Tensor
    hidden: Mapping[int, Tensor] = field(default_factory=dict)

    @property
    def c(self) -> int:
        """Tokens of text that were fed with the tree, of which leaves may be lacking."""
        return max(0, len(self.logits) - len(self.draft))

    @property
    def chain(self) -> list[int]:
        """These tokens."""
        return self.ids[-1 - self.c : -1]

    @property
    def z(self) -> Tensor:
        """The logits [n, V] of the tree's rows, the root's first."""
        return self.logits[self.c :]


@dataclass(frozen=True)
class Turn:
    """What one verifying forward found. z [n, V]: rows of the tree; z_chain [c, V]: rows of `chain`, text that was fed
    with it. hidden, hidden_chain: layer -> states of the tree's rows [n, d] and of those of the chain [c, d], of the
    layers asked for."""

    before: list[int]
    draft: Draft
    verdict: Verdict
    z: Tensor
    z_chain: Tensor
    gained: list[int]
    chain: list[int]
    hidden: Mapping[int, Tensor] = field(default_factory=dict)
    hidden_chain: Mapping[int, Tensor] = field(default_factory=dict)

    @property
    def ids(self) -> list[int]:
        """The text with what was gained."""
        return [*self.before, *self.gained]

    @property
    def accepted(self) -> int:
        """Drafted tokens that were kept."""
        return len(self.verdict.path) - 1

    @property
    def _behind(self) -> str:
        return behind(self.draft.parents, self.verdict.path[-1])

    @property
    def states(self) -> dict[int, Tensor]:
        """layer -> states [c + accepted + 1, d] of what is text now: of `chain` and of the rows that were kept."""
        path = self.verdict.path
        return {layer: torch.cat([self.hidden_chain[layer], h[path]]) for layer, h in self.hidden.items()}

    def deciding(self) -> Tensor:
        """The target's logits [len(gained), V] that decided each token gained."""
        return self.z[self.verdict.path[: len(self.gained)]]

    def facts(self, **more: float) -> dict[str, float]:
        """What every method of the family reports about a round."""
        return {"drafted": len(self.draft) - 1, "accepted": self.accepted, "rows": len(self.draft), **more}

    def groups(
        self,
        ranks: Sequence[int] | None = None,
        *,
        causes: Mapping[int, str] | None = None,
        authors: Mapping[str, str] | None = None,
        lanes: Callable[[], Mapping[str, Any]] = dict,
    ) -> dict[str, Any]:
        """The groups of the record that follow from the round: keyword arguments for `run.step`. causes: by number of
        the token gained, where a method has one of its own; authors: cause -> who wrote, the target with any other;
        lanes: further scores."""
        at = list(range(len(self.before), len(self.before) + len(self.gained)))
        deciding = self.deciding()
        chance = token_probability(deciding, torch.tensor(self.gained, device=self.z.device))
        plain = "greedy" if self.verdict.source == "argmax" else "sampled"
        last = self._behind or plain
        usual = [*["accepted"] * self.accepted, last][: len(self.gained)]
        why = [(causes or {}).get(i, cause) for i, cause in enumerate(usual)]
        by = [[authors.get(cause, "target") for cause in why]] if authors else []

        def tree() -> Tree:
            return record_tree(self.z, self.draft, self.verdict, len(self.before) - 1, ranks)

        return {
            "commits": (at, self.gained, why, chance, *by),
            "scores": lambda: {"confidence": (at, chance), "entropy": (at, entropy(deciding)), **lanes()},
            "candidates": lambda: (at, deciding),
            "tree": tree,
        }

    def note(self) -> str:
        """One sentence on the round."""
        n = len(self.draft) - 1
        if n == 0:
            return "Nothing was drafted; one token from the target."
        return f"{self.accepted} of {many(n, 'drafted token')} accepted{self.ending()}."

    def ending(self) -> str:
        """What follows the drafted tokens that were kept, to go on with in a sentence that counted them."""
        if self.verdict.source != "draft" and (left := len(self.gained)) <= self.accepted:
            return f"; the maximum length leaves room for {many(left, 'token')}"
        if self.verdict.source == "draft":
            return ", the last of them the end mark"
        own = {"correction": "the correction", "bonus": "the bonus token"}[self._behind]
        drawn = {"residual": "drawn from the residual distribution", "target": "drawn from the target"}
        return f"; {own} is {drawn.get(self.verdict.source, OWN)}"


def unfinished(paths: Paths, start: int, end: int) -> list[Path]:
    """The paths with something left to write; the others end here."""
    for path in paths.living:
        if path.length >= end or (path.length > start and path.tip.token in paths.model.eos_ids):
            paths.drop(path, "finished")
    return paths.living


def judged(paths: Paths, path: Path, fed: Fed, draft: Draft, p: Params, end: int) -> Turn:
    """Walk a path's tree with what the target said, and write what was accepted and the token behind it."""
    ids, verdict = paths.read(path), verify(fed.z, draft, p.temperature, path.rng, paths.model.eos_ids)
    rows = verdict.path[1:][: end - len(ids)]
    own = [verdict.emitted] if verdict.emitted >= 0 and len(rows) < end - len(ids) else []
    return Turn(ids, draft, verdict, fed.z, fed.z_before, paths.accept(path, rows, own), fed.before)


class Drafter:
    """The draft model of a run. Tree rows are fed behind the text, each seeing its own ancestors only; accepted ones
    stay."""

    def __init__(self, model: CausalLM, prompt: Sequence[int], p: Params, rows: int, vocab_size: int) -> None:
        """rows: the most tree rows that lie in the cache at once. vocab_size: the target's, to which the drafter's
        logits are cut or filled up."""
        self.model, self.vocab_size = model, vocab_size
        self.cache = model.new_cache(len(prompt) + p.max_new_tokens + rows)
        own = float(getattr(p, "draft_temperature", -1.0))  # below 0, or without a parameter of its own, the target's
        self.temperature = own if own >= 0 else float(p.temperature)
        self._at: dict[int, int] = {}  # row of the draft -> its place behind the text
        self._parents: list[int] = []

    def read(self, ids: Sequence[int], hidden: Sequence[int] = (), last_only: bool = True) -> Extended:
        """Feed what the cache lacks of the text; logits [1, V] of its last token, or of all n that were fed [n, V] (and
        hidden states of all)."""
        self.cache.crop(min(self.cache.length, len(ids) - 1))
        self._at, self._parents = {0: -1}, []
        out = self.model.extend(ids[self.cache.length :], self.cache, last_only=last_only, hidden=hidden)
        return Extended(self._fit(out.logits), out.hidden)

    def behind(self, ids: Sequence[int], draft: Draft, rows: Sequence[int], hidden: Sequence[int] = ()) -> Extended:
        """Logits [k, V] behind rows of a tree below the text: `read` for the root, `extend` for others."""
        return self.extend(draft, rows, hidden) if rows[0] else self.read(ids, hidden)

    def extend(self, draft: Draft, rows: Sequence[int], hidden: Sequence[int] = ()) -> Extended:
        """Feed rows of the tree, parents before children, each once; logits [k, V]."""
        for row in rows:
            self._at[row] = len(self._parents)
            self._parents.append(self._at[draft.parents[row]])
        out = self.model.extend(
            [draft.tokens[row] for row in rows], self.cache, parents=list(self._parents), hidden=hidden
        )
        return Extended(self._fit(out.logits), out.hidden)

    def distribution(self, z: Tensor) -> Tensor:
        """What the drafter samples from: softmax(z / T_d) [.., V] in float64, one-hot at 0."""
        return distribution(z.double(), self.temperature)

    def propose(self, draft: Draft, row: int, z: Tensor, rng: Generator) -> float:
        """Put the drafter's token behind a row, see `propose`."""
        return propose(draft, row, z, self.temperature, rng)

    def chain(self, ids: Sequence[int], length: int, rng: Generator, first: int | None = None) -> Draft:
        """Tokens one behind the other below the text. first: a token in the place of the drafter's first."""
        draft = Draft(ids[-1])
        for row in range(length):
            z = self.behind(ids, draft, [row]).logits[0]
            if row == 0 and first is not None:
                draft.add(0, first, source="random")
            else:
                self.propose(draft, row, z, rng)
        return draft

    def settle(self, path: Sequence[int]) -> None:
        """Keep the accepted rows that lie in the cache, forget the others. path: the verdict's rows."""
        kept: list[int] = []
        for row in path[1:]:
            if row not in self._at:
                break
            kept.append(self._at[row])
        self.cache.keep(self.cache.length - len(self._parents), kept)
        self._at, self._parents = {0: -1}, []

    def _fit(self, z: Tensor) -> Tensor:
        """Logits [.., V] over the target's vocabulary; families pad theirs differently."""
        missing = self.vocab_size - z.shape[-1]
        return z[..., : self.vocab_size] if missing <= 0 else torch.nn.functional.pad(z, (0, missing), value=-torch.inf)
