"""Speculative sampling with a chain of drafts (Leviathan et al., arXiv:2211.17192; Chen et al., arXiv:2302.01318).

A small model writes gamma tokens, the large one scores all of them in one forward. Draft x_i is kept with probability
min(1, p_i(x_i) / q_i(x_i)); the first refusal is replaced by a draw from norm(max(p - q, 0)), and where all are kept
the target adds one token. The text has exactly the target's distribution; at temperature 0 it is the greedy text.

Ours: the draft's temperature is a parameter of its own; at 0 its first choices are verified as the deterministic
candidates they are."""

from engines.kit import (
    Generator,
    Int,
    Params,
    Recorder,
    Roles,
    Steps,
    Tensor,
    distribution,
    draw,
    residual,
    uniform,
)
from engines.methods.speculative._turn import VERBS, Drafter, Target, draft_temperature, drafting, temperature
from engines.methods.speculative._verify import Draft, Test, Verdict


@drafting(
    "speculative-sampling",
    title="Speculative sampling",
    paper="arXiv:2211.17192",
    code="https://github.com/huggingface/transformers",
    summary="A small model drafts a few tokens, the large one checks them in one forward and keeps those it would "
    "have written.",
    needs={"target": "causal", "draft": "causal"},
    params=[
        Int("gamma", 4, 0, 16, symbol="γ", neutral=0, source="ours, for a CPU"),
        temperature(),
        draft_temperature(),
    ],
    signature="tree",
    emits={"intervals"},
)
def decode(models: Roles, prompt: list[int], p: Params, run: Recorder) -> Steps:
    """Algorithm 1 of 2211.17192, one round per step; M_p is the target, M_q the draft model, and u_i what the paper
    calls r_i. M_q has not read its last guess yet: it does if that one stays."""
    target = Target(models.target, prompt, p, rows=17)
    drafter = Drafter(models.draft, prompt, p, rows=17, vocab_size=models.target.vocab_size)
    ids, T_d = prompt, drafter.temperature
    while target.unfinished(ids):
        T = p.temperature  # an edit may change it
        # Sample gamma guesses x_1, .., x_gamma from M_q, one behind the other, x_i from q_i.
        draft, qs = Draft(ids[-1]), []
        for i in range(min(p.gamma, target.room(ids))):
            z = drafter.behind(ids, draft, [i]).logits[0]  # [V]
            qs.append(drafter.distribution(z))
            x = sample(qs[i], T_d, run.rng)
            draft.add(i, x, chance=float((qs[i] if T_d else z.softmax(-1))[x]))

        # Run M_p on all of them in one call: p_1, .., p_(gamma + 1).
        rows = target.read(ids, draft)
        ps = [distribution(z.double(), T) for z in rows.z]

        # Accept n guesses, x_i with probability min(1, p_i(x_i) / q_i(x_i)). In place of the first one that is refused
        # stands t from norm(max(0, p - q)), behind gamma accepted ones t from p_(gamma + 1).
        n, tests = 0, []
        for p_i, q_i, x in zip(ps, qs, draft.tokens[1:], strict=False):
            if T and T_d:
                u, chance = uniform(run.rng), min(1.0, float(p_i[x]) / float(q_i[x]))
                accepted = u < chance
                t, source = -1 if accepted else draw(leftover(p_i, q_i), run.rng), "residual"
            else:  # p or q is one token: a draw from p has the law of the test and of what stands in its place
                t, source = sample(p_i, T, run.rng), "target" if T else "argmax"
                u, chance, accepted = None, float(p_i[x]), x == t
            tests.append(Test(n + 1, chance, u, accepted))
            if not accepted:
                break
            n += 1
            if x in models.target.eos_ids:  # the text ends here
                t, source = -1, "draft"
                break
        else:
            t, source = sample(ps[n], T, run.rng), "target" if T else "argmax"

        iteration = target.keep(rows, Verdict([*range(n + 1)], t, source, tests))  # prefix + x_1, .., x_n + t
        drafter.settle(iteration.verdict.path)
        edit = yield run.step(
            **iteration.groups(), intervals=run.calls(VERBS), facts=iteration.facts(), note=iteration.note()
        )
        ids = run.apply_edit(edit, iteration.ids, target.cache, drafter.cache)


def sample(p: Tensor, temperature: float, rng: Generator) -> int:
    """A token from p [V]; at temperature 0 the one that p is, and no random number is used."""
    return draw(p, rng) if temperature else int(p.argmax())


def leftover(p: Tensor, q: Tensor) -> Tensor:
    """norm(max(0, p - q)) [V]; p itself where nothing is left, since p = q refuses no token but by rounding."""
    left = residual(p, q.to(p.device).double())
    return p if left is None else left
