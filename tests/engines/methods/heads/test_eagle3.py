"""EAGLE-3: the published checkpoints' trees and rounds come out of the method itself, and three wrong rules do not
give them; what a draft vocabulary cannot say; and the unrolled training against the layer run as it drafts."""

import json
from functools import cache

import pytest
import torch

import engines
from engines.methods.heads._rows import Drafter
from engines.methods.heads.eagle3 import Fused
from engines.models.drafters import trained_drafter
from engines.models.drafters.rows import Published
from engines.models.parts import load_part
from engines.training.core.text_cache import Teacher
from engines.training.heads.eagle3 import READS, TOKENS, Eagle3Training
from tests.engines.conftest import GOLDEN
from tests.engines.methods.heads.test_published import RUNS, formats, pair

PROMPTS = ("add: 457 + 86", "reverse: Tom", "story: Mia, boat")


@pytest.fixture(scope="module")
def model(large):
    return large


def decode(model, prompt=PROMPTS[0], slug="eagle3", seed=0, **params):
    return engines.run(slug, model, prompt, params={"max_new_tokens": 20, **params}, seed=seed)


def records(trace):
    return [record for step in trace.steps if (record := step.record("fused", Fused))]


@cache
def cases(folder, drafter):
    held = json.loads((GOLDEN / "drafters" / folder / "cases.json").read_text())["drafters"]
    return next(one["cases"] for one in held if one["dir"] == drafter)


def rounds_of(model, case, wanted, **params):
    """Rounds of the method behind the one that reads the prompt, as the cases tell them."""
    trace = decode(model, case["prompt"], max_new_tokens=64, **params)
    found = [
        {"drafted": step.tree.tokens[1:], "accepted": step.facts["accepted"], "emitted": step.tree.emitted}
        for step in trace.steps[1 : 1 + len(wanted["rounds"])]
    ]
    told = [{key: one[key] for key in found[0] if key in one} for one in wanted["rounds"]]
    return [{key: one[key] for key in told[0]} for one in found], told


def chains(model, folder, drafter):
    for case in cases(folder, drafter):
        wanted = case.get("spec_decode") or case["spec_decode_chain"]
        yield rounds_of(model, case, wanted, top_k=1, depth=wanted["k"] - 1, nodes=wanted["k"])


def trees(model, folder, drafter):
    for case in cases(folder, drafter):
        if "tree" in case:
            shape = case["tree"]
            params = {"top_k": shape["top_k"], "depth": shape["depth"], "nodes": shape["total_token"] - 1}
            tree = decode(model, case["prompt"], max_new_tokens=64, **params).steps[1].tree
            yield (tree.tokens, tree.parents), (shape["tokens"], shape["parents"])
            if "spec_decode_tree" in case:
                yield rounds_of(model, case, case["spec_decode_tree"], **params)


@pytest.mark.parametrize(("slug", "folder", "drafter"), formats({of: RUNS[of] for of in RUNS if of[0] == "eagle3"}))
def test_rounds_and_trees_are_those_of_the_formats_own_code(slug, folder, drafter):
    model = pair(folder, drafter)
    for got, wanted in [*chains(model, folder, drafter), *trees(model, folder, drafter)]:
        assert got == wanted


def _first_token_kept(self, ids, k, read=Drafter.read):
    read(self, [ids[0], *ids[:-1]], k)


def _own_rows_kept(self, length):
    self.known, self.rows = min(self.known, length), 0
    self.source.crop(min(self.source.length, length - 1))


@pytest.mark.parametrize(
    ("where", "name", "wrong"),
    [
        (Drafter, "read", _first_token_kept),
        (Drafter, "forget", _own_rows_kept),
        (Published, "tokens", lambda self, columns: columns),
    ],
    ids=["the first token kept", "rows of its own outputs kept", "d2t not applied"],
)
def test_a_wrong_rule_gives_other_rounds_and_the_same_text(where, name, wrong, monkeypatch):
    folder, drafter = "eagle3-speculators", "drafter"
    model = pair(folder, drafter)
    prompt = cases(folder, drafter)[0]["prompt"]
    plain = decode(model, prompt, "greedy").output_ids
    monkeypatch.setattr(where, name, wrong)
    assert any(got != wanted for got, wanted in chains(model, folder, drafter))
    assert decode(model, prompt).output_ids == plain


def test_the_record_counts_rows_and_names_what_cannot_be_said(model):
    words = set(load_part("eagle3-layer", [model.record]).tensors["vocabulary"].tolist())
    unsaid = 0
    for prompt in ("add: 4827 + 3169", "copy: Zoe, kite, quay", "python: class Boat(name: str, speed: int, crew: int)"):
        trace = decode(model, prompt, max_new_tokens=64)
        for step, told in zip(trace.steps[1:], records(trace), strict=False):
            assert (told.reads, told.layers, told.can_say, told.of) == ([*READS], 6, TOKENS, model.vocab_size)
            assert told.fused + told.fed_back == step.facts["layer_rows_of_draft"]
            assert set(step.tree.tokens[1:]) <= words
            assert told.outside == [token for token in step.tree.emitted if token not in words]
            assert not set(told.outside) & set(step.tree.emitted[: int(step.facts["accepted"])])
            unsaid += len(told.outside)
        for before, told in zip(trace.steps[1:], records(trace)[1:], strict=False):
            assert told.fused == len(before.tree.emitted), "accepted guesses are read again with the target's states"
    assert unsaid


def test_the_layer_learns_unrolled_as_it_drafts(model, texts):
    """Row t of depth j: the layer run by hand on the rows up to t with the target's states, then j times on its own
    output and the token behind."""
    text_cache, head = texts(model, READS, PROMPTS), model.model.get_output_embeddings().weight
    training = Eagle3Training("test", model, text_cache, Teacher(head, torch.arange(TOKENS)), 0)
    before = float(training.loss(training.batch(0.0)).value.detach())
    for _ in range(5):
        training.optimizer.zero_grad()
        training.loss(training.batch(0.0)).value.backward()
        training.optimizer.step()
    assert float(training.loss(training.batch(0.0)).value.detach()) < before
    d, text, t = training.drafter, max(text_cache.texts(training.layers), key=lambda text: len(text.tokens)), 4
    s = [*d.project(d.states({i: h[: t + 1].float() for i, h in text.hidden.items()}))]
    with torch.no_grad():
        for found in training.rolled(text):
            n = len(s)
            sees = torch.ones(n, n, dtype=torch.bool).tril()
            out = d.rows(training.E[text.tokens[1 : n + 1]], torch.stack(s), d.pasts(), torch.arange(n), sees)
            assert torch.allclose(out[-1], found[t], atol=1e-4)
            s.append(d.fed_back(out[-1]))


def test_the_part_is_a_checkpoint_of_the_published_form(model):
    part = load_part("eagle3-layer", [model.record])
    drafter = trained_drafter(part, model)
    assert (drafter.format, drafter.reads, drafter.columns) == ("eagle-3", READS, TOKENS)
    assert drafter.vocabulary.tolist() == part.tensors["vocabulary"].tolist()
    assert part.card["config"]["speculators_model_type"] == "eagle3"
    assert part.parameters == drafter.parameters
