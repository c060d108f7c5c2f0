"""SpecDec++: adaptive candidate lengths (Huang, Guo and Wang, arXiv:2405.19715; code Kaffaljidhmah2/SpecDec_pp).

How many tokens to draft is a stopping problem: go on while the chance that something drafted so far will be refused is
small. The chance comes from a small head on the drafter's hidden states, trained to predict min(1, p/q) of the token
read; the product A over the round so far is the chance that all stay, and drafting stops once 1 - A exceeds h. The
decision never looks at tokens not drawn yet and every drawn token is verified, so the text has the target's
distribution whatever the head says.

The head sees a token only when the drafter reads it, which is the forward that draws the next one: at the stop A covers
all tokens but the last, which is submitted unseen. head=confidence is ours, for pairs without a trained head: the
drafter's own q(x) in place of the head, known as soon as the token is drawn, so that A covers the last one too."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from engines.core.trace import Small
from engines.kit import (
    Alternatives,
    Choice,
    Decision,
    Float,
    Int,
    Params,
    Probability,
    Record,
    Recorder,
    Roles,
    Steps,
    Stops,
    many,
    slider,
)
from engines.kit import Generator as Rng
from engines.methods.speculative._turn import VERBS, Drafter, Target, Turn, draft_temperature, drafting, temperature
from engines.methods.speculative._verify import Draft
from engines.models.parts.accept_head import AcceptHead, head_of

MOST = 32


class Stopping(Record):
    """How likely it was, as judged while drafting, that all drafts so far stay, and where drafting stops."""

    survival: list[Probability]  # A behind each token that was judged
    h: Probability  # the chance of a refusal at which drafting stops
    least: int  # lo
    drafted: Small
    lag: int  # tokens that are drawn before the one in front of them is judged: 1 with a trained head

    def alternatives(self, _: Alternatives) -> dict[str, Stops]:
        """How many of these drafts are made with another h."""

        def drafted(h: float) -> int:
            rounds = (
                (n, StopRule(h, self.least, self.drafted, self.survival[: n - self.lag]))
                for n in range(1, self.drafted)
            )
            return next((n for n, rule in rounds if rule.stop(n)), self.drafted)

        return {"h": Stops.over(slider(0, 1, 0.01, self.h), drafted)}


@drafting(
    "specdec-pp",
    title="SpecDec++",
    paper="arXiv:2405.19715",
    code="https://github.com/Kaffaljidhmah2/SpecDec_pp",
    summary="Drafts until a trained head predicts that a refusal has become likely, instead of a fixed number of "
    "tokens.",
    needs={"target": "causal", "draft": "causal"},
    params=[
        Float("threshold", 0.5, 0.0, 1.0, step=0.05, symbol="h", source="0.3 and 0.7 in the code"),
        Int("least", 1, 1, MOST, symbol="lo", source="ours; 2 in the code"),
        Int("most", 12, 1, MOST, symbol="hi", source="ours; 20 in the code"),
        Choice("head", "trained", ["trained", "confidence"], source="paper"),
        temperature(),
        draft_temperature(),
    ],
    signature="staircase",
    emits={"intervals", "choice"},
    records={"stopping": Stopping},
    lanes={"survival": "probability"},
)
def decode(models: Roles, prompt: list[int], p: Params, run: Recorder) -> Steps:
    """One round per step; every round begins with A = 1."""
    target = Target(models.target, prompt, p, rows=MOST + 1)
    drafter = Drafter(models.draft, prompt, p, rows=MOST, vocab_size=models.target.vocab_size)
    ids = prompt
    while target.unfinished(ids):
        head = head_of(models.target.record, models.draft.record) if p.head == "trained" else None
        rule = StopRule(p.threshold, p.least, min(p.most, target.room(ids)))
        draft, stopped = draft_round(drafter, ids, rule, head, run.rng)
        iteration = target.verify(ids, draft, run.rng)
        drafter.settle(iteration.verdict.path)
        start = len(ids)
        edit = yield run.step(
            **iteration.groups(lanes=lambda: {"survival": (range(start, start + len(rule.survival)), rule.survival)}),
            thresholds={"survival": 1 - p.threshold},
            choice=Decision(
                ["threshold", "most", "end mark"],
                stopped,
                "chance of a refusal",
                rule.p_reject,
                p.threshold,
                unit="probability",
            ),
            intervals=run.calls(VERBS),
            records={
                "stopping": lambda: Stopping(
                    rule.survival, rule.threshold, rule.least, len(draft) - 1, int(head is not None)
                )
            },
            facts=iteration.facts(p_reject=rule.p_reject, wasted=len(draft) - 1 - iteration.accepted),
            note=note(iteration, stopped, rule),
        )
        ids = run.apply_edit(edit, iteration.ids, target.cache, drafter.cache)


@dataclass
class StopRule:
    """The decision after each drawn token: a chance above `threshold` that something is refused ends the round, within
    the bounds [least, most]."""

    threshold: float
    least: int
    most: int
    survival: list[float] = field(default_factory=list)  # A after each token that has been judged

    @property
    def p_reject(self) -> float:
        """1 - A, the chance so far that something drafted is refused."""
        return 1 - self.survival[-1] if self.survival else 0.0

    def judge(self, chance: float) -> None:
        """The next token's chance to be kept is known."""
        self.survival.append((self.survival[-1] if self.survival else 1.0) * chance)

    def stop(self, drawn: int) -> bool:
        """Whether the round ends after `drawn` tokens."""
        return drawn >= self.most or (drawn >= self.least and self.p_reject > self.threshold)


def draft_round(
    drafter: Drafter, ids: Sequence[int], rule: StopRule, head: AcceptHead | None, rng: Rng
) -> tuple[Draft, str]:
    """The chain drafted, and why it ended there (the official `hf_generation`). head: None for the drafter's own
    confidence."""
    draft = Draft(ids[-1])
    layer = () if head is None else (drafter.model.num_layers,)
    for row in range(rule.most):
        out = drafter.behind(ids, draft, [row], layer)
        if head is not None and row > 0:
            rule.judge(float(head(out.hidden[layer[0]][-1])))
        chance = drafter.propose(draft, row, out.logits[-1], rng)
        if head is None:
            rule.judge(chance)
        if draft.tokens[-1] in drafter.model.eos_ids:
            return draft, "end mark"
        if rule.stop(row + 1):
            break
    return draft, "most" if len(draft) > rule.most else "threshold"


def note(iteration: Turn, stopped: str, rule: StopRule) -> str:
    """One sentence on the round."""
    n = len(iteration.draft) - 1
    if n == 0:
        return "No room for a draft; one token from the target."
    why = {
        "threshold": f"a refusal had become likely ({rule.p_reject:.0%})",
        "most": f"the maximum was reached (a refusal was {rule.p_reject:.0%} likely)",
        "end mark": "the end mark was drafted",
    }[stopped]
    return f"{many(n, 'token')} drafted, until {why}; {iteration.accepted} accepted{iteration.ending()}."
