"""CPPD, Context Perception Parallel Decoder (Du et al., arXiv:2307.12270; official code Topdu/OpenOCR and PaddleOCR).

An autoregressive reader of a picture of a word knows where to look next because it knows what it has written. CPPD
learns the same from two side tasks, counting how often each character occurs and telling which places are filled, and
joins both in one attention: all characters come out of one pass, whatever the word's length.

Departures: a reader of 1.2 M weights whose encoder (convolutions and one layer of attention, 32 features) also serves
the autoregressive control and was trained with both; words of 2 to 10 small letters; the counts that are shown are
computed beside the pass, which does without the character nodes, as the official inference does.

The control reads letter by letter, with NRTR's kind of decoder (arXiv:1806.00926) behind the same encoder: two layers
of width 96, norms in front, one forward for each letter and one for the end mark, with keys and values kept."""

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
from engines.methods.baselines._plain import token_groups
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


@method(
    "word-by-letter",
    title="A word, letter by letter",
    paper="arXiv:2307.12270",
    summary="Reads the picture of a word one letter at a time, each forward looking at the picture and at what is "
    "written. The control of CPPD on the same encoder.",
    needs="reader",
    params=[max_new_tokens(11, 11), *LOOKS],
    signature="word",
    emits={"commits", "scores", "candidates", "note"},
    records={"sight": Sight},
    lanes={"confidence": "probability", "entropy": "nats"},
)
def decode_by_letter(model: WordReaderLM, prompt: list[int], p: Params, run: Recorder) -> Steps:
    """Invariant after every step: the cache holds the begin mark and all letters but the last."""
    start, ids = run.prompt_length, prompt  # a board that was taken over holds letters behind the word
    pixels, end, fresh = picture(model, prompt[:start], p, run), start + model.places, True
    V, end = model.see(pixels, start), min(end, len(ids) + p.max_new_tokens)
    cache = model.new_cache(V)
    while len(ids) < end and not (len(ids) > start and ids[-1] in model.eos_ids):
        fed = [model.start_id, *ids[start:]][cache.length - start + 1 :]
        extended = model.extend(fed, cache)
        z = extended.logits[-1:]  # [1, C]
        token, attention = int(z.argmax()), extended.attention
        assert attention is not None
        edit = yield run.step(
            **token_groups(len(ids), token, z),
            records={"sight": lambda: sight(pixels if fresh else None, attention[:, -1:])},
            note="One forward: the end mark." if token in model.eos_ids else "One forward, one letter.",
        )
        ids, fresh = run.apply_edit(edit, [*ids, token], cache), False
