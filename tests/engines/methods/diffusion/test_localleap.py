"""Anchors and their neighbours: the relaxed line holds around this forward's anchors only, and the borders meet the
threshold decoder."""

import pytest
import torch

import engines
from engines.core.sampling import token_probability
from engines.methods.diffusion.localleap import ending, nearest, select, thresholds
from tests.engines.fakes import TableMasked, board, commits, lane

SEEDS, P, G = range(5), 3, 24
RULES = [(0.8, 0.45, 4), (0.6, 0.2, 1), (0.5, 0.1, 3)]


def decode(seed=0, slug="localleap", eos=(), **params):
    table = TableMasked(seed=seed, scale=2.5, eos_ids=eos)
    return engines.run(slug, table, [1, 2, 3], params={"max_new_tokens": G, "block_length": 8, **params})


def rule(threshold, relaxed, radius):
    return {"threshold": threshold, "relaxed_threshold": relaxed, "radius": radius}


def confidences(trace, seed):
    """Before each step: {masked position of the block: confidence in float64}, from the board and the table alone."""
    table = TableMasked(seed=seed, scale=2.5)
    cells = trace.header.prompt_ids + [table.mask_id] * G
    for step, written in zip(trace.steps, commits(trace), strict=True):
        end = next(s.end for s in step.spans if s.kind == "block")
        masks = [q for q in range(end) if cells[q] == table.mask_id]
        z = table(torch.tensor(cells))[masks]
        yield step, dict(zip(masks, token_probability(z, z.argmax(-1)).tolist(), strict=True))
        for q, token in written.items():
            cells[q] = token


def anchors(step):
    return [s.start for s in step.spans if s.kind == "anchor"]


@pytest.mark.parametrize("b", [1, 8, 24])
@pytest.mark.parametrize("params", [{"radius": 0}, {"relaxed_threshold": 0.6}, {"relaxed_threshold": 1.01}], ids=str)
def test_nothing_relaxed_is_the_threshold_decoder_forward_by_forward(b, params):
    for seed in SEEDS:
        plain = decode(seed, "threshold", threshold=0.6, block_length=b)
        assert commits(decode(seed, **{**rule(0.6, 0.2, 4), **params}, block_length=b)) == commits(plain)


@pytest.mark.parametrize("values", [*RULES, (0.7, 0.3, G + P)], ids=str)
def test_the_record_says_what_was_compared(values):
    """Which are written is golden; here their causes, the anchors and their windows, the lines and the distances."""
    high, low, radius = values
    causes = set()
    for seed in SEEDS:
        for step, conf in confidences(decode(seed, **rule(*values)), seed):
            sure, written = [q for q, c in conf.items() if c >= high], step.commits
            near = {q for q in conf if any(abs(q - a) <= radius for a in sure)}
            lines = {q: low if q in near else high for q in conf}
            for q, cause in zip(written.positions, written.causes, strict=True):
                assert cause == ("anchor" if q in sure else "relaxed" if conf[q] >= lines[q] else "top1")
            causes |= set(written.causes)
            assert anchors(step) == sure
            assert step.facts == {"anchors": len(sure), "relaxed": written.causes.count("relaxed")}
            covered = {q for s in step.spans if s.kind == "window" for q in range(s.start, s.end)}
            assert covered & set(conf) == near
            assert lane(step, "threshold") == pytest.approx(lines, abs=1 / 250)
            assert sure or "distance" not in [one.name for one in step.scores]
            if sure:
                away = {q: min(abs(q - a) for a in sure) for q in conf}
                assert lane(step, "distance") == pytest.approx(away, abs=max(away.values()) / 250 + 1e-6)
    assert causes == {"anchor", "relaxed", "top1"}


def test_a_confidence_on_its_own_line_passes():
    conf = [0.9, 0.75, 0.7499999, 0.75]
    theta = thresholds(nearest([4, 5, 6, 9], [4], 4), 0.9, 0.75)
    assert theta == [0.9 if q == 9 else 0.75 for q in (4, 5, 6, 9)]
    assert select(conf, theta, 0.9) == ([0, 1], ["anchor", "relaxed"])


def test_the_nearest_anchor_counts_and_without_one_nothing_is_relaxed():
    assert nearest([3, 4, 6, 9], [4, 8], 1) == [4, 4, None, 8] and nearest([6], [4, 8], 2) == [4]
    assert thresholds(nearest([3, 4, 9], [], 100), 0.9, 0.1) == [0.9] * 3


@pytest.mark.parametrize("b", [4, 8])
def test_early_stop_keeps_the_text_up_to_the_end_of_the_block_with_the_end_mark(b):
    stopped = 0
    for seed in range(12):
        whole, cut = (decode(seed, eos=(4, 5), block_length=b, early_stop=stop) for stop in (False, True))
        first = next((i for i, token in enumerate(whole.output_ids) if token in (4, 5)), G)
        end = min(G, (first // b + 1) * b)
        assert cut.output_ids == whole.output_ids[:end] + [whole.output_ids[first] if first < G else None] * (G - end)
        assert cut.text == whole.text and board(cut) == cut.output_ids
        why = [pair for s in cut.steps for pair in zip(s.commits.positions, s.commits.causes, strict=True)]
        assert [q for q, cause in why if cause == "fill"] == list(range(P + end, P + G))
        assert (cut.totals.forwards < whole.totals.forwards) == (end < G)
        stopped += end < G
    assert stopped >= 3


def test_nothing_is_filled_before_the_block_is_finished():
    model = TableMasked(eos_ids=(4,))
    x = torch.tensor([1, 4, 11, 11, 11])
    assert ending(x, 1, 3, model)[0].tolist() == []
    x[2] = 5
    assert (ending(x, 1, 3, model)[0].tolist(), ending(x, 1, 3, model)[1]) == ([3, 4], 4)
    x[1] = 6
    assert ending(x, 1, 3, model)[0].tolist() == []
