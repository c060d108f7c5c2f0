"""Drafts whose output is not the vocabulary: their calls count, their probabilities are missing, and the target is read
to the end."""

import pytest
import torch
from transformers import DynamicCache

import engines
from tests.engines.watching.strangers import said, tiny, written

PROMPT, SIZE = [5, 6, 7, 38], 20


class Pruned(torch.nn.Module):
    """Knows the first tokens of the vocabulary alone."""

    def __init__(self, **more):
        super().__init__()
        self.inner = tiny(**more)
        self.config = self.inner.config

    def forward(self, input_ids):
        return self.inner(input_ids, use_cache=False).logits[..., :SIZE]

    def guess(self, text):
        return int(self(torch.tensor([text]))[0, -1].argmax())


class Nameless(Pruned):
    """The same without a config."""

    def __init__(self):
        super().__init__()
        del self.config


class Mapped(Pruned):
    """Has a table from its columns to the tokens; its config is that of its own vocabulary."""

    def __init__(self):
        super().__init__()
        self.config.vocab_size = SIZE
        self.register_buffer("d2t", torch.arange(SIZE))

    def guess(self, text):
        at = super().guess(text)
        return at + int(self.d2t[at])


class States(Pruned):
    """Returns states, to which the loop applies the target's head; takes states where it is asked to."""

    def forward(self, input_ids=None, states=None):
        inner = self.inner.model
        return (inner(input_ids).last_hidden_state if states is None else states,)

    def guess(self, text):
        states = self(torch.tensor([text]))[0]
        return int(self.inner.lm_head(self(states=states)[0])[0, -1].argmax())


@torch.no_grad()
def drafted(model, draft, rounds=3):
    """One guess in every call; whether it was kept."""
    text, cache, fed, kept = list(PROMPT), DynamicCache(), list(PROMPT), []
    for _ in range(rounds):
        guess = draft.guess(text)
        z = model(torch.tensor([[*fed, guess]]), past_key_values=cache).logits[0, -2:].argmax(-1).tolist()
        kept.append(z[0] == guess)
        if not kept[-1]:
            cache.crop(-1)
        text += [guess, z[1]] if kept[-1] else z[:1]
        fed = text[-1:]
    return text, kept


@pytest.mark.parametrize("head", [Pruned, Nameless, Mapped, States])
@pytest.mark.parametrize("detail", ["full", "light"])
def test_a_draft_with_other_columns_than_tokens_is_still_a_draft(head, detail):
    model, draft = tiny(), head()
    with engines.watch({"target": model, "draft": draft}, detail=detail) as seen:
        text, _ = drafted(model, draft)
    trace = seen.trace([text])
    assert trace.end.reason == "complete", trace.end.message
    assert trace.header.prompt_ids == PROMPT and [(p, t) for p, t, _ in written(trace)] == list(enumerate(text))[4:]
    assert [step.forwards["draft"] for step in trace.steps] == [2 if head is States else 1] * 3
    assert not any(step.tree.draft_logprobs for step in trace.steps)
    assert ("20 columns, which are not the tokens" in said(trace)) == (head is not States)
    assert any(step.tree.target_logprobs for step in trace.steps) == (detail == "full")


def test_a_draft_of_a_smaller_vocabulary_of_its_own_tells_its_probabilities():
    """Padded to another number of rows, as the sizes of one family are."""
    model, draft = tiny(vocab_size=48), tiny()
    draft.guess = lambda text: int(draft(torch.tensor([text]), use_cache=False).logits[0, -1].argmax())
    with engines.watch({"target": model, "draft": draft}) as seen:
        text, _ = drafted(model, draft)
    trace = seen.trace([text])
    assert all(step.tree.draft_logprobs[1] is not None for step in trace.steps) and "columns" not in said(trace)


def test_a_fault_of_the_draft_is_told_and_the_target_is_read_on():
    model, draft = tiny(), Pruned()
    with engines.watch({"target": model, "draft": draft}, prompt=PROMPT) as seen:
        seen._hooks[1].fault = "a call of the draft could not be read."
        text, _ = drafted(model, draft)
    trace = seen.trace([text])
    assert trace.end.reason == "complete" and seen.faults[0] in trace.header.departures
    assert trace.output_ids == text[4:]
