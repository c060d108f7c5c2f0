"""ConCISE: what its switches change and what they must not, and that its probe leaves no trace."""

import re
from functools import cache

import pytest
import torch

import engines
from engines.methods.reasoning.concise.thought import Prose, reading

MODEL = "tiny-reasoner"
CHAINS = ("8+9*3+0-8", "6*4*5*1+4+4", "4+8-9*7", "2*7*8*3")
NEVER = {"inject": False, "t_stop": 1.0}


@cache
def run(chain=CHAINS[0], seed=0, model=MODEL, **params):
    return engines.run("concise", model, chain, params=params, seed=seed)


def test_without_its_switches_it_is_plain_sampling():
    """Probes are read all the same: they leave cache and random numbers as they are."""
    for seed, chain in enumerate(CHAINS[:2]):
        plain = engines.run("temperature", MODEL, chain, params={"max_new_tokens": 96, "temperature": 1.0}, seed=seed)
        ours = run(chain, seed, **NEVER)
        assert ours.output_ids == plain.output_ids and ours.totals.forwards == plain.totals.forwards


def test_stopping_alone_gives_a_prefix_and_a_higher_line_never_a_shorter_one():
    chain = CHAINS[0]
    whole, before = run(chain, 1, **NEVER).text, ""
    for line in (0.0, 0.5, 0.6, 1.0):
        text = run(chain, 1, inject=False, t_stop=line).text
        assert whole.startswith(text) and text.startswith(before)
        before = text
    first = run(chain, 1, inject=False, t_stop=0.0)
    assert first.text == whole[: whole.index("#") + 2] and first.steps[-1].commits.causes == ["stopped"]
    assert first.end.reason == "complete"


def test_injection_puts_the_confident_mood_where_doubt_was_drawn():
    plain, ours = run(CHAINS[1], 3, **NEVER), run(CHAINS[1], 3, t_stop=1.0)
    assert "u" in plain.text and "u" not in ours.text
    written = [pair for step in ours.steps for pair in zip(step.commits.tokens, step.commits.causes, strict=True)]
    put = [token for token, why in written if why == "injected"]
    mood = engines.load_model(MODEL).tokenizer.encode("c")[0]
    assert put and set(put) == {mood} and ours.steps[-1].facts["injected"] == len(put)
    assert plain.text[: plain.text.index("u")] == ours.text[: plain.text.index("u")]


@pytest.mark.parametrize("model", [MODEL, pytest.param("tiny-reasoner-concise", marks=pytest.mark.exhaustive)])
def test_the_record_of_the_model_left_alone_is_its_plain_run(model):
    """To its end, though ours ends earlier; nothing of it counts as a call."""
    for chain in CHAINS[:2]:
        ours, plain = run(chain, 2, model), run(chain, 2, model, **NEVER)
        told = [step.records["left_alone"] for step in ours.steps]
        assert [token for one in told for token in one["tokens"]] == plain.output_ids
        assert ours.totals.forwards == len(ours.steps)
        spans = plain.steps[-1].spans
        start = len(plain.header.prompt_ids)
        assert told[-1]["alone"]["starts"] == [span.start - start for span in spans]
        assert [kind == "again" for kind in told[-1]["alone"]["kinds"]] == [span.kind == "reflection" for span in spans]


class Words:
    """A model whose tokenizer knows words and line ends."""

    vocab_size, eos_ids = 200, frozenset({199})

    def __init__(self):
        self.tokenizer, self.ids = self, {}

    def encode(self, text):
        return [self.ids.setdefault(word, len(self.ids)) for word in re.findall(r"\n| ?[^\s]+", text)]

    def decode(self, ids):
        texts = {number: word for word, number in self.ids.items()}
        return "".join(texts.get(i, "") for i in ids)


def test_prose_is_read_in_lines():
    said = (model := Words()).encode
    form = reading(model)
    assert isinstance(form, Prose)
    assert form.starts([]) and form.starts(said("So 4\n")) and not form.starts(said("So 4"))
    assert form.reflects(said("Wait, no")) and not form.reflects(said("So Wait"))
    assert form.answered(said("I add\nThe answer is 4.\n")) and form.answered(said("\\boxed{4}\n"))
    assert not form.answered(said("The answer is 4.")) and not form.answered(said("The answer is 4.\nSo\n"))
    assert form.phrase(0) != form.phrase(1) and form.phrase(5) == form.phrase(0) and form.instead(7) == 7
    z = torch.full((200,), -50.0)
    z[said("Wait")[0]] = z[said(" But")[0]] = 5.0
    assert form.reflection(z) == pytest.approx(1.0)


@pytest.mark.smollm2
def test_on_a_chat_model_phrases_stand_at_line_starts_and_the_probe_is_forgotten():
    asked = "What is 12 + 30? Think in steps, one on each line, and end with 'The answer is'."
    plain = run(asked, 0, "smollm2", temperature=0.0, max_new_tokens=16, **NEVER)
    greedy = engines.run("greedy", "smollm2", asked, params={"max_new_tokens": 16})
    assert plain.output_ids == greedy.output_ids
    ours = run(asked, 0, "smollm2", temperature=0.0, max_new_tokens=16, t_stop=1.0)
    assert ours.text.startswith("It is clear that") and ours.steps[0].commits.causes[:4] == ["injected"] * 4
    assert "entropy_before" in ours.steps[0].facts
