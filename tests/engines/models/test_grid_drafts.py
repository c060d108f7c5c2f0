"""Checkpoints of the grid of drafts by name: the draft's logits, the target beside it, forks, names that are none."""

import pytest
import torch

import engines
from engines.core.errors import UserError
from engines.models import grid_drafts, zoo
from engines.models.networks.sized_draft import SIZES, of_state, parameters
from engines.models.parts import load_part

NAME = "tiny-ar-l@d64x1.512"
PARAMS = {"max_new_tokens": 12}


def test_a_checkpoint_gives_its_own_logits_with_a_cache():
    draft, target = (engines.load_model(name, dtype="float32") for name in ("tiny-ar-l-draft-grid@d64x1.512", NAME))
    part = load_part("draft-grid", [engines.load_model("tiny-ar-l", dtype="float32").record])
    state = {k.removeprefix("d64x1.512."): t for k, t in part.tensors.items() if k.startswith("d64x1.512.")}
    size = next(one for one in SIZES if one.name == "d64x1")
    plain = of_state(size, state, target.model.get_input_embeddings().weight, target.max_positions)
    ids = target.tokenizer.encode_prompt("add: 45 + 86")
    cache = draft.new_cache(len(ids))
    first = draft.extend(ids[:3], cache).logits
    rest = draft.extend(ids[3:], cache).logits
    with torch.no_grad():
        assert torch.allclose(torch.cat([first, rest]), plain(torch.tensor([ids]))[0], atol=1e-4)
    assert draft.record.parameters == parameters(plain) > size.body
    assert draft.record.sha256 == part.sha256 and engines.kinds_of(draft) == {"causal"}


def test_the_target_stands_with_that_draft_and_every_checkpoint_gives_the_greedy_text():
    plain = engines.run("greedy", "tiny-ar-l", "add: 457 + 86", params=PARAMS)
    kept = {}
    for checkpoint in ("d16x1.16", "d64x4.512"):
        trace = engines.run("speculative-sampling", f"tiny-ar-l@{checkpoint}", "add: 457 + 86", params=PARAMS)
        assert trace.output_ids == plain.output_ids
        found = [m.name for m in trace.header.models]
        assert found == [f"tiny-ar-l@{checkpoint}", f"tiny-ar-l-draft-grid@{checkpoint}"]
        kept[checkpoint] = sum(step.facts["accepted"] for step in trace.steps)
    assert kept["d64x4.512"] > kept["d16x1.16"]


def test_a_fork_loads_the_same_pair_again():
    trace = engines.run("speculative-sampling", NAME, "add: 457 + 86", params=PARAMS)
    fork = engines.fork(trace, 1, edit=engines.Edit(params={"gamma": 2}))
    assert fork.output_ids == trace.output_ids and fork.header.models[1].name == "tiny-ar-l-draft-grid@d64x1.512"


def test_parts_of_the_target_are_parts_of_the_pair():
    assert engines.run("medusa", NAME, "add: 45 + 86", params=PARAMS).steps


def test_names_that_are_none():
    assert zoo.is_known(NAME) and zoo.is_known("tiny-ar-l") and not zoo.is_known("tiny-ar-l@d64x1.513")
    assert grid_drafts.draft_beside("tiny-ar-m@d64x1.512") is None and grid_drafts.split("a/b@c") is None
    assert zoo.plain_name(NAME) == "tiny-ar-l" == zoo.plain_name("tiny-ar-l")
    assert len(grid_drafts.checkpoints("tiny-ar-l")) == 24 and grid_drafts.checkpoints("tiny-ar-m") == []
    with pytest.raises(UserError, match=r"the grid of drafts of tiny-ar-l has no 'd1'; it has d16x1.16, "):
        engines.load_model("tiny-ar-l@d1")
    with pytest.raises(UserError, match=r"no model .tiny-ar-m@d64x1\.512"):
        engines.load_model("tiny-ar-m@d64x1.512")
    assert not any("@" in info.name for info in zoo.list_models())
