"""What a watched loop is taken to do is held against what it fed: the text must go on, a forward without drafts gains
one token at most, and a contradiction is a sentence."""

import pytest
import torch
import transformers
from transformers import DynamicCache

import engines
from tests.engines.watching.strangers import V, best, followed, said, tiny, written

X = torch.tensor([[5, 6, 7, 8, 9, 10, 11]])
MORE = {"do_sample": False, "eos_token_id": None}


def generate(model, x=X, *, tokens=6, **more):
    return model.generate(x, attention_mask=torch.ones_like(x), max_new_tokens=tokens, **MORE, **more)


def causes(trace):
    return {cause for _, _, cause in written(trace)}


def places(trace, wanted):
    return [p for p, _, cause in written(trace) if cause == wanted]


def again(model, x, *, counted=False):
    """The whole text again, behind a cache that holds it."""
    cache = DynamicCache()
    for _ in range(4):
        at = {"position_ids": torch.arange(x.shape[1])[None]} if counted else {}
        x = torch.cat([x, best(model(x, past_key_values=cache, **at))], 1)
    return x


@pytest.mark.parametrize(("prompt", "counted"), [([5, 6], False), ([9, 9, 9, 9], False), ([5, 6, 7], True)])
def test_a_text_that_is_fed_again_behind_its_cache_is_no_draft(prompt, counted):
    """With places that begin anew it is seen once the cache has outgrown the text."""
    model = tiny()
    trace, _ = followed(model, lambda: again(model, torch.tensor([prompt]), counted=counted))
    assert len(trace.steps) == 4 and causes(trace) == {"written"}
    assert f"{2 if counted else 3} of 4 calls fed the whole text again behind a cache" in said(trace)


def test_a_batch_that_is_fed_again_behind_its_cache_is_named():
    model = tiny()
    with engines.watch(model) as seen, torch.no_grad():
        out = again(model, torch.tensor([[5, 6, 7], [8, 9, 10]]))
    for trace in seen.traces(out):
        assert trace.end.reason == "failed" and "again behind a cache" in trace.end.message
        assert "accepted" not in causes(trace)


def test_a_draft_that_repeats_the_whole_text_is_a_draft():
    """Prompt lookup in a text that repeats itself feeds the same ids; the model wrote the first of them."""
    model, cache = tiny(), DynamicCache()
    with torch.no_grad():
        first = int(best(model(torch.tensor([[5, 6, 7]]))))
        prompt = [first, 6, 7]
        model.lm_head.weight.zero_()
    handle = model.lm_head.register_forward_hook(lambda module, args, z: z + 5 * torch.eye(V)[first])
    with engines.watch(model) as seen, torch.no_grad():
        model(torch.tensor([prompt]), past_key_values=cache)
        model(torch.tensor([[*prompt, 8]]), past_key_values=cache)  # behind what was written 6, 7, 8 are drafts
        cache.crop(-3)
        model(torch.tensor([[first]]), past_key_values=cache)
    handle.remove()
    trace = seen.trace([*prompt, first, first, first])
    assert "again" not in said(trace) and trace.steps[1].tree is not None
    assert written(trace) == [(3, first, "written"), (4, first, "correction"), (5, first, "written")]


def test_sequences_that_do_not_go_on_token_by_token_end_in_a_sentence():
    model, x = tiny(), torch.tensor([[5, 6, 7], [8, 9, 10]])
    with engines.watch(model) as seen, torch.no_grad():
        text = x
        for _ in range(3):
            text = torch.cat([text, torch.randint(3, 30, (2, 2))], 1)
            text = torch.cat([text, best(model(text, use_cache=False))], 1)
    for k, trace in enumerate(seen.traces(text)):
        assert trace.end.reason == "failed" and "grew by 3 tokens between two forwards" in trace.end.message
        assert all(int(text[k, p]) == t for p, t, _ in written(trace))
    with engines.watch(model) as seen, torch.no_grad():
        model(x, use_cache=False)
        model(torch.tensor([[5, 6, 7, 1], [8, 3, 10, 1]]), use_cache=False)
    assert "continue none of those before" in seen.traces()[0].end.message
    with engines.watch(model) as seen, torch.no_grad():
        model(x, use_cache=False)
        model(torch.cat([x.flip(0), torch.tensor([[3], [4]])], 1), use_cache=False)
    with pytest.raises(engines.UserError, match="took each other's place"):
        seen.traces(x)


@pytest.mark.parametrize("cached", [True, False])
def test_beams_of_several_prompts_are_an_answer_each(cached):
    model, prompts = tiny(), [[5, 6, 7], [8, 9, 10]]
    x = torch.tensor(prompts)
    with torch.no_grad():
        model.lm_head.weight.div_(30)  # it wavers, so that beams take each other's place
    with engines.watch(model) as seen:
        out = generate(model, x, num_beams=3, use_cache=cached)
    for trace, prompt, text in zip(seen.traces(out), prompts, out.tolist(), strict=True):
        assert trace.end.reason == "complete" and trace.header.prompt_ids == prompt
        assert prompt + trace.output_ids == text
        assert causes(trace) == {"chosen"} and max(len(step.branches) for step in trace.steps) >= 3
        assert trace.steps[1].tokens_fed == 3 * (1 if cached else len(prompt) + 1)


def turns(model, told):
    """An answer, what a person says then, and the next answer."""
    cache, x, fed = DynamicCache(), X, X
    for turn in range(6):
        new = best(model(fed, past_key_values=cache))
        fed = torch.cat([new, torch.tensor([told])], 1) if turn == 2 else new
        x = torch.cat([x, fed], 1)
    return x


def generated_turns(model, told):
    """The same by generate, which asks for the last row of logits only."""
    cache = DynamicCache()
    x = generate(model, tokens=3, past_key_values=cache)
    return generate(model, torch.cat([x, torch.tensor([told])], 1), tokens=3, past_key_values=cache)


@pytest.mark.parametrize("loop", [turns, generated_turns])
def test_a_second_turn_is_given_not_written(loop):
    model = tiny()
    trace, _ = followed(model, lambda: loop(model, [20, 21, 22]))
    assert places(trace, "constraint") == [10, 11, 12] and places(trace, "written") == [7, 8, 9, 13, 14, 15]
    assert "3 tokens, the first at position 10, were put in by the loop" in said(trace)
    authors = {p: a for s in trace.steps for p, a in zip(s.commits.positions, s.commits.authors, strict=True)}
    assert authors[11] == "constraint" and authors[13] == "target"


@pytest.mark.parametrize("size", [3, 4])
def test_a_prompt_in_pieces_is_not_written(size):
    model = tiny()
    trace, _ = followed(model, lambda: generate(model, prefill_chunk_size=size))
    assert "prompt= says where the prompt ends" in said(trace)
    assert places(trace, "written")[-6:] == list(range(7, 13))
    assert len(trace.header.prompt_ids) == (6 if X.shape[1] % size == 1 else 7)
    trace, _ = followed(model, lambda: generate(model, prefill_chunk_size=size), prompt=X[0].tolist())
    assert trace.header.prompt_ids == X[0].tolist() and [p for p, _, _ in written(trace)] == list(range(7, 13))


class Own(torch.nn.Module):
    """Keeps its keys itself; the call says where its rows stand."""

    def __init__(self):
        super().__init__()
        self.inner, self.cache = tiny(), DynamicCache()
        self.config = self.inner.config

    def forward(self, idx, input_pos=None, start_pos=None):
        at = input_pos if start_pos is None else torch.arange(start_pos, start_pos + idx.shape[1])
        at = None if at is None else at[None]
        return self.inner(idx, position_ids=at, past_key_values=self.cache).logits


@pytest.mark.parametrize("named", ["input_pos", "start_pos", None])
def test_a_cache_inside_the_module_is_read_by_places_or_taken_to_go_on(named):
    model = Own()

    def loop():
        x = fed = X
        for _ in range(4):
            n = x.shape[1] - fed.shape[1]
            at = {"input_pos": {"input_pos": torch.arange(n, x.shape[1])}, "start_pos": {"start_pos": n}}
            fed = best(model(fed, **at.get(named, {})))
            x = torch.cat([x, fed], 1)
        return x

    trace, x = followed(model, loop)
    assert written(trace) == [(7 + i, int(x[0, 7 + i]), "written") for i in range(4)]
    assert ("each call is taken to go on" in said(trace)) == (named is None)


def test_drafts_behind_a_cache_that_nothing_tells_end_in_a_true_sentence():
    model = Own()
    with engines.watch(model) as seen, torch.no_grad():
        model(X)
        model(torch.tensor([[20, 21, 22]]))
    trace = seen.trace()
    assert trace.end.reason == "failed" and "keeps a cache of its own" in trace.end.message


class Buffer:
    """Keys or values in a buffer of their own, as the repositories of draft heads keep them."""

    def __init__(self, heads, size):
        self.data, self.current_length = torch.zeros(1, heads, 32, size), torch.zeros((), dtype=torch.long)

    @property
    def shape(self):
        return (*self.data.shape[:2], int(self.current_length), self.data.shape[3])

    def cat(self, new):
        end = int(self.current_length) + new.shape[2]
        self.data[:, :, int(self.current_length) : end] = new
        self.current_length.fill_(end)


class Buffered(torch.nn.Module):
    """Takes a list of [keys, values] per layer; what it says follows from the token alone."""

    def __init__(self):
        super().__init__()
        self.inner = tiny()
        self.config = self.inner.config

    def forward(self, input_ids, past_key_values):
        for one in (one for pair in past_key_values for one in pair):
            one.cat(input_ids[:, None, :, None].float().expand(-1, -1, -1, one.shape[3]))
        return self.inner.lm_head(self.inner.model.embed_tokens(input_ids))


@pytest.mark.parametrize("drafts", [0, 2])
def test_a_cache_of_buffers_says_its_length_by_its_shape_and_what_it_kept_by_its_keys(drafts):
    model, cache = Buffered(), [[Buffer(1, 8), Buffer(1, 8)] for _ in range(2)]

    def loop():
        x, fed, drafted = X, X, 0
        for _ in range(5):
            z, known = model(fed, cache)[0].argmax(-1), fed.shape[1] - drafted
            new = [int(z[known - 1])]  # and the drafts that it would have said
            while len(new) <= drafted and new[-1] == int(fed[0, known - 1 + len(new)]):
                new.append(int(z[known - 1 + len(new)]))
            for one in (one for pair in cache for one in pair):
                one.current_length.sub_(drafted + 1 - len(new))
            x, drafted = torch.cat([x, torch.tensor([new])], 1), drafts
            fed = torch.cat([x[:, -1:], torch.tensor([[30, 31]])[:, :drafts]], 1)
        return x

    trace, x = followed(model, loop)
    assert [(p, t) for p, t, _ in written(trace)] == [(p, int(x[0, p])) for p in range(7, x.shape[1])]
    assert any(step.tree for step in trace.steps) == bool(drafts)


def test_a_state_space_model_has_a_state_and_no_positions():
    torch.manual_seed(0)
    config = transformers.MambaConfig(vocab_size=V, hidden_size=16, num_hidden_layers=1, state_size=4)
    model = transformers.MambaForCausalLM(config).eval()
    trace, _ = followed(model, lambda: generate(model))
    assert [step.tokens_fed for step in trace.steps] == [7, 1, 1, 1, 1, 1]


def test_drafts_of_the_first_layers_are_drafts():
    model = tiny(num_hidden_layers=4)
    trace, out = followed(model, lambda: generate(model, tokens=12, assistant_early_exit=2))
    assert torch.equal(out, generate(model, tokens=12))
    assert all(step.forwards["target"] == 1 and step.tree for step in trace.steps if step.forwards.get("draft"))
    assert trace.totals.forwards_by_role["draft"] > trace.totals.forwards_by_role["target"]
    for step in trace.steps:  # two layers a draft's row, four a row of the target
        assert step.work.get("draft", 0) // 2 + step.work["target"] // 4 == step.tokens_fed


def test_a_step_that_leaves_early_is_a_step_and_its_work_is_what_ran():
    model, cache = tiny(num_hidden_layers=4), DynamicCache()

    def loop():
        x = fed = X
        for step in range(6):
            model.config.num_hidden_layers = 2 if step % 2 else 4
            fed = best(model(fed, past_key_values=cache))
            x = torch.cat([x, fed], 1)
        return x

    trace, _ = followed(model, loop)
    assert [step.forwards for step in trace.steps] == [{"target": 1}] * 6
    assert [step.work["target"] for step in trace.steps] == [28, 2, 4, 2, 4, 2]


@pytest.mark.parametrize(
    "more", [{}, {"negative_prompt_ids": torch.tensor([[5, 6, 20]])}], ids=["last token", "prompt"]
)
def test_guidance_in_two_calls_is_one_step(more):
    model = tiny()
    trace, _ = followed(model, lambda: generate(model, guidance_scale=1.5, **more))
    assert [step.forwards for step in trace.steps] == [{"target": 2}] * 6
    assert not any(step.commits.probabilities for step in trace.steps) and "guidance" in said(trace)


def test_another_prompt_with_a_cache_of_its_own_is_no_guidance():
    model = tiny()
    with engines.watch(model) as seen:
        generate(model)
        out = generate(model, torch.tensor([[12, 13, 14, 15]]))
    trace = seen.trace(out)
    assert trace.end.reason == "failed" and "another prompt began" in trace.end.message


def test_bytes_of_a_tokenizer_without_a_vocabulary_are_shown_as_bytes():
    model, tokenizer = tiny(vocab_size=400), transformers.ByT5Tokenizer()
    ids = torch.tensor([tokenizer("é€a", add_special_tokens=False).input_ids])
    with engines.watch(model, tokenizer=tokenizer) as seen, torch.no_grad():
        model(ids)
    pieces = {piece.id: (piece.kind, piece.text) for piece in seen.trace(torch.cat([ids, ids], 1)).pieces}
    bytes_ = [("byte", f"0x{byte}") for byte in ("C3", "A9", "E2", "82", "AC")]
    assert [pieces[i] for i in ids[0].tolist()] == [*bytes_, ("text", "a")]
