"""Return of the Encoder (Elfeki et al., arXiv 2501.16273; microsoft/encoder-decoder-slm, MIT).

A decoder-only model pushes the input through all its layers and then every new token through all of them again. An
encoder-decoder of the same size spends two thirds of its layers once on the input and leaves one third to run for each
token; the input is kept as the cross-attention keys and values of those few layers. So the first token comes earlier,
every later one is cheaper, and the cache is smaller.

Beside it, if wanted, its decoder-only twin answers the same prompt: as many weights, the same training, one token a
step too. Both have a cache; the released `generate` has none and runs the whole decoder again for every token.

We depart from the paper in: 1.4 M weights trained here (`engines/training/architectures/encoder_decoder.py`), 8 + 3
layers against 12; the times are those of this machine, where the arithmetic allows a third off the first token and 3.4
times the speed of later ones (42 d^2 of 144 d^2 weights are read), and no more."""

from typing import Any

from engines.kit import (
    Bool,
    Float,
    Int,
    Params,
    Recorder,
    Roles,
    Steps,
    Tensor,
    distribution,
    draw,
    many,
    max_new_tokens,
    method,
    token_probability,
    torch,
)
from engines.methods.architecture.encoder_return.phases import DecoderOnly, EncoderDecoder, Turn, cells, itemsize


@method(
    "encoder-return",
    title="Return of the Encoder",
    paper="arXiv:2501.16273",
    code="https://github.com/microsoft/encoder-decoder-slm",
    summary="Reads the input once with most of its layers and writes with few; beside it a decoder-only twin of as "
    "many weights answers the same prompt.",
    needs={"model": "seq2seq", "twin": "layered"},
    params=[
        max_new_tokens(32),
        Bool("beside", True),
        Float("temperature", 0.0, 0.0, 2.0, step=0.05),
        Int("top_k", 128, 1, 1000, source="official"),
    ],
    signature="phases",
    emits={"commits", "scores", "candidates", "intervals", "facts", "note"},
    lanes={"confidence": "probability", "looked at": "probability"},
    beside={"twin"},
)
def decode(models: Roles, prompt: list[int], p: Params, run: Recorder) -> Steps:
    """One token of either model per step; the run ends with the encoder-decoder's answer."""
    n_in, ids, end = run.prompt_length, prompt, len(prompt) + p.max_new_tokens
    ours, twin = (
        EncoderDecoder(models.model, prompt[:n_in], end),
        DecoderOnly(models.twin, prompt[:n_in], end),
    )
    other_ids = list(prompt)
    while len(ids) < end and not (len(ids) > n_in and ids[-1] in models.model.eos_ids):
        output = ours.next(ids)  # encode and cross_kv at the first token only
        token = chosen(output.z, p, run)
        lanes = cells(ours, output, text_of(models.model, token), run)
        facts = cost_facts("", ours, output)
        if p.beside and not (len(other_ids) > n_in and other_ids[-1] in models.twin.eos_ids):
            reply = twin.next(other_ids)  # the whole height for the input, and again for every token
            other_ids = [*other_ids, chosen(reply.z, p, run)]
            lanes += cells(twin, reply, text_of(models.twin, other_ids[-1]), run)
            facts |= cost_facts("twin ", twin, reply)
        at, chance = [len(ids)], token_probability(output.z[None], torch.tensor([token]))
        edit = yield run.step(
            commits=(at, [token], "greedy" if p.temperature == 0 else "sampled", chance),
            scores=lambda: {"confidence": (at, chance), "looked at": (range(n_in), looked(output))},
            candidates=lambda: (at, output.z[None]),
            intervals=lanes,
            facts=facts | {"encoder layers run": ours.encoded},
            note=note(output),
        )
        ids = run.apply_edit(edit, [*ids, token], *ours.crops)
        if edit is not None and edit.force:  # both go on from the same text
            other_ids = list(ids)
            twin.cache.crop(min(twin.cache.length, min(edit.force)))


def chosen(z: Tensor, p: Params, run: Recorder) -> int:
    """The most likely token of logits [V], or one drawn from the k best."""
    if p.temperature == 0:
        return int(z.argmax())
    best, at = z.topk(min(p.top_k, len(z)))
    return int(at[draw(distribution(best.double(), p.temperature), run.rng)])


def text_of(model: Any, token: int) -> str:
    """How a token reads; nothing for an end mark."""
    return "" if token in model.eos_ids else str(model.tokenizer.piece(token).text)


def looked(output: Turn) -> Tensor:
    """Where the last layer looked, mean of its heads, [n_in]."""
    assert output.attention is not None
    return output.attention.mean(0)


def cost_facts(prefix: str, side: EncoderDecoder | DecoderOnly, output: Turn) -> dict[str, float]:
    """What a step says of one model, counted. Its times are in the lanes."""
    return {
        f"{prefix}cache bytes": side.bytes(),
        f"{prefix}weights read bytes": output.weights * itemsize(side.model),
        f"{prefix}flops": output.flops,
    }


def note(output: Turn) -> str:
    """What happened, in one sentence."""
    encoded, decoded = (sum(mark.phase == phase for mark in output.marks) for phase in ("encode", "decode"))
    if encoded:
        decoder = many(decoded, "decoder layer")
        return f"The input went once through {many(encoded, 'encoder layer')}, the first token through {decoder}."
    return f"One token went through {many(decoded, 'layer')}."
