"""EasySpec: several layers of the draft attend at once, from one slightly old state (Wu et al., arXiv:2502.02493).

A small draft leaves most of the target's devices idle. So its layers stand in groups of N: the attention of all layers
of a group reads the state that entered the group, which N devices can do at the same time; the feed-forward parts stay
in order. Such a forward is fuzzy, and so are the keys and values that it leaves behind. Before each round one ordinary
forward over the accepted tokens writes them exactly (calibration) and gives the first drafted token. The target
verifies as ever, so the text is the target's own for every N.

Written from reading notes, as the authors' text and code were not available. The draft is the target itself, run
fuzzily: that shows what fuzzy attention costs, and is no speed on one device. The order inside a group, and the rest
group at the end, are our reading. All parts run one after another here; their measured times are laid out on devices
that are modelled.

Letters: L layers, N layers of a group, gamma drafted tokens, G devices, n rows fed, d hidden size, V vocabulary."""

from typing import Any

from engines.kit import (
    Bool,
    Choice,
    Int,
    KVCache,
    Params,
    Recorder,
    Span,
    Steps,
)
from engines.methods.speculative._turn import Target, drafting, propose
from engines.methods.speculative._verify import Draft
from engines.methods.system.easyspec.fuzzy import ATTENTION, WHOLE, Times, forward, groups_of, intervals

MOST, WIDEST, ENDS = 8, 7, 3


@drafting(
    "easyspec",
    title="EasySpec",
    own="after the abstract and reviews, on one device",
    paper="arXiv:2502.02493",
    summary="The draft's layers attend in groups, all from the state that entered the group; one exact forward per "
    "round corrects its cache.",
    needs="layered",
    new_tokens=48,
    params=[
        Int("gamma", 5, 1, MOST, symbol="γ", source="ours"),
        Int("size", 4, 1, WIDEST, symbol="N", source="paper"),
        Int("ends", 1, 0, ENDS, source="paper"),
        Choice("parallel", ATTENTION, [ATTENTION, WHOLE], source="paper"),
        Bool("calibrate", True),
        Int("devices", 8, 1, 8, symbol="G"),
    ],
    signature="schedule",
    emits={"intervals", "spans"},
)
def decode(model: Any, prompt: list[int], p: Params, run: Recorder) -> Steps:
    """One round per step: calibrate, draft fuzzily, verify. The second draft of a round, the first fuzzy one, is timed
    part by part."""
    target = Target(model, prompt, p, rows=1 + MOST)
    drafter = model.playing("draft")
    cache = model.new_cache(len(prompt) + p.max_new_tokens + MOST)
    ids, exact = prompt, 0  # rows of the draft's cache that an ordinary forward wrote
    while target.unfinished(ids):
        first, whole = groups_of(model.num_layers, p.size, p.ends), p.parallel == WHOLE
        cache.crop(min(cache.length, exact if p.calibrate else len(ids) - 1))
        began, gamma, times = cache.length, min(p.gamma, target.room(ids)), Times()
        draft = Draft(ids[-1])
        if gamma:
            plain = p.calibrate or not began  # the prompt is read exactly in any case
            z = forward(drafter, ids[began:], cache, {} if plain else first, whole)
            exact = len(ids) if plain else exact
            for row in range(gamma):
                if row:
                    z = forward(drafter, draft.tokens[-1:], cache, first, whole, times if row == 1 else None)
                propose(draft, row, z, p.temperature, run.rng)  # q of the test is the fuzzy distribution
        iteration = target.verify(ids, draft, run.rng)
        calibrated = len(ids) - began if gamma and p.calibrate else 0
        edit = yield run.step(
            **iteration.groups(),
            spans=remembered(cache, exact, calibrated, len(iteration.ids)),
            intervals=[
                *run.calls({"draft": "draft", "target": "verify"}),
                *intervals(times, first, whole, p.devices, run),
            ],
            facts=iteration.facts(calibrated=calibrated, fuzzy_rows=cache.length - min(exact, cache.length)),
            note=iteration.note(),
        )
        ids = run.apply_edit(edit, iteration.ids, target.cache, cache)
        exact = min(exact, cache.length)


def remembered(cache: KVCache, exact: int, calibrated: int, end: int) -> list[Span]:
    """What the draft's cache holds of the text [0, end): rows that an ordinary forward wrote, of them those of this
    round's calibration, and fuzzy ones."""
    exact = min(exact, cache.length)
    rows = [
        (0, exact - calibrated, "exact"),
        (exact - calibrated, exact, "calibrated"),
        (exact, min(cache.length, end), "fuzzy"),
    ]
    return [Span("cache", a, b, label, {"rows": label}) for a, b, label in rows if a < b]
