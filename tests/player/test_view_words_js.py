"""What views make of a run before they draw it: words in their places, lines as they were."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from engines import Trace
from explorer.figures.samples import all_tokens
from explorer.runs.gallery import gallery

Call = Callable[..., Any]


def rounds(*written: dict[int, int]) -> list[dict[str, Any]]:
    return [
        {"index": i, "words": [{"at": at, "token": token} for at, token in sorted(words.items())], "refused": []}
        for i, words in enumerate(written)
    ]


def told(found: list[dict[str, Any]]) -> list[tuple[int, list[tuple[int, int | None]]]]:
    return [(one["index"], [(word["at"], word["token"]) for word in one["words"]]) for one in found]


def test_a_caption_that_grows_stays_in_its_rounds(js: Call) -> None:
    made = rounds({4: 1, 5: 2}, {6: 3})
    assert js("rounds.js", "M.inOrder(rounds)", rounds=made) == made


def test_a_caption_that_is_filled_stands_in_its_places_with_gaps(js: Call) -> None:
    """A board with masks: later rounds write before earlier ones, and between them."""
    found = js("rounds.js", "M.inOrder(rounds)", rounds=rounds({9: 5}, {4: 1, 5: 2}, {6: 3, 8: 4}))
    assert told(found) == [
        (1, [(4, 1), (5, 2)]),
        (2, [(6, 3)]),
        (-1, [(7, None)]),
        (2, [(8, 4)]),
        (0, [(9, 5)]),
    ]


def test_a_threshold_is_level_over_its_step_and_stairs_stay_stairs(js: Call) -> None:
    """Prophet's threshold falls in steps: a slope would show thresholds that were never held."""
    choices = [{"threshold": 3}, {"threshold": 3}, {"threshold": 2}, None, {"threshold": 1}]
    path = js("views/ribbon.js", "M.stairs(choices, (v) => 10 * v)", choices=choices)
    assert path == "M0,30H1V30H2V20H3M4,10H5"


def said(js: Call, view: str, name: str, trace: Trace, steps: list[int]) -> list[str]:
    """What a view tells of steps of a run, without a document."""
    code = (
        f"(() => {{ const v = new M.{name}(); v.run = modules['store.js'].Run.from(text); "
        "return steps.map((t) => v.describe(t)); })()"
    )
    return list(js(view, code, text=trace.to_json(), steps=steps))


def test_a_round_that_the_limit_cut_tells_of_no_bonus_token(js: Call) -> None:
    """The last round of this run keeps three drafts, which fill the answer: the target's own token is not written."""
    trace = gallery().get("12-recycling-chat")
    last = len(trace.steps)
    assert trace.steps[-1].commits and trace.steps[-1].commits.causes == ["accepted"] * 3
    cut, before = said(js, "views/tree.js", "DraftTree", trace, [last, last - 2])
    assert cut.startswith("16 drafted, 3 accepted; the maximum length left no room after them.")
    assert "then the target's" in before


def test_paths_count_tokens_as_the_run_does(js: Call) -> None:
    """An end mark is not a token: the winner has as many as the head of the player says, and so have all together."""
    trace = gallery().get("52-ffs-race")
    (end,) = said(js, "views/paths.js", "Lines", trace, [len(trace.steps)])
    assert end == (
        f"★ path 5 with {trace.totals.tokens} tokens; still running: 0; written by all: {all_tokens(trace)} tokens."
    )
