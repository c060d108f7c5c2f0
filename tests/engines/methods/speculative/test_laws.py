"""What holds of every way to draft, on models that are tables of logits, whatever is set."""

import itertools

import pytest
import torch

import engines
from engines.core.sampling import distribution
from tests.engines.fakes import TableCausal, board, chi_square_p
from tests.engines.methods.speculative.toys import pair

PROMPT = [1, 2, 3, 1, 2]
SIDE = "stand-side-by-side"
SILENT = {"copies": False, "table": False, "store": False, "draft": False}  # nothing drafts
ALONE = {  # they draft from the text, or from what the target said before
    "adaptive-drafts": [{}, {"copies": False}, {"table": False}, {"rows": 3}, {"rows": 0}, {"depth": 2}, SILENT],
    "aded": [
        *({}, {"increment": 0.0}, {"reward": "released"}, {"learn_from_prompt": True}, {"depth": 6, "iterations": 10}),
        *({"depth": 1, "paths": 32, "node_limit": 64}, {"paths": 1}, {"node_limit": 1}, {"keep": 1}),
        *({"c1": 0.0, "c2": 64.0}, {"window": 3, "increment": 0.5}),
    ],
    "aggressive-decoding": [{"gram": 1}, {"gram": 3}],
    "prompt-lookup": [{"longest": 3, "matches": n, "order": order} for n in (1, 8) for order in ("first", "newest")],
    "stand": [
        *({}, {"drafting": "deterministic"}, {"template": "80"}, {"longest": 5, "shortest": 2}),
        {"stored": 2, "trajectories": 3},
    ],
    SIDE: [{"trajectories": 3}, {"trajectories": 5, "drafting": "deterministic", "template": "80"}],
    "token-recycling": [
        *({"template": template} for template in ("7", "80")),
        *({"k": 1}, {"k": 16}, {"learn_from_prompt": False}, {"learn_from_rejected": False}),
    ],
}
BESIDE = {  # a draft model drafts for them
    "adaptive-drafts": [{}, {"copies": False, "table": False}, {"rows": 2}, {"depth": 1}],
    "dyspec": [
        {"construction": how, "draft_temperature": hot, "budget": n}
        for how, hot, n in (("threshold", -1.0, 12), ("greedy", -1.0, 48), ("threshold", 0.6, 48), ("greedy", 0.6, 12))
    ],
    "pearl": [
        *({"gamma": n, "execution": how} for n, how in ((1, "turns"), (5, "turns"), (12, "turns"), (2, "threads"))),
        *({"pre_verify": False}, {"post_verify": False, "execution": "threads"}),
        {"pre_verify": False, "post_verify": False, "gamma": 2},
    ],
    "rasd": [
        *({"top_k": 0}, {"budget": 0}, {"drafter": False}, {"retriever": "first"}, {"shortest": 2}),
        *({"fan": 4, "depth": 6, "rows": 48}, {"drafter": False, "budget": 0}, {"drafter": False, "floor": 0.3}),
    ],
    "rsd": [
        *({"variant": "S", "width": 8, "length": 6}, {"variant": "C"}, {"variant": "S", "draft_temperature": 1.0}),
        *({"variant": which, "replacement": True} for which in ("S", "C")),
    ],
    "specdec-pp": [{}, {"threshold": 0.3}, {"threshold": 1.0, "most": 32}],
    "speculative-sampling": [
        *({"gamma": 0}, {"gamma": 1}, {"gamma": 16}),
        *({"gamma": 4, "draft_temperature": hot} for hot in (-1.0, 0.0, 1.3)),
    ],
}
# costs that are not those of this machine; no trained head, which tables have not
USUAL = {"adaptive-drafts": {"row_cost": 0.02}, "specdec-pp": {"head": "confidence"}}
EVERY = [
    (slug, params, beside)
    for table, beside in ((ALONE, False), (BESIDE, True))
    for slug, some in table.items()
    for params in some
]
FIRST = [(slug, beside) for table, beside in ((ALONE, False), (BESIDE, True)) for slug in table]


def models_of(beside, seed=0, memory=None, **options):
    if beside:
        return pair(seed, memory, **options)
    return TableCausal(**{"vocab_size": 5, **options}, seed=seed, memory=memory)


def target_of(models):
    return models["target"] if isinstance(models, dict) else models


def decode(slug, models, prompt=PROMPT, seed=0, edits=(), detail="full", **params):
    given = {"max_new_tokens": 30, **USUAL.get(slug, {}), **params}
    return engines.run(slug, models, list(prompt), params=given, seed=seed, edits=edits, detail=detail)


@pytest.mark.parametrize(("slug", "params", "beside"), EVERY)
def test_at_temperature_0_the_text_is_the_greedy_one(slug, params, beside):
    for seed, memory, grid in ((0, 1, None), (1, 2, 3.0), (2, None, None)):  # the second has many equal logits
        models = models_of(beside, seed, memory, grid=grid, eos_ids=(4,) if seed else ())
        plain, ours = decode("greedy", target_of(models)), decode(slug, models, **params)
        assert ours.output_ids == plain.output_ids == board(ours)
        samples = params.get("trajectories", 1) if slug == "stand" else 1
        assert ours.totals.forwards_by_role.get("target", 0) <= plain.totals.forwards * samples or slug == "pearl"


@pytest.mark.parametrize(("slug", "beside"), FIRST)
def test_short_prompts_and_short_answers(slug, beside):
    for prompt, room in itertools.product(([1], [1, 2], [4] * 30), (1, 2, 7)):
        models = models_of(beside, memory=1, max_positions=len(prompt) + room)
        ours = decode(slug, models, prompt, max_new_tokens=room)
        assert ours.output_ids == decode("greedy", target_of(models), prompt, max_new_tokens=room).output_ids


@pytest.mark.parametrize(("slug", "beside"), FIRST)
def test_the_targets_cache_holds_the_text_and_behind_a_change_the_text_is_greedys(slug, beside):
    models = models_of(beside, seed=2)
    edit = (1, engines.Edit(force={len(PROMPT) + 1: 4, len(PROMPT) + 2: 0}))
    for edits in ((), [edit]):
        target_of(models).calls.clear()
        trace = decode(slug, models, edits=edits)
        text = PROMPT + trace.output_ids
        seen = [cached for cached, _ in target_of(models).calls]
        assert edits or slug == SIDE or all(cached == text[: len(cached)] for cached in seen)
    assert trace.output_ids[1:3] == [4, 0] and board(trace) == trace.output_ids
    rest = decode("greedy", target_of(models), text[: len(PROMPT) + 3], max_new_tokens=27)
    assert trace.output_ids[3:] == rest.output_ids


@pytest.mark.parametrize(
    ("slug", "params", "beside"),
    [
        ("aggressive-decoding", {"length": 2}, False),
        ("prompt-lookup", {"matches": 2}, False),
        *(("pearl", {"gamma": 3, **given}, True) for given in ({}, {"pre_verify": False})),
        pytest.param("pearl", {"gamma": 3, "post_verify": False}, True, marks=pytest.mark.exhaustive),
        pytest.param("pearl", {"gamma": 3, "draft_temperature": 0.0}, True, marks=pytest.mark.exhaustive),
        *(("rasd", given, True) for given in ({}, {"drafter": False}, {"top_k": 0, "fan": 1, "depth": 1})),
        *(("rsd", {"variant": "C", "branching": "2-2", "replacement": again}, True) for again in (False, True)),
        ("rsd", {"variant": "S", "width": 2}, True),
        *(("dyspec", {"construction": how, "budget": 4}, True) for how in ("threshold", "greedy")),
        *(("sjd", {"window": 3, "init": init}, False) for init in ("random", "left")),
        ("sjd", {"window": 3, "criterion": "jacobi"}, False),
        ("specdec-pp", {"head": "confidence", "threshold": 0.3}, True),
        *(("speculative-sampling", {"gamma": 2, "draft_temperature": hot}, True) for hot in (-1.0, 0.0)),
    ],
)
@pytest.mark.parametrize("runs", [300, pytest.param(1500, marks=pytest.mark.exhaustive)])
def test_a_whole_run_has_the_distribution_of_plain_sampling(slug, params, beside, runs):
    """Three tokens against the product of the target's distributions, and not against that of another temperature."""
    V, prompt = 3, [1, 2, 0, 1, 2, 2, 0, 1, 2]
    models = models_of(beside, seed=4, memory=2, vocab_size=V, scale=1.0)
    counts, texts = torch.zeros(V**3), list(itertools.product(range(V), repeat=3))
    for seed in range(runs):
        given = {"max_new_tokens": 3, "temperature": 1.0, **params}
        trace = engines.run(slug, models, prompt, params=given, seed=seed, detail="none")
        counts[texts.index(tuple(trace.output_ids))] += 1

    def law(temperature):
        rows = {
            text: distribution(target_of(models).logits([*prompt, *text])[0].double(), temperature)
            for n in range(3)
            for text in itertools.product(range(V), repeat=n)
        }
        return [float(torch.stack([rows[text[:i]][text[i]] for i in range(3)]).prod()) for text in texts]

    assert chi_square_p(counts, law(1.0)) > 1e-3 > 1e-4 > chi_square_p(counts, law(3.0))


@pytest.mark.parametrize(
    ("slug", "params"),
    [
        ("aded", {"iterations": 10}),
        *(("stand", {"template": "8", "trajectories": n}) for n in (1, 3)),
        (SIDE, {"template": "8", "trajectories": 3}),
        ("token-recycling", {"template": "7"}),
    ],
)
def test_long_texts_have_the_targets_transitions(slug, params):
    """Of a first-order model, from which the drafts learn; and not those of another temperature."""
    model, counts = TableCausal(vocab_size=4, memory=1, scale=0.7), torch.zeros(4, 4)
    for seed in range(2):
        trace = decode(slug, model, [0], seed, detail="none", max_new_tokens=400, temperature=1.0, **params)
        for a, b in itertools.pairwise([0, *trace.output_ids]):
            counts[a, b] += 1
    rows = model.logits(*([token] for token in range(4)))
    right, wrong = (
        min(chi_square_p(counts[token], distribution(rows[token], temperature)) for token in range(4))
        for temperature in (1.0, 2.5)
    )
    assert right > 1e-3 > 1e-4 > wrong


@pytest.mark.parametrize(
    ("slug", "params"),
    [
        *(("rsd", given) for given in ({"width": 8, "length": 6}, {"variant": "C"}, {"replacement": True})),
        *(("dyspec", {"construction": how}) for how in ("threshold", "greedy")),
    ],
)
def test_every_row_of_a_tree_is_judged_in_its_own_context(slug, params):
    """What the record says of it is what both models say there."""
    models, hot, rows = pair(6), 1.3, 0
    trace = decode(slug, models, temperature=1.0, draft_temperature=hot, **params)
    written = list(trace.header.prompt_ids)
    for step in trace.steps:
        tree, paths = step.tree, [[]]
        for row, token in enumerate(tree.tokens[1:], 1):
            above = paths[tree.parents[row]]
            for who, T, recorded in (("draft", hot, tree.draft_logprobs), ("target", 1, tree.target_logprobs)):
                z = models[who].logits(written + above)[0].double() / T
                assert float(z.log_softmax(-1)[token]) == pytest.approx(recorded[row], abs=1e-4)
            paths.append([*above, token])
        rows += len(paths) - 1
        written += step.commits.tokens
    assert rows > 50
