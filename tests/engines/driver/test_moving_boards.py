"""A run whose board changes its length, from the method file to the fork, the takeover and the file on disk."""

from __future__ import annotations

import pytest

import engines
from engines import Edit, Trace
from engines.core.user_methods import load_method_file

METHOD = '''
from engines.kit import MaskedLM, Params, Recorder, Steps, mask_positions, max_new_tokens, method, torch

@method("moving-board", title="Moving board", family="diffusion", paper="", summary="Takes out and puts in.",
        needs="masked", params=[max_new_tokens()], emits={"commits"})
def decode(model: MaskedLM, prompt: torch.Tensor, p: Params, run: Recorder) -> Steps:
    """Writes from the left; its third forward removes the second token and puts two masks in its place."""
    x, start = run.canvas(p.max_new_tokens), len(prompt)
    while len(masks := mask_positions(x, model.mask_id)):
        best = model(x)[masks[:1]].argmax(-1)
        if run.steps == 2:
            mask = torch.tensor([model.mask_id] * 2)
            x = torch.cat([x[: start + 1], mask, x[start + 2 :]])
            edit = yield run.step(
                commits=([start + 1, start + 2], mask, "edited"), removed=[start + 1], inserted=[start + 1, start + 2]
            )
        else:
            x[masks[:1]] = best
            edit = yield run.step(commits=(masks[:1], best, "top1"))
        x = run.apply_edit(edit, x)
'''


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Trace:
    path = tmp_path_factory.mktemp("moving") / "moving.py"
    path.write_text(METHOD)
    load_method_file(path)
    return engines.run("moving-board", "tiny-dlm", "sort: Mia, Leo, Ada", params={"max_new_tokens": 8})


def test_a_longer_board_is_decoded_stored_and_forked(made):
    start = len(made.header.prompt_ids)
    assert len(made.output_ids) == 9 and len(made.steps) == 11
    assert (made.steps[2].commits.removed, made.steps[2].commits.inserted) == ([start + 1], [start + 1, start + 2])
    assert Trace.from_json(made.to_json()).steps == made.steps
    again = engines.fork(made, 4)
    assert again.output_ids == made.output_ids
    forced = engines.fork(made, 4, edit=Edit(force={start + 8: made.output_ids[0]}))
    assert forced.output_ids[8] == made.output_ids[0] and len(forced.output_ids) == 9
    with pytest.raises(engines.UserError, match=f"the answer has positions {start} to {start + 8}"):
        engines.fork(made, 4, edit=Edit(force={start + 9: 3}))


def test_another_method_takes_over_a_board_that_became_longer(made):
    taken = engines.fork(made, 4, method="threshold")
    assert len(taken.output_ids) == 9 and taken.output_ids[:1] == made.output_ids[:1]
    assert made.header.mask_id not in taken.output_ids
