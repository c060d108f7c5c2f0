"""Speculative sampling with a chain of drafts (Leviathan et al., arXiv:2211.17192; Chen et al., arXiv:2302.01318).

A small model writes gamma tokens, the large one scores all of them in one forward. Draft x_i is kept with probability
min(1, p_i(x_i) / q_i(x_i)); the first refusal is replaced by a draw from norm(max(p - q, 0)), and where all are kept
the target adds one token. The text has exactly the target's distribution; at temperature 0 it is the greedy text.

Ours: the draft's temperature is a parameter of its own; at 0 its first choices are verified as the deterministic
candidates they are."""

from __future__ import annotations

from engines.kit import Int, Params, Recorder, Roles, Steps, draw, max_new_tokens, method
from engines.methods.speculative._turn import EMITS, LANES, VERBS, Drafter, Target, draft_temperature, temperature
from engines.methods.speculative._verify import Draft


@method(
    "speculative-sampling",
    title="Speculative sampling",
    family="speculative",
    paper="arXiv:2211.17192",
    code="https://github.com/huggingface/transformers",
    summary="A small model drafts a few tokens, the large one checks them in one forward and keeps those it would "
    "have written.",
    needs={"target": "causal", "draft": "causal"},
    params=[
        max_new_tokens(64),
        Int(
            "gamma",
            4,
            0,
            16,
            symbol="γ",
            neutral=0,
            sees="Tokens drafted per round: longer runs when they agree, more waste when not.",
            source="ours, for a CPU",
        ),
        temperature(),
        draft_temperature(),
    ],
    signature="tree",
    emits=EMITS,
    lanes=LANES,
    baseline="greedy",
    lossless=True,
)
def decode(models: Roles, prompt: list[int], p: Params, run: Recorder) -> Steps:
    """Algorithm 1 of the paper, one round per step. The last draft is not read by the drafter until it is known to
    stay."""
    target = Target(models.target, prompt, p, rows=17)
    drafter = Drafter(models.draft, prompt, p, rows=17, vocab_size=models.target.vocab_size)
    ids = prompt
    while target.unfinished(ids):
        draft = chain(drafter, ids, min(p.gamma, target.room(ids)), run)
        turn = target.verify(ids, draft, run.rng)
        drafter.settle(turn.verdict.path)
        edit = yield run.step(**turn.groups(), lanes=run.calls(VERBS), facts=turn.facts(), note=turn.note())
        ids = run.apply_edit(edit, turn.ids, target.cache, drafter.cache)


def chain(drafter: Drafter, ids: list[int], gamma: int, run: Recorder) -> Draft:
    """Draft gamma tokens one behind the other, each from the distribution q after those before it."""
    draft = Draft(ids[-1])
    for row in range(gamma):
        z = drafter.read(ids).logits if row == 0 else drafter.extend(draft, [row]).logits  # [1, V]
        q = drafter.distribution(z[0])
        x = draw(q, run.rng) if drafter.temperature else int(q.argmax())
        if drafter.temperature:
            draft.distributions[row] = q
        draft.add(row, x, chance=float(z[0].softmax(-1)[x]) if not drafter.temperature else float(q[x]))
    return draft


if __name__ == "__main__":
    from engines.kit import show

    show("speculative-sampling", "tiny-ar-l", "add: 457 + 86")
