"""Judge Decoding: ask whether a drafted token is good, not whether the target would have said just that (Bachmann et
al., arXiv:2501.19309).

The target's state e_i behind its last layer, at the row that reads drafted token x_i, shows whether it thinks that
something went wrong. A linear judge on that state, j_i = sigmoid(w e_i + b) > delta, lets a token stand that the
standard test refuses: accept_i = m_i or j_i. Both come from the same verify forward. Not lossless: what the judge lets
through is the draft's text, and the target's safety is no promise for it.

Written from reviews of the paper, as the authors published no code. Instead of the drafter, a text that a person typed
can be the draft: its tokens come window by window, a refused one is replaced by the target's, and behind its end the
drafter goes on.

Letters: gamma drafted tokens x, m the standard test, e [gamma, d] states, w [d] and b the judge, V vocabulary."""

from dataclasses import dataclass
from typing import Any, ClassVar

from engines.core.trace import Detail
from engines.kit import (
    Alternatives,
    Decision,
    Float,
    Generator,
    Int,
    Params,
    Probability,
    Record,
    Recorder,
    Roles,
    Steps,
    Stops,
    Tensor,
    Text,
    Tree,
    many,
    part,
    slider,
)
from engines.methods.speculative._turn import (
    VERBS,
    Drafter,
    Target,
    TargetRows,
    Turn,
    draft_temperature,
    drafting,
    temperature,
)
from engines.methods.speculative._verify import Draft, Test, Verdict
from engines.methods.speculative.judge_decoding.rule import last_token, or_mask, standard

MOST = 32


class Judged(Record):
    """What the judge says of each drafted token, and whether the standard test accepts it."""

    KEPT_FROM: ClassVar[Detail] = "light"
    delta: float
    scores: list[Probability]
    standard: list[bool]

    def alternatives(self, run: Alternatives) -> dict[str, Stops]:
        """Who lets each token stand at another threshold; none that is behind a refusal or the end of the text."""
        tree = run.steps[-1].tree
        ends = [i for i, x in enumerate(tree.tokens[1:] if tree else ()) if x in run.header.eos_ids]

        def fates(delta: float) -> list[str]:
            tests = min([or_mask(self.standard, self.scores, delta)[1], *ends]) + 1
            by = [tested(m, s > delta) for m, s in zip(self.standard, self.scores, strict=True)]
            return by[:tests] + ["behind"] * len(by[tests:])

        return {"delta": Stops.over(slider(0, 1, 0.01, self.delta), fates)}


@drafting(
    "judge-decoding",
    title="Judge decoding",
    own="after reviews of the paper, own judge",
    paper="arXiv:2501.19309",
    summary="A small judge on the target's own state accepts good drafted tokens that the target would not have "
    "written. Lossless only at δ = 1.",
    needs={"target": "layered", "draft": "causal", "judge": part("judge")},
    params=[
        Int("gamma", 8, 1, MOST, symbol="γ", source="ours"),
        Float("delta", 0.5, 0.0, 1.0, step=0.05, symbol="δ", neutral=1.0, source="paper"),
        Text("text", "", source="ours"),
        temperature(help=""),
        draft_temperature(),
    ],
    signature="judged",
    emits={"intervals", "choice"},
    records={"judged": Judged},
    lanes={"judge": "probability"},
    lossless={"delta": 1.0},
)
def decode(models: Roles, prompt: list[int], p: Params, run: Recorder) -> Steps:
    """One round per step: draft, one forward of the target, both tests of every token."""
    target = Target(models.target, prompt, p, rows=MOST + 1)
    drafter = Drafter(models.draft, prompt, p, rows=MOST, vocab_size=models.target.vocab_size)
    w, b = models.judge.tensors["w"], models.judge.tensors["b"]
    ids, typed, text = prompt, list[int](), ""
    while target.unfinished(ids):
        if text != p.text:  # at the first step, and where an edit gave another draft
            typed, text = answer_ids(models.target.tokenizer, p.text), p.text
        length = min(p.gamma, target.room(ids))
        person = bool(typed) and length > 0
        words = typed[:length]
        draft = (
            Draft.of([ids[-1], *words], range(-1, len(words)), "person")
            if person
            else drafter.chain(ids, length, run.rng)
        )
        look = verify_and_judge(target, ids, draft, w, b, p, run.rng, more=person and len(typed) > length)
        iteration = look.iteration
        drafter.settle(iteration.verdict.path if not person else [0])
        typed = typed[max(1, len(iteration.gained)) :]
        alone = look.alone()
        edit = yield run.step(
            **look.groups("person" if person else "draft"),
            thresholds={"judge": p.delta},
            choice=look.decision(p.delta),
            records={"judged": Judged(p.delta, look.score, look.plain)} if look.score else {},
            intervals=run.calls(VERBS),
            facts=iteration.facts(judged=len(alone), standard=look.standard, typed=int(person)),
            note=note(look, len(alone), person),
        )
        ids = run.apply_edit(edit, iteration.ids, target.cache, drafter.cache)


@dataclass(frozen=True)
class Look:
    """A judged round. score [gamma]: what the judge says; plain [gamma]: whether the standard test accepts, u and
    ratio [gamma] with which number and chance; standard: how many tokens it alone would have kept."""

    iteration: Turn
    score: list[float]
    plain: list[bool]
    u: list[float | None]
    ratio: list[float]

    @property
    def standard(self) -> int:
        """The tokens before the first that the standard test refuses."""
        return self.plain.index(False) if False in self.plain else len(self.plain)

    def alone(self) -> list[int]:
        """The kept tokens that only the judge accepts."""
        return [i for i in range(self.iteration.accepted) if not self.plain[i]]

    def groups(self, author: str) -> dict[str, Any]:
        """The groups of the record: the judge's lane for all that was drafted, by `author`, and the draft with both
        tests of every row, looked at or not."""
        start = len(self.iteration.before)
        usual = self.iteration.groups(
            causes=dict.fromkeys(self.alone(), "judged"),
            authors=dict.fromkeys(("accepted", "judged"), author),
            lanes=lambda: {"judge": (range(start, start + len(self.score)), self.score)},
        )

        def tree() -> Tree:
            tree: Tree = usual["tree"]()
            tree.values, tree.value_name = [None, *self.score], "judge"
            tree.chances, tree.uniforms = [None, *self.ratio], [None, *self.u]
            return tree

        return {**usual, "tree": tree}

    def decision(self, delta: float) -> Decision | None:
        """Which test let the round's last decided token stand, or refused it."""
        if not self.score:
            return None
        row = min(self.iteration.accepted, len(self.score) - 1)
        chosen = tested(self.plain[row], self.score[row] > delta)
        return Decision(["both", "standard", "judge", "none"], chosen, "judge", self.score[row], delta, "probability")


def tested(standard: bool, judged: bool) -> str:
    """Who lets a token stand."""
    return {(True, True): "both", (True, False): "standard", (False, True): "judge"}.get((standard, judged), "none")


def answer_ids(tokenizer: Any, text: str) -> list[int]:
    """The tokens of a typed answer, with a space before it where the chat format sets one before a text."""
    if not text.strip():
        return []
    spaced = tokenizer.decode(tokenizer.encode_prompt("0")).startswith(" ")
    return list(tokenizer.encode(f" {text.strip()}" if spaced else text.strip()))


def verify_and_judge(
    target: Target, ids: list[int], draft: Draft, w: Tensor, b: Tensor, p: Params, rng: Generator, more: bool
) -> Look:
    """One forward of the target, layer by layer, over the text that the cache lacks and the draft; the cache then holds
    the text but its last token. more: a typed draft goes on behind this one."""
    base = target.cache.length
    model: Any = target.model  # layered, as this method asks for
    c, gamma = len(ids) - 1 - base, len(draft) - 1
    h = model.layers(model.embed([*ids[base:-1], *draft.tokens]), target.cache, 0, model.num_layers)
    rows = TargetRows(ids, draft, model.unembed(h, predicts=base + 1).float())  # h [c + 1 + gamma, d]
    e = h[c + 1 :].float()  # [gamma, d]: the rows that read x_1 ... x_gamma
    score = (e @ w.to(e.device) + b.to(e.device)).sigmoid().tolist()
    plain, u, ratio = standard(rows.z, draft, p, rng)
    accept, A = or_mask(plain, score, p.delta)
    ends = [i + 1 for i in range(A) if draft.tokens[i + 1] in model.eos_ids]
    A = ends[0] if ends else A
    tests = [Test(i, ratio[i - 1], u[i - 1], accept[i - 1]) for i in range(1, min(A + (not ends), gamma) + 1)]
    if ends or (more and gamma == A):
        emitted, source = -1, "draft"
    else:
        emitted, source = last_token(rows.z[A], draft, A, p, rng)
    return Look(target.keep(rows, Verdict(list(range(A + 1)), emitted, source, tests)), score, plain, u, ratio)


def note(look: Look, alone: int, person: bool) -> str:
    """One sentence on the round."""
    iteration = look.iteration
    if not look.score:
        return "Nothing was drafted; one token from the target."
    tokens = many(len(look.score), f"{'typed' if person else 'drafted'} token")
    text = f"{iteration.accepted} of {tokens} accepted; the standard test alone accepts {look.standard}"
    return f"{text}, {alone} accepted by the judge alone." if alone else f"{text}."
