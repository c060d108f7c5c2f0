"""What the player is handed: counts of every step, what becomes of tokens, and what is said of two runs."""

import json
from itertools import permutations
from pathlib import Path

import msgspec
import pytest

from engines import Alternatives, Trace
from explorer.figures import history, metrics
from explorer.figures.compare import difference
from explorer.figures.handed import COUNTS, Counting, key, of_pair, of_pairs, of_run, shown
from explorer.figures.work import AT_ONCE, of_step
from explorer.runs.gallery import gallery
from tests.explorer.figures.lookback import invented, looked, moving, noisy
from tests.explorer.figures.standing import standing
from tests.player.handmade import both_at_once, drafting, masked, recorded

EOS = 7  # of `looked`


def filled(figures: dict[str, list[int]], names: tuple[str, ...], steps: int) -> dict[str, list[int]]:
    """The lists with those that were left out."""
    assert all(any(row) for row in figures.values())
    return {name: figures.get(name, [0] * (steps + 1)) for name in names}


@pytest.mark.parametrize(
    "traces",
    [
        lambda: [*map(invented, range(60)), *map(moving, range(30)), masked(), drafting(), noisy(), both_at_once()],
        recorded,
    ],
    ids=["made", "recorded"],
)
def test_each_list_says_what_a_count_of_its_step_says(traces):
    revised = 0
    fates = ("remasked", "changed", "cut", "behind", "missing")
    for trace in traces():
        figures, steps = of_run(trace), len(trace.steps)
        counts, later = filled(figures["counts"], COUNTS, steps), filled(figures["later"], fates, steps)
        for t, now in enumerate(history.boards(trace)):
            here = standing(trace, t)
            assert {name: later[name][t] for name in fates} == {name: getattr(here, name) for name in fates}
            if t < steps:  # at the end the output counts
                answer = now[len(trace.header.prompt_ids) :]
                assert counts["tokens"][t] == here.tokens == history.gained(trace, answer)
                assert sum(counts[name][t] for name in COUNTS[:4]) == len(answer)
            revised += here.revised
        known = metrics.numbers(trace)
        lost = {name for name, value in known.items() if value is None}
        assert {name: counts[name][-1] for name in COUNTS if name not in lost} == {
            name: known[name] for name in COUNTS if name not in lost
        }
        assert figures.get("gained", [known["tokens"]])[-1] == known["gained"] or "gained" in lost
    assert revised


@pytest.mark.parametrize("trace", [masked(), drafting(), noisy(), both_at_once()])
def test_steps_that_are_counted_as_they_come_are_counted_as_of_the_whole_run(trace):
    whole, live = Counting(trace.header).over(trace.steps), Counting(trace.header)
    counts: dict[str, list[int]] = {name: [] for name in COUNTS}
    work: dict[str, list[tuple[float, float]]] = {}
    gained = None
    for first in (-1, *range(0, len(trace.steps), 3)):
        steps = trace.steps[first : first + 3] if first >= 0 else []
        made = live.over(steps)
        assert made["from"] == first
        for name, row in counts.items():
            row += made["counts"].get(name, [0] * (len(steps) or 1))
        for track, spells in made.get("work", {}).items():
            work.setdefault(track, []).extend(spells)
        gained = made.get("gained")
    assert {name: row for name, row in counts.items() if any(row)} == whole["counts"]
    assert (work, gained) == (whole.get("work", {}), whole.get("gained"))
    assert live.over([]) == {"from": len(trace.steps), "counts": {}} | ({"gained": gained} if gained else {})


def test_what_other_values_would_decide_comes_when_a_run_is_over():
    trace = gallery().get("28-specdec-story")
    whole, live, asked = of_run(trace)["stops"], Counting(trace.header), Alternatives(trace.header)
    assert whole == [asked.of(step) for step in trace.steps] and whole[0]["stopping"]["h"].answers
    assert "stops" not in live.over(trace.steps) and "stops" not in of_run(masked())


@pytest.mark.parametrize(
    ("card", "right"),
    [
        (
            "235-stand-story",
            {"They played until the sun went down.": True, "slept well.": True},
        ),  # of many that are right
        ("52-ffs-race", {";#8": True, "8": True}),
        ("266-rpc-count", {"107": True, "77": False}),
        ("95-concise-both", {"#8;w6*3=8;#8": True}),
    ],
)
def test_texts_beside_that_of_the_run_are_right_by_the_check_of_the_task(card, right):
    told = of_run(gallery().get(card))["marks"]
    for end, is_right in right.items():
        assert {mark for text, (_, mark) in told.items() if text.endswith(end)} == {is_right}, end
    assert "marks" not in of_run(masked())


def call(track, start, end, **more):
    return {"track": track, "start": start, "end": end, **more}


LEFT_OUT = [
    call("a", 0, 1),
    call("b", 0, 2, about={"part_of": "x"}),
    call("c", 0, 1, measured=False),
    call("d", 0, 9, unit="bytes"),
    call("e", 0, 1, about={"part_of": "a"}),
    call("f", 4, 5),
]


@pytest.mark.parametrize(
    ("why", "seconds", "calls", "told"),
    [
        ("one track", 4, [call("a", 0, 1)], {"a": [(0, 1)]}),
        ("two that meet", 4, [call("b", 1, 3), call("a", 0, 2)], {"a": [(0, 2)], "b": [(1, 3)], AT_ONCE: [(1, 2)]}),
        ("two that touch", 4, [call("a", 0, 1), call("b", 1, 3)], {"a": [(0, 1)], "b": [(1, 3)]}),
        (
            "three at once are once at once",
            5,
            [call("a", 0, 4), call("b", 1, 3), call("c", 1, 2)],
            {"a": [(0, 4)], "b": [(1, 3)], "c": [(1, 2)], AT_ONCE: [(1, 3)]},
        ),
        ("calls of one track that overlap", 5, [call("a", 0, 2), call("a", 1, 3)], {"a": [(0, 3)]}),
        ("what is not a call of this step", 4, LEFT_OUT, {"a": [(0, 1)], "b": [(0, 2)], AT_ONCE: [(0, 1)]}),
    ],
)
def test_when_each_track_computed_in_a_step(why, seconds, calls, told):
    body = msgspec.to_builtins(looked([({}, [])]))
    body["steps"][0] |= {"model_seconds": seconds, "intervals": calls}
    step = Trace.from_json(json.dumps(body)).steps[0]
    assert of_step(step, 10.0) == {track: [(10 + a, 10 + b) for a, b in spells] for track, spells in told.items()}


TEXTS = ["a", "b", "c", "dd", "é", "ab"]
OTHER, CUT = {"tokenizer": "two"}, {"reason": "budget"}


def over(ids, tokenizer="one", reason="complete", asked=9, said=None, missing=()) -> Trace:
    """A finished run of these ids."""
    body = msgspec.to_builtins(looked([], canvas=None))
    models = [{"role": "m", "name": "m", "kind": "causal", "tokenizer": tokenizer}]
    body["header"] |= {"models": models, "params": {"max_new_tokens": asked}, "missing": [*missing]}
    body["pieces"] = [{"id": id_, "text": TEXTS[id_] if id_ < len(TEXTS) else "x"} for id_ in range(10)]
    text = "".join(TEXTS[id_] for id_ in ids if id_ < len(TEXTS)) if said is None else said
    body["end"] |= {"output_ids": ids, "reason": reason, "text": text}
    return Trace.from_json(json.dumps(body))


UNKNOWN = {"unit": "character"}


@pytest.mark.parametrize(
    ("why", "run", "beside", "told"),
    [
        ("the same", over([0, 1]), over([0, 1]), {"unit": "token", "at": None, "count": 2, "position": None}),
        ("a token", over([0, 1, 2]), over([0, 2, 2]), {"at": 1, "ours": "b", "theirs": "c", "position": 3}),
        ("one goes on", over([0, 1]), over([0]), {"at": 1, "ours": "b", "theirs": "", "count": 1}),
        ("the other goes on", over([0]), over([0, 1]), {"at": 1, "ours": "", "theirs": "b", "count": 2}),
        ("both came to their end", over([0, EOS], asked=3), over([0, 1, EOS]), {"at": 1, "limited": False}),
        ("behind an end mark", over([0, EOS, 1]), over([0, EOS, 2]), {"at": None, "count": 1}),
        ("one had fewer to write", over([0, 1], asked=2), over([0, 1, 2]), {"at": None, "count": 2, "limited": True}),
        ("one was stopped", over([0, 1, 2]), over([0], **CUT), {"at": None, "limited": True, "respelled": False}),
        ("other tokens", over([0, 1]), over([5]), {"at": 0, "theirs": "ab", "respelled": True, "limited": False}),
        ("other tokens, and cut", over([0, 1]), over([5], **CUT), {"at": 0, "limited": True, "respelled": False}),
        ("inside a token", over([0, 3]), over([0, 0], **OTHER), {"unit": "character", "at": 1, "position": 3}),
        ("the same text", over([0, 4]), over([0, 4], **OTHER), {"unit": "character", "at": None, "position": None}),
        ("one text cut", over([0, 1, 2]), over([0, 1], **OTHER, **CUT), {"at": None, "limited": True, "count": 2}),
        ("the other text longer", over([0]), over([0, 1], **OTHER), {"at": 1, "ours": "", "position": 3}),
        ("one text longer", over([0, 1, 2]), over([0, 1], **OTHER), {"at": 2, "theirs": "", "position": 4}),
        ("tokens that do not spell it", over([0, 1], said="xay"), over([0], **OTHER), {"at": 0, "position": None}),
        ("behind the first letter", over([3, 1], said="db"), over([3], said="dc", **OTHER), {"at": 1, "position": 3}),
        ("tokens that are not known", over([0], missing=["token_ids"]), over([0]), UNKNOWN),
        ("tokens that were not counted", over([0], missing=["tokens"]), over([0]), UNKNOWN),
        ("a tokenizer without a name", over([0], tokenizer=""), over([0], tokenizer=""), UNKNOWN),
    ],
)
def test_where_two_outputs_part(why, run, beside, told):
    found = msgspec.structs.asdict(difference(run, beside))
    assert {name: found[name] for name in told} == told


def test_of_two_runs_is_said_what_there_is_to_say():
    one, two, longer = over([0, 1]), over([0, 1]), over([0, 1], asked=3)
    two.header.seed = 5
    assert key(one) != key(two) != key(longer) and of_pair(one, two)["apart"] == ["seed"]
    pairs = of_pairs([one, longer])
    assert [*pairs] == [f"{key(one)} {key(longer)}", f"{key(longer)} {key(one)}"]
    said = pairs[f"{key(one)} {key(longer)}"]
    assert said["apart"] == ["max_new_tokens"] and said["model"] and said.keys().isdisjoint({"busy", "speed"})
    other = over([0, 1], asked=3)
    other.header.prompt = "another"
    assert of_pair(one, other) == {"apart": ["max_new_tokens"]}
    other.header.models[0].name = "big"
    assert of_pair(one, other) == {}


def test_the_drafts_and_the_speed_of_recorded_runs_are_those_of_their_figures():
    by_prompt: dict[str, list[tuple[Trace, float | None]]] = {}
    verified = compared = 0
    for trace in recorded():
        fates = [why for step in trace.steps if step.tree for why in step.tree.why if why != "root"]
        assert of_run(trace).get("drafts") == ((fates.count("accepted"), len(fates)) if fates else None)
        mine = {metric.name: metric.value for metric in metrics.measure(trace)}
        if fates:
            assert mine["acceptance_rate_of_drafted"] == pytest.approx(fates.count("accepted") / len(fates))
        verified += bool(fates)
        by_prompt.setdefault(trace.header.prompt, []).append((trace, mine["tokens_per_second"]))
    for runs in by_prompt.values():
        for (trace, rate), (other, its) in permutations(runs, 2):
            if speed := of_pair(trace, other).get("speed"):
                assert speed == pytest.approx(rate / its)
                compared += 1
    assert verified > 5 and compared > 5


def test_times_of_two_places_and_of_runs_without_times_are_no_ratio():
    one, other, elsewhere, slow = masked(24, 4), masked(24, 4), masked(24, 4), masked(24, 4)
    for trace in (one, other, elsewhere, slow):
        trace.header.prompt = "the same"
    elsewhere.header.machine = "Another machine"
    slow.header.missing = ["model_seconds"]
    assert of_pair(one, other)["speed"] == 1
    assert all("speed" not in of_pair(*pair) for pair in ((one, elsewhere), (one, slow), (slow, one)))


def test_a_trace_with_its_figures_is_the_trace():
    trace = masked(24, 4)
    told = json.loads(shown(trace, [drafting()]))
    assert told.pop("figures")["key"] == key(trace)
    assert told == json.loads(trace.to_json())


GOLDEN = json.loads((Path(__file__).parent / "commits.json").read_text("utf-8"))


@pytest.mark.parametrize("case", GOLDEN, ids=lambda case: case["about"])
def test_commits_leave_the_boards_of_the_golden_file(case):
    """The player's run is held against the same file (tests/player/run.test.mjs)."""
    body = msgspec.to_builtins(looked([({}, []) for _ in case["steps"]], canvas=None))
    body["header"] |= {name: case[name] for name in ("prompt_ids", "canvas", "mask_id")}
    for step, commits in zip(body["steps"], case["steps"], strict=True):
        step["commits"] = commits
    trace = Trace.from_json(json.dumps(body))
    assert [list(now) for now in history.boards(trace)] == case["boards"]
    counts = filled(of_run(trace)["counts"], COUNTS, len(trace.steps))
    assert counts["tokens"][:-1] == case["tokens"][:-1]
