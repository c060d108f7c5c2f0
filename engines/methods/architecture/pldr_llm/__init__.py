"""PLDR-LLM decoded with KV-cache and G-cache (Gokden, arXiv:2502.13502; official code
burcgokden/PLDR-LLM-with-KVG-cache).

Attention scores are q G k^T, where a deep network makes the matrix G of every head of the text (network and equations:
`engines/models/networks/pldr.py`). The claim: G hardly depends on the text in a model that was trained long enough, so
it may be made once, of the prompt, and kept; from then on a token costs what it costs in an ordinary transformer.

Four ways to decode, the official flags: `none` runs the whole text again for every token and makes G again. `KV` keeps
keys, values and the A that the deep part made of the prompt, and computes G from that A each time. `KV+G` keeps G too.
`G only` runs the whole text again with the G of the first pass. KV and KV+G use the same G by construction: that they
agree to the bit says nothing about the claim. The one to compare with is `none`, decoded beside them for the record.

Departures: greedy only; a model of 1.2 M parameters, trained here on 2 M tokens, whose first layer's G still depends on
the text; random G has the size of the model's own, layer by layer; no end mark is dropped from the prompt, which has
none."""

from functools import partial

from engines.kit import (
    Bool,
    Choice,
    CountedPowerLaw,
    Params,
    Recorder,
    Steps,
    Text,
    UserError,
    many,
    max_new_tokens,
    method,
    token_probability,
    torch,
)
from engines.methods.architecture.pldr_llm.operators import Beside, Maps, Now, Operators, given

MODES, SOURCES = ("none", "KV", "KV+G", "G only"), ("own", "other prompt", "identity", "random")


@method(
    "pldr-llm",
    title="PLDR-LLM: G-cache",
    paper="arXiv:2502.13502",
    code="https://github.com/burcgokden/PLDR-LLM-with-KVG-cache",
    summary="Attention through a matrix G that a deep network computes from the prompt once; then G is kept and the "
    "network is skipped. Beside it, the same model without any cache.",
    needs="power-law",
    params=[
        max_new_tokens(40, 128),
        Choice("source", "own", SOURCES, symbol="G"),
        Text("other", "story: Mia, boat, lamp"),
        Choice("mode", "KV+G", MODES, source="KV+G"),
        Bool("beside", True),
    ],
    signature="operators",
    emits={"commits", "candidates", "intervals", "facts", "note"},
    records={"operators": Operators},
)
def decode(model: CountedPowerLaw, prompt: list[int], p: Params, run: Recorder) -> Steps:
    """One forward and one token per step."""
    ids, end = prompt, len(prompt) + p.max_new_tokens
    cache, G, asked, record = model.new_cache(end), None, "", Beside(model, run, ids)
    while len(ids) < end and not (len(ids) > run.prompt_length and ids[-1] in model.eos_ids):
        if asked != (asked := p.source + p.other):
            G = None if p.source == "own" else given(model, prompt, p.source, other(model, p.other), run)
            record.own = Maps("target")
        kv = "KV" in p.mode
        reused = G is not None and (p.source != "own" or "G" in p.mode)
        fed = ids[cache.length :] if kv else ids
        now = model.forward(fed, cache if kv else None, G if reused else None)
        G = now.G_LM if G is None else G  # the first pass's
        token = int(now.logits[0].argmax())
        record.now = Now(ids, now, p.source, reused)
        edit = yield run.step(
            commits=([len(ids)], [token], "greedy", token_probability(now.logits, torch.tensor([token]))),
            candidates=lambda: ([len(ids)], now.logits),
            facts=partial(record.facts, p.beside, kept(model, cache.length if kv else 0, p.mode)),
            records={"operators": record.operators},
            intervals=record.intervals,
            note=f"{many(len(fed), 'row')} fed, G {'reused' if reused else 'computed'}.",
        )
        ids = run.apply_edit(edit, [*ids, token], cache)
        if edit and edit.force:
            record.follow(ids)


def other(model: CountedPowerLaw, text: str) -> list[int]:
    """Ids of the other prompt. Raises UserError for none, or for one that is too long."""
    ids = model.tokenizer.encode_prompt(text)
    if not text.strip() or len(ids) > model.max_positions:
        raise UserError(
            f"the other prompt has {len(ids) if text.strip() else 0} tokens; give 1 to {model.max_positions}."
        )
    return ids


def kept(model: CountedPowerLaw, rows: int, mode: str) -> dict[str, float]:
    """Bytes in the caches: keys and values grow with the text, A and G do not."""
    G = model.operator_bytes if "G" in mode else 0
    A = model.operator_bytes / 2 if "KV" in mode else 0
    return {"kv_bytes": rows * model.position_bytes, "operator_bytes": G + A}
