"""The recorder: facts in, a step out, at the detail asked for and with its cost."""

import numpy as np
import pytest
import torch

import engines
from engines.core.meter import Meter
from engines.core.method import LaneInfo, method
from engines.core.params import Int, resolve
from engines.core.recorder import Recorder
from engines.core.recording import FOCUS_LIMIT, TOP_K
from engines.core.trace import Edit, Span
from tests.engines.fakes import TableMasked

LANES = {"p": LaneInfo("probability", "."), "h": LaneInfo("nats", "."), "s": LaneInfo("score", ".")}
INFO = method(
    "fake",
    title="",
    family="fake",
    paper="",
    summary="",
    needs="masked",
    params=[Int("n", 1, 0, 9, help="")],
    emits=set(),
    lanes=LANES,
)(lambda *_: None).info


def recorder(prompt=(1, 2), detail="full", masked=True):
    model = TableMasked()
    mask_id = model.mask_id if masked else None
    return Recorder(
        INFO,
        resolve(INFO.params, {}),
        list(prompt),
        seed=0,
        detail=detail,
        meter=Meter(),
        tokenizer=model.tokenizer,
        mask_id=mask_id,
    )


def test_the_board_follows_the_commits():
    run = recorder(masked=False)
    run.step(commits=([2, 3], [5, 6], "x"))
    run.step(commits=(torch.tensor([3]), torch.tensor([7]), ["y"], torch.tensor([0.1234567])))
    assert run.board == [1, 2, 5, 7]
    with pytest.raises(AssertionError, match="gap"):
        run.step(commits=([9], [1], "x"))


def test_a_canvas_is_the_prompt_and_masks():
    run = recorder()
    assert run.canvas(3).tolist() == run.board == [1, 2, 11, 11, 11]


def test_method_files_of_before_find_their_names():
    run = recorder()
    assert run.steer == run.apply_edit and run.due == run.remaining_steps
    assert run.book == run.count_as and run.know == run.register_tokens
    run.know([9])
    assert 9 in run.pieces


@pytest.mark.parametrize("detail", ["none", "light", "full"])
def test_detail_decides_what_is_computed(detail):
    run, asked = recorder(detail=detail), []

    def scores():
        asked.append("scores")
        return {"p": ([2], [0.5])}

    def candidates():
        asked.append("candidates")
        return [2], torch.zeros(1, 12)

    run.canvas(4)
    step = run.step(
        commits=([2], [5], "x"),
        scores=scores,
        candidates=candidates,
        spans=[Span("block", 2, 4)],
        facts={"a": 1},
        note="n",
    )
    assert asked == (["scores", "candidates"] if detail == "full" else [])
    assert run.board[2] == 5  # the board is kept whatever is recorded
    assert (step.commits is None) == (detail == "none") and bool(step.note) == (detail != "none")
    assert step.index == 0 and run.step().index == 1


def test_lanes_cover_their_positions_with_gaps():
    run = recorder()
    step = run.step(
        scores=lambda: {"p": (torch.tensor([5, 2]), torch.tensor([0.25, 1.0])), "h": ([], []), "s": ([3], [-4.0])},
        thresholds={"p": 0.9},
    )
    p, s = step.scores
    assert (p.name, p.start, p.threshold, s.start) == ("p", 2, 0.9, 3)
    assert np.allclose(p.values.array(), [1.0, np.nan, np.nan, 0.25], atol=0.002, equal_nan=True)
    assert s.values.array().tolist() == [-4.0]


def test_candidates_are_the_best_and_no_more_than_the_limit():
    z = torch.randn(FOCUS_LIMIT + 20, 30, generator=torch.Generator().manual_seed(0))
    found = recorder().step(candidates=lambda: (list(range(len(z))), z)).candidates
    assert found.positions == list(range(FOCUS_LIMIT)) and found.tokens.shape == [FOCUS_LIMIT, TOP_K]
    assert (found.tokens.array() == z[:FOCUS_LIMIT].topk(TOP_K).indices.numpy()).all()
    assert np.allclose(found.probabilities.array(), z[:FOCUS_LIMIT].softmax(-1).topk(TOP_K).values, atol=0.003)


def test_every_token_mentioned_is_known():
    run = recorder()
    run.step(commits=([2], [5], "x"), candidates=lambda: ([2], torch.arange(12.0)[None]))
    assert set(run.pieces) >= {1, 2, 11, 5, 10, 9, 8, 7}


def test_costs_are_the_meters_and_start_anew():
    run = recorder()
    run._meter.call("model", "cpu", 7, lambda: None)
    first, second = run.step(), run.step()
    assert (first.forwards, first.tokens_fed, second.forwards, second.tokens_fed) == ({"model": 1}, 7, {}, 0)


def test_work_beside_the_models_is_an_interval_of_the_runs_clock():
    run = recorder()
    run.resume()
    began = run._start + 0.25
    (found,) = run.interval("tool", began, began + 0.5, "asked")
    assert (found.track, found.label, found.measured) == ("tool", "asked", True)
    assert (found.start, found.end) == (pytest.approx(0.25), pytest.approx(0.75))
    assert recorder(detail="none").interval("tool", 0.0, 1.0) == []


def test_edits_change_board_parameters_and_what_is_forbidden():
    run = recorder()
    x = run.canvas(4)
    x = run.apply_edit(engines.Edit(force={2: 7}, remask=[3], forbid={4: [1]}, params={"n": "3"}), x)
    assert x.tolist() == [1, 2, 7, 11, 11, 11] and run.params.n == 3 and run._meter.forbidden == {4: {1}}
    step = run.step(commits=([5], [6], "x", [0.5]))
    written = step.commits
    found = list(zip(written.positions, written.causes, written.probabilities, strict=True))
    assert found == [(2, "forced", None), (3, "remasked", None), (5, "x", 0.5)]
    assert run.apply_edit(None, x) is x and run.step().commits is None
    for edit, words in (
        (engines.Edit(params={"m": 1}), "unknown parameter"),
        (engines.Edit(params={"n": 99}), "from 0 to 9"),
        (engines.Edit(force={1: 1}), "cannot be edited"),
    ):
        with pytest.raises(engines.UserError, match=words):
            run.check_edit(edit)


def test_places_go_and_come_before_anything_is_written():
    run = recorder()
    x = run.canvas(4)  # 1 2 . . . .
    run.step(commits=([2, 3, 4], [5, 6, 7], "x"))
    step = run.step(commits=([3, 5], [8, 11], "x"), removed=[3], inserted=[3, 5])  # 6 goes, 8 and a mask come
    assert run.board == [1, 2, 5, 8, 7, 11, 11]
    assert (step.commits.removed, step.commits.inserted) == ([3], [3, 5])
    step = run.step(removed=torch.tensor([2, 5]))
    assert run.board == [1, 2, 8, 7, 11] and (step.commits.positions, step.commits.removed) == ([], [2, 5])
    with pytest.raises(ValueError, match="position 1 cannot be removed; the board has 2 to 4 behind the prompt"):
        run.step(removed=[1])
    with pytest.raises(ValueError, match="position 3 is inserted, but nothing is written there"):
        run.step(inserted=[3])
    assert len(x) == 6


def test_a_forced_token_moves_with_what_moves_in_the_same_step():
    run = recorder()
    x = run.canvas(4)
    run.step(commits=([2, 3], [5, 6], "x"))
    run.apply_edit(Edit(force={4: 9, 3: 4}), x)
    step = run.step(commits=([2], [7], "x"), removed=[3], inserted=[2])
    assert run.board == [1, 2, 7, 5, 9, 11]
    assert (step.commits.positions, step.commits.causes) == ([4, 2], ["forced", "x"])
