"""CPPD, Context Perception Parallel Decoder (Du et al., arXiv:2307.12270; official code Topdu/OpenOCR and PaddleOCR).

An autoregressive reader of a picture of a word knows where to look next because it knows what it has written. CPPD
learns the same from two side tasks, counting how often each character occurs and telling which places are filled, and
joins both in one attention: all characters come out of one pass, whatever the word's length.

Departures: a reader of 1.2 M weights whose encoder (convolutions and one layer of attention, 32 features) also serves
the autoregressive control and was trained with both; words of 2 to 10 small letters; the counts that are shown are
computed beside the pass, which does without the character nodes, as the official inference does."""

from engines.kit import (
    Params,
    Recorder,
    Steps,
    WordReaderLM,
    many,
    max_new_tokens,
    method,
    token_probability,
)
from engines.methods.multimodal._word import LOOKS, Sight, picture, sight, until_end


@method(
    "cppd",
    title="CPPD: a word in one pass",
    paper="arXiv:2307.12270",
    code="https://github.com/Topdu/OpenOCR",
    summary="Reads all letters of a pictured word in one pass: trained to count the letters and to predict which "
    "positions are occupied. Not lossless: it may read another word than the reader that writes letter by letter.",
    needs="reader",
    params=[max_new_tokens(11, 11), *LOOKS],
    signature="word",
    emits={"commits", "scores", "candidates", "facts", "note"},
    records={"sight": Sight},
    lanes={"confidence": "probability", "occupied": "probability"},
    baseline="word-by-letter",
)
def decode(model: WordReaderLM, prompt: list[int], p: Params, run: Recorder) -> Steps:
    """One pass fills every place; after an edit another one fills those behind it."""
    start, ids = run.prompt_length, prompt  # a board that was taken over holds letters behind the word
    pixels, end, fresh = picture(model, prompt[:start], p, run), start + model.places, True
    V, end = model.see(pixels, start), min(end, len(ids) + p.max_new_tokens)
    while len(ids) < end and not (len(ids) > start and ids[-1] in model.eos_ids):
        glance = model.glance(V)
        places = slice(len(ids) - start, end - start)
        z, best = glance.logits[places], glance.logits[places].argmax(-1)  # [n, C], [n]
        tokens = until_end(best.tolist(), model.eos_ids)
        n, at = len(tokens), list(range(len(ids), len(ids) + len(tokens)))
        chances = token_probability(z, best)[:n]
        places = slice(places.start, places.start + n)
        edit = yield run.step(
            commits=(at, tokens, "place", chances),
            scores=lambda: {"confidence": (at, chances), "occupied": (at, glance.occupied[places])},
            candidates=lambda: (at, z[:n]),
            records={
                "sight": lambda: sight(
                    pixels if fresh else None,
                    glance.attention[:, places],
                    {model.tokenizer.piece(i).text: count for i, count in enumerate(model.counts(V)) if i and count},
                    glance.occupied.tolist(),
                )
            },
            facts={
                "passes": run.steps + 1,
                "letters": n - (tokens[-1] in model.eos_ids),
                "sure": float(chances.prod()),
            },
            note=f"One pass: {many(n, 'character')}, the end mark included."
            if tokens[-1] in model.eos_ids
            else f"One pass: {many(n, 'character')}.",
        )
        ids, fresh = run.apply_edit(edit, [*ids, *tokens]), False
