"""Prompt lookup decoding: the draft is copied from earlier in the text (Saxena 2023,
apoorvumang/prompt-lookup-decoding; transformers' `prompt_lookup`).

The last few tokens are looked up in the text so far; what followed there when they stood in it before is drafted, and
one forward of the model verifies it. There is no second model and no table, so the drafts are free. Candidates are
chosen without chance and verified by one draw per node: the greedy text at temperature 0, the exact distribution of
plain sampling above.

Ours: several matches may be tried at once, as a tree of their continuations.
"""

from functools import partial

import numpy as np

from engines.kit import CausalLM, Choice, Int, Params, Recorder, Steps, many
from engines.methods.speculative._retrieval import Match, copied, find, fuse, spans, trie
from engines.methods.speculative._turn import Target, drafting
from engines.methods.speculative._verify import Draft

MOST, FARTHEST = 8, 20  # matches, tokens of each


@drafting(
    "prompt-lookup",
    title="Prompt lookup",
    code="https://github.com/apoorvumang/prompt-lookup-decoding",
    summary="Drafts by copying: what followed the last few tokens when they occurred earlier in the text.",
    needs="causal",
    params=[
        Int("longest", 2, 1, 8, symbol="n", source="transformers"),
        Int("length", 10, 0, FARTHEST, symbol="γ", neutral=0, source="transformers"),
        Int("matches", 1, 1, MOST, source="1 in transformers"),
        Choice("order", "first", ["first", "newest"], source="transformers"),
    ],
    signature="tree",
    emits={"spans"},
)
def decode(model: CausalLM, prompt: list[int], p: Params, run: Recorder) -> Steps:
    """One look-up and one verifying forward per step."""
    target = Target(model, prompt, p, rows=1 + MOST * FARTHEST)
    ids = prompt
    while target.unfinished(ids):
        matches = look_up(ids, p, min(p.length, target.room(ids)), model.eos_ids)
        draft = Draft(ids[-1])
        fuse(draft, trie(match.tokens for match in matches))
        draft.traced.append(partial(copied, draft, "text", ids, matches))
        iteration = target.verify(ids, draft, run.rng)
        n = matches[0].n if matches else 0
        edit = yield run.step(
            **iteration.groups(),
            spans=spans(matches, len(ids)),
            facts=iteration.facts(matches=len(matches), match_length=n),
            note=f"The last {'token' if n == 1 else f'{n} tokens'} occurred earlier in the text: "
            f"{iteration.accepted} of {many(len(draft) - 1, 'copied token')} accepted{iteration.ending()}."
            if matches
            else "The last token is new in this text, so there is nothing to copy; one token from the model.",
        )
        ids = run.apply_edit(edit, iteration.ids, target.cache)


def look_up(ids: list[int], p: Params, length: int, eos_ids: frozenset[int]) -> list[Match]:
    """The matches of the text's end that are tried, best first; one that an end mark follows is taken and drafts
    nothing, as in transformers."""
    chosen = slice(p.matches) if p.order == "first" else slice(-p.matches, None)
    matches = find(np.array(ids), ids, p.longest, 1, length, eos_ids, chosen)
    return [match for match in (matches if p.order == "first" else reversed(matches)) if match.tokens]
