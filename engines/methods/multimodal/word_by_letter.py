"""A word in a picture, read letter by letter: the autoregressive control of CPPD (arXiv:2307.12270), with NRTR's kind
of decoder (arXiv:1806.00926) behind the same encoder. One forward for each letter and one for the end mark, with keys
and values kept.

Departures: two layers of width 96, norms in front; trained together with CPPD's decoder on the same images."""

from engines.kit import (
    Params,
    Recorder,
    Steps,
    WordReaderLM,
    entropy,
    max_new_tokens,
    method,
    token_probability,
)
from engines.methods.multimodal._word import LOOKS, Sight, picture, sight


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
def decode(model: WordReaderLM, prompt: list[int], p: Params, run: Recorder) -> Steps:
    """Invariant after every step: the cache holds the begin mark and all letters but the last."""
    start, ids = run.prompt_length, prompt  # a board that was taken over holds letters behind the word
    pixels, end, fresh = picture(model, prompt[:start], p, run), start + model.places, True
    V, end = model.see(pixels, start), min(end, len(ids) + p.max_new_tokens)
    cache = model.new_cache(V)
    while len(ids) < end and not (len(ids) > start and ids[-1] in model.eos_ids):
        fed = [model.start_id, *ids[start:]][cache.length - start + 1 :]
        extended = model.extend(fed, cache)
        z = extended.logits[-1:]  # [1, C]
        token, at, attention = int(z.argmax()), [len(ids)], extended.attention
        chance = token_probability(z, z.argmax(-1))
        assert attention is not None
        edit = yield run.step(
            commits=(at, [token], "greedy", chance),
            scores=lambda: {"confidence": (at, chance), "entropy": (at, entropy(z))},
            candidates=lambda: (at, z),
            records={"sight": lambda: sight(pixels if fresh else None, attention[:, -1:])},
            note="One forward: the end mark." if token in model.eos_ids else "One forward, one letter.",
        )
        ids, fresh = run.apply_edit(edit, [*ids, token], cache), False
