"""Anchors and their neighbours: the relaxed line holds around this forward's anchors only, and the borders meet the
threshold decoder."""

import pytest
import torch

import engines
from engines.core.sampling import token_probability
from engines.methods.diffusion.localleap import distances, ending, select, thresholds
from tests.engines.fakes import TableMasked, board, commits, lane

SEEDS, P, G = range(5), 3, 24
RULES = [(0.8, 0.45, 4), (0.6, 0.2, 1), (0.5, 0.1, 3)]


def decode(seed=0, slug="localleap", scale=2.5, eos=(), edits=(), **params):
    table = TableMasked(seed=seed, scale=scale, eos_ids=eos)
    return engines.run(slug, table, [1, 2, 3], params={"max_new_tokens": G, "block_length": 8, **params}, edits=edits)


def rule(threshold, relaxed, radius):
    return {"threshold": threshold, "relaxed_threshold": relaxed, "radius": radius}


def confidences(trace, seed, scale=2.5):
    """Before each step: {masked position of the block: confidence in float64}, from the board and the table alone."""
    table = TableMasked(seed=seed, scale=scale)
    cells = trace.header.prompt_ids + [table.mask_id] * G
    for step, written in zip(trace.steps, commits(trace), strict=True):
        end = next(s.end for s in step.spans if s.kind == "block")
        x = torch.tensor(cells)
        masks = [q for q in range(end) if cells[q] == table.mask_id]
        z = table(x)[masks]
        yield step, dict(zip(masks, token_probability(z, z.argmax(-1)).tolist(), strict=True))
        for q, token in written.items():
            cells[q] = token


def anchors(step):
    return [s.start for s in step.spans if s.kind == "anchor"]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("b", [1, 8, 24])
@pytest.mark.parametrize("params", [{"radius": 0}, {"relaxed_threshold": 0.6}, {"relaxed_threshold": 1.01}], ids=str)
def test_nothing_relaxed_is_the_threshold_decoder_forward_by_forward(seed, b, params):
    plain = decode(seed, "threshold", threshold=0.6, block_length=b)
    assert commits(decode(seed, **{**rule(0.6, 0.2, 4), **params}, block_length=b)) == commits(plain)


def test_a_radius_beyond_the_board_is_the_relaxed_threshold_wherever_there_is_an_anchor():
    with_anchor = without = 0
    for seed in SEEDS:
        for step, conf in confidences(decode(seed, **rule(0.7, 0.3, G + P)), seed):
            if anchors(step):
                with_anchor += 1
                assert set(step.commits.positions) == {q for q, c in conf.items() if c >= 0.3}
            else:
                without += 1
                assert step.commits.positions == [max(conf, key=conf.get)]
    assert with_anchor and without


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("values", RULES, ids=str)
def test_every_forward_writes_and_exactly_one_where_there_is_no_anchor(seed, values):
    trace = decode(seed, **rule(*values))
    assert all(commits(trace)) and board(trace) == trace.output_ids and trace.totals.masks_left == 0
    written = [q for c in commits(trace) for q in c]
    assert sorted(written) == list(range(P, P + G))  # once each: nothing is hidden again
    for step in trace.steps:
        assert step.facts == {"anchors": len(anchors(step)), "relaxed": step.commits.causes.count("relaxed")}
        assert (step.commits.causes == ["top1"]) == (not anchors(step))


@pytest.mark.parametrize("values", RULES, ids=str)
def test_causes_say_who_decided_and_relaxed_ones_stand_near_an_anchor(values):
    high, low, radius = values
    seen = set()
    for seed in SEEDS:
        for step, conf in confidences(decode(seed, **rule(*values)), seed):
            sure = [q for q, c in conf.items() if c >= high]
            assert anchors(step) == sure
            for q, cause, c in zip(
                step.commits.positions, step.commits.causes, step.commits.probabilities, strict=True
            ):
                seen.add(cause)
                near = any(abs(q - a) <= radius for a in sure)
                assert c == pytest.approx(conf[q], abs=1e-6)
                assert cause == ("anchor" if conf[q] >= high else "relaxed" if low <= conf[q] and near else "top1")
            left = {q: c for q, c in conf.items() if q not in step.commits.positions}
            assert all(c < (low if any(abs(q - a) <= radius for a in sure) else high) for q, c in left.items())
            assert step.commits.positions == sorted(step.commits.positions, key=lambda q: -conf[q])
    assert seen == {"anchor", "relaxed", "top1"}


def test_a_confidence_on_its_own_line_passes():
    conf = torch.tensor([0.9, 0.75, 0.7499999, 0.75], dtype=torch.float64)
    theta = thresholds(distances(torch.tensor([4, 5, 6, 9]), torch.tensor([4])), 0.9, 0.75, 4)
    assert theta.tolist() == [0.9 if q == 9 else 0.75 for q in (4, 5, 6, 9)] and theta.dtype == torch.float64
    best, causes = select(conf, theta, 0.9)
    assert (best.tolist(), causes) == ([0, 1], ["anchor", "relaxed"])


def test_the_nearest_anchor_counts_and_without_one_nothing_is_relaxed():
    positions = torch.tensor([3, 4, 9])
    assert distances(positions, torch.tensor([4, 8])).tolist() == [1, 0, 1]
    assert distances(positions, positions[:0]).tolist() == [-1] * 3
    assert thresholds(distances(positions, positions[:0]), 0.9, 0.1, 100).tolist() == [0.9] * 3


@pytest.mark.parametrize("values", RULES, ids=str)
def test_lanes_and_windows_show_what_was_compared(values):
    high, low, radius = values
    trenches = 0
    for seed in SEEDS:
        for step, conf in confidences(decode(seed, **rule(*values)), seed):
            block = next(s for s in step.spans if s.kind == "block")
            lines, covered = (
                lane(step, "threshold"),
                {q for s in step.spans if s.kind == "window" for q in range(s.start, s.end)},
            )
            assert set(lines) == set(conf)
            assert covered == {
                q for q in range(block.start, block.end) if any(abs(q - a) <= radius for a in anchors(step))
            }
            for q, line in lines.items():
                trenches += q in covered
                assert line == pytest.approx(low if q in covered else high, abs=1 / 250)
            if anchors(step):
                scale = max(min(abs(q - a) for a in anchors(step)) for q in conf)
                for q, d in lane(step, "distance").items():
                    assert d == pytest.approx(min(abs(q - a) for a in anchors(step)), abs=scale / 250 + 1e-6)
            else:
                assert "distance" not in [one.name for one in step.scores]
    assert trenches


@pytest.mark.parametrize("b", [4, 8])
def test_early_stop_keeps_the_text_up_to_the_end_of_the_block_with_the_end_mark(b):
    stopped = 0
    for seed in range(12):
        whole, cut = (decode(seed, eos=(4, 5), block_length=b, early_stop=stop) for stop in (False, True))
        first = next((i for i, token in enumerate(whole.output_ids) if token in (4, 5)), G)
        end = min(G, (first // b + 1) * b)
        assert cut.output_ids == whole.output_ids[:end] + [whole.output_ids[first] if first < G else None] * (G - end)
        assert cut.text == whole.text and board(cut) == cut.output_ids
        filled = [
            q
            for s in cut.steps
            for q, cause in zip(s.commits.positions, s.commits.causes, strict=True)
            if cause == "fill"
        ]
        assert filled == list(range(P + end, P + G))
        assert cut.totals.forwards < whole.totals.forwards if end < G else cut.totals.forwards == whole.totals.forwards
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
