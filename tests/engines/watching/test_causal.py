"""Watched loops that write left to right: rows, drafts and what was kept of them, against our engines' commits."""

import copy
from types import SimpleNamespace

import pytest
import torch
from transformers import DynamicCache

import engines
from engines.models.adapters.causal import HFCausalLM
from tests.engines.watching import strangers
from tests.engines.watching.strangers import best, followed, tiny, written

PROMPT = "sort: Mia, Leo, Ada, Tom, Eva, Max, Ida, Ben"


def whole(name):
    """A model whose every forward is a call of its module: the adapter in use goes layer by layer."""
    found = engines.load_model(name)
    model = HFCausalLM(found.model, found.tokenizer, found.record, found.eos_ids)
    model.warm_up()  # its calls are no part of a loop
    return model


@pytest.fixture(scope="module")
def ar():
    return whole("tiny-ar-m")


@pytest.fixture(scope="module")
def small():
    return whole("tiny-ar-s")


@pytest.fixture(scope="module")
def text(ar):
    return torch.tensor([ar.tokenizer.encode_prompt(PROMPT)])


OURS = "greedy prompt-lookup token-recycling stand speculative-sampling dyspec temperature".split()


@pytest.mark.parametrize("slug", OURS)
def test_our_own_loops_are_read_as_they_say_themselves(ar, small, slug):
    """A strict check of the reading: each engine records its steps, and the same steps are read off its forwards."""
    given = {role: small if role == "draft" else ar for role in engines.get_method(slug).info.needs}
    params = {"max_new_tokens": 24} | ({"temperature": 0.8} if slug == "temperature" else {})
    roles = {role: given[role].model for role in sorted(given)}  # the draft first: it is told from the one that decides
    with engines.watch(roles, kind="causal", tokenizer=ar.tokenizer) as seen:
        ours = engines.run(slug, given, PROMPT, params=params, seed=3)
    whole = ours.header.prompt_ids + ours.output_ids
    trace, known = seen.trace(whole), 0
    assert trace.text == ours.text and [m.role for m in trace.header.models] == ["target", "draft"][: len(given)]
    for mine, theirs in zip((s for s in ours.steps if s.commits), (s for s in trace.steps if s.commits), strict=True):
        assert dict(zip(mine.commits.positions, mine.commits.tokens, strict=True)) == dict(
            zip(theirs.commits.positions, theirs.commits.tokens, strict=True)
        )
        assert (theirs.forwards, theirs.tokens_fed, theirs.work) == (mine.forwards, mine.tokens_fed, mine.work)
        if slug == "greedy":
            assert theirs.candidates.tokens.array().tolist() == mine.candidates.tokens.array().tolist()
        if mine.tree and len(mine.tree.parents) > 1:
            assert (theirs.tree.parents, theirs.tree.tokens) == (mine.tree.parents, mine.tree.tokens)
            assert theirs.tree.accepted == mine.tree.accepted
        if mine.tree and slug == "speculative-sampling":
            assert theirs.tree.sources[1:] == ["draft"] * (len(theirs.tree.parents) - 1)
            assert theirs.tree.target_logprobs == pytest.approx(mine.tree.target_logprobs, abs=1e-3)
            pairs = zip(theirs.tree.draft_logprobs[1:], mine.tree.draft_logprobs[1:], strict=True)
            told = [(a, b) for a, b in pairs if a is not None]  # right or missing
            assert [a for a, _ in told] == pytest.approx([b for _, b in told], abs=1e-3)
            known += len(told)
    assert known >= 8 or slug != "speculative-sampling"


def guesser(ar):
    """Guesses from the model itself, the best one second every third time, so that both branches are taken."""

    @torch.no_grad()
    def guess(text, k):
        top = ar.model(torch.tensor([text]), use_cache=False).logits[0, -1].topk(k).indices.tolist()
        return top[::-1] if sum(text) % 2 else top

    return guess


@pytest.mark.parametrize("given", [True, False])
def test_a_tree_and_the_path_that_was_kept(ar, text, given):
    """The guesses are made by another copy, so that only verification is watched."""
    module = copy.deepcopy(ar.model)
    with engines.watch(module, kind="causal", prompt=text[0].tolist()) as seen:
        out, rounds = strangers.tree_drafting(module, text, tokens=16, eos=(), guess=guesser(ar))
    trace = seen.trace(out if given else None)
    steps = [s for s in trace.steps if s.tree]
    assert len(rounds) - len(steps) == (0 if given else 1)  # the last one cannot be known without the output
    assert {1, 2} <= {path[0] for path, _ in rounds if path}
    for step, (path, gained) in zip(steps, rounds, strict=False):
        assert [row for row, ok in enumerate(step.tree.accepted) if ok] == [0, *path]
        assert step.tree.parents == [-1, 0, 0, 1, 1, 3, 2]
        assert list(step.commits.tokens) == gained and step.tree.emitted == gained
        own = "correction" if (path[-1] if path else 0) in step.tree.parents else "bonus"
        assert list(step.commits.causes) == ["accepted"] * len(path) + [own] * (len(gained) - len(path))
    plain = ar.model.generate(text, max_new_tokens=24, do_sample=False, eos_token_id=None)[0].tolist()
    assert plain[: text.shape[1] + len(trace.output_ids)] == trace.header.prompt_ids + trace.output_ids
    assert all(p > 1 / 2048 for s in steps for p in s.commits.probabilities)


def test_a_tree_whose_cache_cannot_be_seen_is_read_by_the_output(ar, text):
    class Hidden(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model, self.config = ar.model, ar.model.config

        def forward(self, ids, past_key_values=None, **more):
            return ar.model(ids, past_key_values=past_key_values.it, **more)

    class Box:
        def __init__(self, it):
            self.it, self.get_seq_length = it, it.get_seq_length

    module = Hidden()

    def boxed(ids, past_key_values=None, **more):
        return SimpleNamespace(logits=module(ids, past_key_values=Box(past_key_values), **more).logits)

    with engines.watch(module, kind="causal", prompt=text[0].tolist()) as seen:
        out, rounds = strangers.tree_drafting(boxed, text, tokens=16, eos=(), guess=guesser(ar))
    blind = seen.trace()
    assert "could not be seen in the cache" in blind.header.departures and len(blind.output_ids) < 16
    assert [list(s.commits.tokens) for s in seen.trace(out).steps if s.commits] == [tokens for _, tokens in rounds]


def test_speculation_without_any_cache(ar, small, text):
    rounds = []

    def loop():
        out, found = strangers.simple_speculation(ar.model, small.model, text, tokens=20, ahead=3)
        rounds.extend(found)
        return out

    trace, _ = followed({"target": ar.model, "draft": small.model}, loop, kind="causal")
    assert len(set(rounds)) > 1, "some drafts are refused"
    assert [list(s.commits.causes).count("accepted") for s in trace.steps] == rounds
    assert [s.forwards for s in trace.steps] == [{"draft": 3, "target": 1}] * len(rounds)
    assert all(s.tree.parents == [-1, 0, 1, 2] and None not in s.tree.draft_logprobs[1:] for s in trace.steps)


def test_a_text_that_is_taken_back_shows(ar, text):
    cache, p = DynamicCache(), text.shape[1]
    with torch.no_grad(), engines.watch(ar.model, kind="causal") as seen:
        for fed in (text, torch.tensor([[7]]), torch.tensor([[8]])):
            ar.model(fed, past_key_values=cache)
        cache.crop(-2)
        ar.model(torch.tensor([[9]]), past_key_values=cache)
    trace = seen.trace([*text[0].tolist(), 9, 10])
    found = [list(zip(s.commits.positions, s.commits.tokens, strict=True)) for s in trace.steps]
    assert found == [[(p, 7)], [(p + 1, 8)], [(p, -1), (p, 9)], [(p + 1, 10)]]
    assert trace.output_ids == [9, 10] and engines.read_trace(trace.to_json())


def test_what_ends_the_reading_of_a_text(ar, text):
    cache = DynamicCache()
    other = text.clone()
    other[0, 2] = 77
    with torch.no_grad():
        ar.model(text, past_key_values=cache)
        with engines.watch(ar.model, kind="causal") as late:
            ar.model(torch.tensor([[7]]), past_key_values=cache)
        with engines.watch(ar.model, kind="causal") as twice:
            ar.model(text, use_cache=False)
            ar.model(other, use_cache=False)
    with pytest.raises(engines.UserError, match="already held"):
        late.trace()
    assert "another prompt began" in twice.trace().end.message
    with engines.watch(ar.model, kind="causal", prompt=[1, 2]) as wrong:
        ar.model(text)
    with pytest.raises(engines.UserError, match="does not begin with"):
        wrong.trace()


class Attributed(torch.nn.Module):
    """The tree's mask is an attribute of the module, not an argument of the call."""

    def __init__(self):
        super().__init__()
        self.inner, self.sees = tiny(), None
        self.config = self.inner.config

    def forward(self, input_ids, past_key_values, position_ids=None):
        mask, held = None, past_key_values.get_seq_length()
        if self.sees is not None:
            n = input_ids.shape[1]
            see = torch.cat([torch.ones(n, held, dtype=torch.bool), self.sees], 1)
            mask = torch.zeros(1, 1, n, held + n).masked_fill_(~see, torch.finfo(torch.float32).min)
        return self.inner(input_ids, attention_mask=mask, position_ids=position_ids, past_key_values=past_key_values)


@pytest.mark.parametrize(("rows", "cause"), [((1, 3), "bonus"), ((1,), "written"), ((), "written")])
def test_what_stands_behind_a_hidden_tree_is_named_where_it_hangs_behind_the_deepest_row(rows, cause):
    """Medusa's and EAGLE's own modules. Without the tree's edges a refused row below the last accepted one is not
    known; by position ids the deepest rows are leaves."""
    tree, prompt, cache = Attributed(), [5, 6, 7, 8, 9, 10], DynamicCache()
    sees = torch.eye(6, dtype=torch.bool)
    for row, parent in enumerate([0, 0, 1, 1, 2], 1):
        sees[row] |= sees[parent]
    depth, n = sees.sum(1) - 1, len(rows)
    with engines.watch(tree) as seen, torch.no_grad():
        root = int(tree(torch.tensor([prompt]), cache).logits[0, -1].argmax())
        text, fed = [*prompt, root], [root, 3, 3, 4, 4, 4]
        for row in rows:
            text.append(best(tree.inner(torch.tensor([text]))).item())
            fed[row] = text[-1]
        tree.sees = sees
        said = tree(torch.tensor([fed]), cache, (6 + depth)[None]).logits[0].argmax(-1).tolist()
        for layer in cache.layers:
            kept = [*range(7), *(6 + row for row in rows)]
            layer.keys, layer.values = layer.keys[:, :, kept], layer.values[:, :, kept]
        tree.sees, own = None, said[rows[-1] if rows else 0]
        tree(torch.tensor([[own]]), cache, torch.tensor([[7 + n]]))
    trace = seen.trace([*text, own])
    found = {place: cause for place, _, cause in written(trace)}
    assert trace.output_ids == [*text[6:], own]
    assert [found[p] for p in range(7, 8 + n)] == ["accepted"] * n + [cause]


@pytest.mark.parametrize(("kept", "why"), [(1, "unreached"), (2, "unreached"), (4, "accepted")])
def test_drafts_behind_the_end_of_the_answer_were_not_seen_to_be_refused(kept, why):
    """Cut by a limit or an end inside the drafts of the last call."""
    model, text = tiny(), [5, 6, 7]
    for _ in range(5):
        with torch.no_grad():
            text.append(best(model(torch.tensor([text]))).item())
    with engines.watch(model, prompt=text[:4]) as seen, torch.no_grad():
        model(torch.tensor([text]), use_cache=False)
    step = seen.trace(text[: 4 + kept]).steps[0]
    assert list(step.commits.causes) == ["accepted"] * kept
    assert step.tree.why[kept:] == ["accepted", *[why] * (4 - kept)]
