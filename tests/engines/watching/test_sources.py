"""Models with a source beside their text: an encoder's ids are never what is written."""

import pytest
import torch
import transformers
from transformers import DynamicCache, EncoderDecoderCache

import engines
from tests.engines.watching.strangers import V, followed, tiny, written

SOURCE = torch.tensor([[5, 6, 7, 8, 1]])
SMALL = {"d_model": 16, "encoder_layers": 1, "decoder_layers": 2, "encoder_ffn_dim": 16, "decoder_ffn_dim": 16}
HEADS = {"encoder_attention_heads": 2, "decoder_attention_heads": 2, "max_position_embeddings": 64}
MARKS = {"decoder_start_token_id": 2, "eos_token_id": 2, "pad_token_id": 1, "bos_token_id": 0}


def t5():
    sizes = {"d_model": 16, "d_kv": 8, "d_ff": 32, "num_layers": 2, "num_heads": 2}
    config = transformers.T5Config(vocab_size=V, **sizes, decoder_start_token_id=2, eos_token_id=1, pad_token_id=0)
    return transformers.T5ForConditionalGeneration(config)


def bart():
    config = transformers.BartConfig(vocab_size=V, **SMALL, **HEADS, **MARKS, forced_eos_token_id=None)
    return transformers.BartForConditionalGeneration(config)


def marian():
    return transformers.MarianMTModel(transformers.MarianConfig(vocab_size=V, **SMALL, **HEADS, **MARKS))


@pytest.fixture(params=[t5, bart, marian], ids=["t5", "bart", "marian"], scope="module")
def model(request):
    torch.manual_seed(0)
    return request.param().eval()


def decoded(model, *, cached):
    """Both texts in every call; the third likeliest token each time, so that the answer is not one word."""
    text, cache = [2], EncoderDecoderCache(DynamicCache(), DynamicCache())
    for i in range(5):
        more = {"past_key_values": cache} if cached else {"use_cache": False}
        fed = text[-1:] if cached else text
        z = model(input_ids=SOURCE, decoder_input_ids=torch.tensor([fed]), **more).logits[0, -1]
        text.append(int(z.topk(3).indices[i % 3]))
    return torch.tensor([text])


@pytest.mark.parametrize("cached", [False, True])
def test_the_decoders_text_is_read_and_not_its_source(model, cached):
    trace, out = followed(model, lambda: decoded(model, cached=cached))
    text = out[0].tolist()
    assert trace.header.prompt_ids == [2] and len(trace.steps) == 5
    assert written(trace) == [(p, t, "written") for p, t in enumerate(text) if p]


def test_guesses_of_a_small_model_with_a_source_of_its_own(model):
    """Speculative decoding of a codec, as it is taught: both models are fed both texts every time."""
    torch.manual_seed(3)
    draft = type(model)(model.config).eval()

    def best(module, text):
        return module(input_ids=SOURCE, decoder_input_ids=torch.tensor([text]), use_cache=False).logits[0].argmax(-1)

    def loop():
        text = [2]
        while len(text) < 9:
            guess = [*text, int(best(draft, text)[-1])]
            said = best(model, guess)[-2:].tolist()
            text = [*guess, said[1]] if said[0] == guess[-1] else [*text, said[0]]
        return torch.tensor([text])

    trace, out = followed({"target": model, "draft": draft}, loop)
    assert [(p, t) for p, t, _ in written(trace)] == list(enumerate(out[0].tolist()))[1:]
    assert all(step.forwards == {"target": 1, "draft": 1} and step.tree for step in trace.steps)


@pytest.mark.parametrize("beams", [1, 3])
@pytest.mark.parametrize("sources", [1, 2])
def test_generate_gives_each_source_its_answer(model, beams, sources):
    x = torch.cat([SOURCE, SOURCE.flip(1)])[:sources]
    with engines.watch(model) as seen:
        out = model.generate(x, num_beams=beams, do_sample=False, max_new_tokens=6, eos_token_id=None)
    traces = seen.traces(out)
    assert [t.header.prompt_ids + t.output_ids for t in traces] == out.tolist()
    assert all(any(step.branches for step in trace.steps) == (beams > 1) for trace in traces)


class Renamed(torch.nn.Module):
    """Names its text as nobody else does."""

    def __init__(self):
        super().__init__()
        self.inner = tiny()

    def forward(self, source, answer):
        return self.inner(answer, use_cache=False).logits


def test_rows_of_logits_that_number_another_argument_say_so():
    model = Renamed()
    with engines.watch(model) as seen, torch.no_grad():
        for n in (2, 3):
            model(SOURCE, SOURCE[:, :n])
    with pytest.raises(engines.UserError, match="2 rows of logits came back, as many as 'answer' holds"):
        seen.trace()
    with engines.watch(model.inner) as seen, torch.no_grad():
        model.inner(inputs_embeds=torch.zeros(1, 3, 16))
    with pytest.raises(engines.UserError, match="embeddings instead of token ids"):
        seen.trace()
