"""On-policy states: only what a decoder would commit is written, always towards a right answer, and the loss is asked
for where something can be known."""

import dataclasses
import json

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from engines.tasks import check, recognise
from engines.training.tiny import on_policy, train
from engines.training.tiny.networks import build, load_network
from engines.training.tiny.on_policy import ANSWERS, BLOCKS, LIKELY, LINES, NEAREST, SPARE, Board, OnPolicy, committed
from engines.training.tiny.recipes import RECIPES
from tests.engines.training.running import tiny

TINY = tiny("tiny-dlm", ships=True, steps=8)
LISTED = dataclasses.replace(
    TINY, mixture=dict.fromkeys(("shuffle", "insert any", "remove any", "replace any", "latin"), 1.0)
)


def board(tokenizer, prompt, written, open_, line=0.9, block=8):
    """A prompt of n tokens, then written tokens, then masks."""
    truth = [*range(10, 10 + prompt + written + open_)]
    ids = [*truth[: prompt + written], *[tokenizer.mask_token_id] * open_]
    return Board(ids, truth, prompt, line, block, np.array([truth[prompt:]]))


def places(rows):
    return [row.nonzero().flatten().tolist() for row in rows]


def test_boards_show_their_current_block_and_what_is_above_the_line_is_committed(tokenizer):
    """And the surest in any case."""
    boards = [board(tokenizer, 3, 2, 14), board(tokenizer, 5, 8, 8), board(tokenizer, 4, 1, 7, block=3)]
    boards[0].ids[6] = boards[0].truth[6]  # a hole that is filled already
    view = OnPolicy(TINY, tokenizer, 0).view(boards)
    assert places(view.inside) == [[5, 7, 8, 9, 10], [*range(13, 21)], [5, 6]]
    assert view.ends.tolist() == [19, 21, 12] and view.x.shape == (3, 21)
    assert (view.x[2, 12:] == tokenizer.eos_token_id).all() and view.x[2, :12].tolist() == boards[2].ids
    boards = [board(tokenizer, 2, written, 8, line=line) for written, line in ((0, 0.9), (0, 0.9), (8, 0.5))]
    view = OnPolicy(TINY, tokenizer, 0).view(boards)
    sure = torch.full(view.x.shape, 0.3)
    sure[0, [3, 5]], sure[0, 4], sure[1, 6], sure[:, 0] = 0.95, 0.9, 0.4, 0.99  # position 0 is a prompt's
    sure[2, 3], sure[2, [11, 12, 13]] = 0.99, 0.6  # position 3 is written
    assert places(committed(sure, view)) == [[3, 5], [6], [11, 12, 13]]


def test_a_board_is_filled_with_true_tokens_alone(tokenizer):
    network, states, mask = build(TINY, tokenizer), OnPolicy(TINY, tokenizer, 0), tokenizer.mask_token_id
    for _ in range(40):
        loss, tokens = states.loss(network)
        assert loss.requires_grad and torch.isfinite(loss) and 0 < tokens <= TINY.batch
        for one in states.boards:
            assert mask in one.ids and len(one.ids) == len(one.truth)
            assert all(token in (mask, true) for token, true in zip(one.ids, one.truth, strict=True))


def test_the_loss_is_that_of_the_first_masks_and_of_the_likely_ones(tokenizer, monkeypatch):
    """One board alone, computed again without any of the batch's machinery."""
    network, states = build(TINY, tokenizer), OnPolicy(TINY, tokenizer, 0)
    network.lm_head.weight.data *= 60  # confidences far apart
    one = board(tokenizer, 5, 0, 16, line=1.0)
    monkeypatch.setattr(states, "_window", lambda: [one])
    with torch.no_grad():
        everywhere = torch.ones(1, 1, 21, 21, dtype=torch.bool)
        z = network(input_ids=torch.tensor([one.ids]), attention_mask=everywhere).logits[0, 4:12]
        z[:, tokenizer.mask_token_id] = -torch.inf
        sure, true = z.softmax(-1).amax(-1), torch.tensor(one.truth[5:13])
        asked = (torch.arange(8) < NEAREST) | (sure > LIKELY)
        expected = F.cross_entropy(z[asked], true[asked])
    loss, tokens = states.loss(network)
    assert int(asked.sum()) >= NEAREST and tokens == 21
    assert loss.item() == pytest.approx(expected.item(), rel=1e-4)


def test_canvases_and_lines_are_drawn_and_repeat(tokenizer):
    def boards(seed):
        fresh = OnPolicy(TINY, tokenizer, seed)._new((0, 0))
        return [next(fresh)[1] for _ in range(200)]

    drawn, again, other = ([(one.ids, one.truth, one.line, one.block) for one in boards(seed)] for seed in (7, 7, 8))
    assert drawn == again != other and set(BLOCKS) < {block for *_, block in drawn}
    spare = set()
    for one in boards(7):
        assert set(one.ids[one.start :]) == {tokenizer.mask_token_id} and one.ids[: one.start] == one.truth[: one.start]
        assert 1 - 10 ** -LINES[0] <= one.line <= 1 - 10 ** -LINES[1]
        end = one.truth.index(tokenizer.eos_token_id, one.start)
        spare.add(len(one.ids) - one.start - -(-(end + 1 - one.start) // TINY.block) * TINY.block)
    assert spare == set(SPARE)


def test_where_right_answers_can_be_listed_all_are_known(tokenizer):
    """And each is right by the task's own check. Of too many orders only the reference is known."""
    fresh, several = OnPolicy(LISTED, tokenizer, 0)._new((0, 0)), 0
    for _, one in (next(fresh) for _ in range(60)):
        example, answers = recognise(tokenizer.decode(one.ids[1 : one.start - 1]).strip()), one.answers.tolist()
        assert answers[0] == one.truth[one.start :] and len(answers) <= ANSWERS
        assert len({tuple(row) for row in answers}) == len(answers)
        for row in answers:
            assert check(example, tokenizer.decode(row[: row.index(tokenizer.eos_token_id)])).correct
        several += len(answers) > 1
    assert several > 30


def test_what_the_network_writes_stays_if_an_answer_agrees_and_the_truth_is_redrawn(tokenizer):
    """Three answers in two tokens and an end mark; the network commits the first, then both places."""
    states, end, mask = OnPolicy(TINY, tokenizer, 0), tokenizer.eos_token_id, tokenizer.mask_token_id
    answers = np.array([[20, 21, end], [20, 22, end], [23, 21, end]])

    def fresh():
        return Board([7, mask, mask, mask], [7, *answers[2].tolist()], 1, 0.9, 8, answers)

    seen = set()
    for _ in range(40):
        one = fresh()
        states._go_on(one, np.array([1]), np.array([7, 20, 0, 0]))  # the reference has 23 there
        assert one.ids == [7, 20, mask, mask] and one.answers.tolist() == answers[:2].tolist()
        seen.add(one.truth[2])
    assert seen == {21, 22}, "both answers that agree are drawn"
    one = fresh()
    states._go_on(one, np.array([1, 2]), np.array([7, 23, 22, 0]))  # no answer has both
    assert one.ids[1:3] == [23, 21] and one.truth[1:] == answers[2].tolist() and len(one.answers) == 1
    states._go_on(one, np.array([3]), np.array([7, 23, 21, 99]))
    assert one.ids == one.truth == [7, 23, 21, end]


def test_the_loop_takes_its_share_of_the_steps(folders, monkeypatch):
    monkeypatch.setitem(RECIPES, "tiny-test", TINY)
    taken, real = [], on_policy.OnPolicy.loss
    monkeypatch.setattr(on_policy.OnPolicy, "loss", lambda self, network: taken.append(1) or real(self, network))
    facts = json.loads((train.train("tiny-test") / "card.json").read_text())
    assert len(taken) == TINY.on_policy * TINY.steps == 6 and facts["steps"] == 8
    assert 0 < facts["tokens"] <= 8 * TINY.batch
    assert load_network(folders / "models" / "tiny-test").config.shift_logits
