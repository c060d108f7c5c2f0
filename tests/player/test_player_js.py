"""The player's pure functions against what Python finds (player.test.mjs has those that need no Python), and the rules
that its files keep."""

from __future__ import annotations

import itertools
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import engines
from engines.core.trace import GROUPS, SCHEMA_VERSION, Candidates, Commits, pack, pack_exact
from explorer import ASSETS
from explorer.export.bundle import ENTRIES, _bundle, bundle, closure, module, view_script, views, views_of
from explorer.export.html import export_html
from explorer.figures.hindsight import hindsight
from explorer.runs.gallery import gallery
from tests.explorer.figures.lookback import NOISY, invented, moving, noisy
from tests.player.handmade import HOSTILE, drafting, everything_else, masked, recorded

PLAYER = ASSETS / "player"
THEME = json.loads((ASSETS / "theme.json").read_text("utf-8"))
MODES = ("light", "dark")
CORE, VIEW = 100_000, 10_000  # bytes, as they stand and are served
Call = Callable[..., Any]


def test_views_know_how_many_colours_stand_side_by_side(js: Call) -> None:
    assert {len(THEME["options"][mode]) for mode in MODES} == {js("theme.js", "M.OPTIONS")}


# codec


@pytest.mark.parametrize(
    ("make", "values"),
    [
        (pack, np.array([[0, 1], [2, 65535]])),
        (pack, np.array([-1, 70000, 3])),
        (pack, np.linspace(-2, 3, 7, dtype=np.float32)),
        (pack, np.array([0.5, np.nan, 1.0], np.float32)),
        (pack_exact, np.array([1.5, -2.25], np.float32)),
    ],
)
def test_a_packed_array_is_read_as_python_reads_it(js: Call, make: Call, values: np.ndarray) -> None:
    packed = make(values)
    got = js(
        "codec.js",
        "[...M.unpack(p).values].map((v) => Number.isNaN(v) ? null : v)",
        p={f: getattr(packed, f) for f in packed.__struct_fields__},
    )
    np.testing.assert_allclose(np.array(got, float), packed.array().ravel().astype(float), rtol=1e-6)


# store


def read(js: Call, trace: Any, expression: str, **more: Any) -> Any:
    return js(
        "store.js", f"(() => {{ const run = M.Run.from(text); return {expression}; }})()", text=trace.to_json(), **more
    )


@pytest.mark.parametrize("make", [masked, drafting, everything_else])
def test_sums_and_board_agree_with_the_trace(js: Call, make: Call) -> None:
    trace = make()
    all_ = "n = run.length, tokens = run.tokens(n), ids = run.board(n).map((c) => c.token)"
    got = js(
        "store.js",
        f"(() => {{ const run = M.Run.from(text), {all_}; run.end = null; return {{ sums: run.sums[n], tokens, live: "
        "run.tokens(n), ids }; })()",
        text=trace.to_json(),
    )
    totals = trace.totals
    assert got["tokens"] == got["live"] == totals.tokens
    sums, target = got["sums"], trace.header.models[0].role
    assert sums["forwards"] + sums["others"] == totals.forwards
    assert sums["forwards"] == totals.forwards_by_role[target]
    assert (sums["roles"], sums["layers"], sums["work"], sums["fed"]) == (
        totals.forwards_by_role,
        totals.work_by_role,
        sum(totals.work_by_role.values()),
        totals.tokens_fed,
    )
    assert got["sums"]["model"] == pytest.approx(totals.model_seconds) and got["sums"]["method"] == pytest.approx(
        totals.method_seconds
    )
    assert got["ids"] == [*trace.header.prompt_ids, *trace.output_ids]


def test_any_step_can_be_shown_in_any_order(js: Call) -> None:
    for trace in (masked(), drafting()):
        boards = read(js, trace, "Array.from({ length: run.length + 1 }, (_, t) => JSON.stringify(run.board(t)))")
        backwards = read(
            js,
            trace,
            "Array.from({ length: run.length + 1 }, (_, t) => JSON.stringify(run.board(run.length - t))).reverse()",
        )
        assert boards == backwards and len(set(boards)) == len(boards)


def test_a_withdrawn_position_takes_everything_behind_it_away(js: Call) -> None:
    before, after = read(js, drafting(), "[run.board(4), run.board(5)]")
    assert len(before) > len(after) and after[-1]["state"] == "forced"


def test_states_of_a_masked_board(js: Call) -> None:
    trace = masked(20, 4)
    place = trace.steps[0].commits.positions[0]
    trace.steps[2].commits = Commits([place], [0], ["remasked"])
    states = read(js, trace, f"[0, 1, 2, 3, 4].map((t) => run.board(t)[{place}].state)")
    assert states == ["masked", "new", "old", "remasked", "masked"]
    assert read(js, trace, "run.board(4)[0].state") == "prompt"


def test_a_token_drawn_at_random_is_not_written_yet(js: Call) -> None:
    """As in Python; noise stays noise until something is written there, and what was drawn can be shown."""
    trace = noisy()
    got = read(js, trace, "[0, 1, 2, 3, 4].map((t) => ({ board: run.board(t).slice(2), tokens: run.tokens(t) }))")
    assert [one["tokens"] for one in got] == NOISY["tokens"]
    assert [[cell["token"] for cell in one["board"]] for one in got] == NOISY["boards"]
    assert [[cell["state"] for cell in one["board"]] for one in got] == NOISY["states"]
    assert [cell["entry"]["drawn"] for cell in got[3]["board"]] == [4, 5, 6]
    assert {"noise", "renoised", "accepted", "settled"} <= set(read(js, trace, "[...run.states]"))
    assert "remasked" not in read(js, trace, "[...run.states]")


def test_strange_names_are_only_names(js: Call) -> None:
    trace = masked(20, 2)
    trace.steps[0].commits.causes = ["constructor", *trace.steps[0].commits.causes[1:]]
    assert read(js, trace, "run.board(1).map((c) => c.state)").count("new") == len(trace.steps[0].commits.causes)


def test_candidates_are_found_by_position(js: Call) -> None:
    trace = masked(20, 4)
    group: Candidates = trace.steps[1].candidates
    got = read(js, trace, "[run.candidates(1, at), run.candidates(1, 0), run.candidates(9, at)]", at=group.positions[2])
    assert [c["token"] for c in got[0]] == group.tokens.array()[2].tolist() and got[1:] == [None, None]


def test_the_text_stops_at_the_first_end_mark(js: Call) -> None:
    trace = masked()
    parts, early = js(
        "reading.js",
        "(() => { const run = modules['store.js'].Run.from(text); "
        "return [run.length, 3].map((t) => M.reading(run, t)); })()",
        text=trace.to_json(),
    )
    assert "".join(p["text"] for p in parts if p["kind"] in ("old", "new")) == trace.text and parts[-1]["kind"] == "end"
    assert {p["kind"] for p in early} == {"old", "new", "hole"}


def test_a_trace_of_another_version_is_refused_by_the_player(js: Call) -> None:
    """What reads a file brings it to the newest form: there is one upgrade, in Python."""
    old = json.loads(everything_else(3).to_json())
    old["header"]["schema"] = 2
    body = "(() => { try { return M.Run.from(text).length; } catch (error) { return error.message; } })()"
    said = js("store.js", body, text=json.dumps(old))
    assert said == f"This trace has schema version 2; this player reads version {SCHEMA_VERSION}."


def test_a_record_is_found_by_its_name_as_a_group_is(js: Call) -> None:
    trace = json.loads(everything_else(3).to_json())
    trace["steps"][1]["records"]["hops"] = {"floor": 2}
    body = """(() => { const run = modules['store.js'].Run.from(text);
      return [[...run.records].sort(), run.has('hops'), run.steps[1].hops, run.steps[0].hops ?? null,
        M.wantedBy(run).filter(({ record }) => record).map(({ file, title }) => [file, title])]; })()"""
    names, has, hops, none, tables = js("loader.js", body, text=json.dumps(trace))
    assert names == sorted([*everything_else(3).steps[0].records, "hops"])
    assert has and hops == {"floor": 2} and none is None
    assert tables == [["record", "hops"]], "those that have views have no table"


# hindsight: Python counts for the tables and the command line, the player for what it draws


@pytest.mark.parametrize(
    "traces",
    [lambda: [*map(invented, range(120))], lambda: [*map(moving, range(60))], recorded, lambda: [masked(), drafting()]],
    ids=["invented", "moving", "recorded", "made"],
)
def test_the_look_back_is_the_same_in_python_and_in_the_player(js: Call, traces: Call) -> None:
    shown = 0
    for trace in traces():
        here = hindsight(trace)
        there = js("hindsight.js", "M.hindsight(modules['store.js'].Run.from(text))", text=trace.to_json())
        assert there["positions"] == [
            {name: getattr(one, name) for name in one.__struct_fields__} for one in here.positions
        ]
        assert (there["never"], there["forwards"], there["enough"]) == (
            here.never_committed,
            here.forwards,
            here.enough,
        )
        assert (there["mean"], there["max"]) == (pytest.approx(here.mean_delay), here.max_delay)
        assert (there["replaced"], there["restored"]) == (here.replaced, here.restored)
        shown += here.enough is not None
    assert shown


def test_scores_are_found_where_the_model_saw_a_place(js: Call) -> None:
    """`found` takes a position of the board that a step leaves back to the board that it found; `moved` goes there."""
    body = """(() => { const run = modules['store.js'].Run.from(text);
      return run.steps.map((_, t) => Array.from({ length: run.widths[t + 1] }, (_, p) => run.found(t, p))); })()"""
    for trace in map(moving, range(30)):
        for step, back in zip(trace.steps, js("store.js", body, text=trace.to_json()), strict=True):
            for position, before in enumerate(back):
                if before < 0:
                    assert position in step.commits.inserted
                else:
                    assert step.commits.moved(before) == position


# theme


def luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(a: str, b: str) -> float:
    high, low = sorted((luminance(a), luminance(b)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("mode", MODES)
def test_all_text_can_be_read(mode: str, js: Call) -> None:
    surface = THEME["surface"][mode]
    pairs = {f"state {name}": (look[mode]["text"], look[mode]["fill"]) for name, look in THEME["states"].items()}
    pairs |= {f"option {i}": (o["text"], o["fill"]) for i, o in enumerate(THEME["options"][mode])}
    pairs |= {
        f"{ink} on {ground}": (surface[ink], surface[ground])
        for ink in ("text", "muted")
        for ground in ("page", "panel", "raised")
    }
    pairs["accent"] = (surface["on-accent"], surface["accent"])
    low = {name: round(contrast(*pair), 2) for name, pair in pairs.items() if contrast(*pair) < 4.5}
    assert low == {}
    for level in js("theme.js", "M.ramp(theme, mode)", theme=THEME, mode=mode):
        fill = "#" + "".join(f"{c:02x}" for c in level["rgb"])
        assert contrast({"#000": "#000000", "#fff": "#ffffff"}[level["text"]], fill) >= 4.5
    assert {
        kind: round(contrast(c, surface["panel"]), 1)
        for kind, c in THEME["spans"][mode].items()
        if contrast(c, surface["panel"]) < 3
    } == {}


# Machado 2009, severity 1, on linear light
DEFICIENCIES = {
    "protan": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deutan": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("eye", DEFICIENCIES)
def test_states_differ_for_colour_blind_eyes_and_by_shape(mode: str, eye: str) -> None:
    def seen(colour: str) -> np.ndarray:
        parts = np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])
        linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
        return np.clip(np.array(DEFICIENCIES[eye]) @ linear, 0, 1) ** (1 / 2.2)

    main = ["new", "old", "accepted", "rejected", "masked", "bonus"]
    fills = {name: seen(THEME["states"][name][mode]["fill"]) for name in main}
    near = {(a, b) for a, b in itertools.combinations(main, 2) if np.linalg.norm(fills[a] - fills[b]) < 0.12}
    assert near <= {("old", "masked"), ("new", "bonus")}  # those two pairs are told apart by border and glyph
    assert len({look["glyph"] for look in THEME["states"].values()}) == len(THEME["states"])
    assert len({tuple(look[mode].values()) for look in THEME["states"].values()}) == len(THEME["states"])


# files


def test_colours_stand_in_the_theme_alone() -> None:
    for path in sorted(PLAYER.rglob("*.*")):
        found = set(re.findall(r"#[0-9a-fA-F]{3,8}\b", path.read_text("utf-8"))) - {"#000", "#fff"}
        assert not found, f"{path.name}: {found}"


LATER = {"more.css", "pictures.css"}  # styles


def test_a_share_beside_a_threshold_is_on_its_own_side(js: Call) -> None:
    for share, limit, text in [
        (0.954, 0.96, "95 %"),
        (0.8961, 0.9, "89.6 %"),
        (0.8996, 0.9, "89.96 %"),
        (0.899999, 0.9, "90.000 %"),
        (0.9, 0.9, "90 %"),
        (0.912, 0.9, "91 %"),
        (0.0, 0.5, "0 %"),
    ]:
        assert js("shares.js", "M.against(share, limit)", share=share, limit=limit) == text


def test_the_core_and_each_view_stay_small() -> None:
    """What every page loads, styles included; and each module that is loaded when a run needs it."""
    core = {*closure(("gradio.js", *ENTRIES)), "player.css"}
    for later in LATER:
        assert (PLAYER / later).stat().st_size <= 2 * VIEW, "the styles of all that is loaded when a run needs it"
    sizes = {path.relative_to(PLAYER).as_posix(): path.stat().st_size for path in PLAYER.rglob("*.*")}
    whole = sum(sizes[name] for name in core)
    print(f"the core has {whole:,} bytes in {len(core)} files")
    assert whole <= CORE
    others = {name: size for name, size in sizes.items() if name not in core | LATER}
    print("the largest of the others:", sorted(others.items(), key=lambda one: -one[1])[:4])
    assert {name: size for name, size in others.items() if size > VIEW} == {}


def test_the_core_holds_no_view_and_no_module_that_only_views_use() -> None:
    core = closure(("gradio.js", *ENTRIES))
    assert not [name for name in core if name.startswith("views/")]
    assert not {"layout.js", "race.js", "receipt.js", "definitions.js", "hindsight.js", "predict.js"} & set(core)


def test_the_list_of_views_is_made_from_their_files() -> None:
    assert (PLAYER / "views.js").read_text("utf-8") == module(), "run: python -m explorer.export.bundle"
    for view in views():
        assert f"export class {view.name} " in (PLAYER / "views" / f"{view.file}.js").read_text("utf-8"), view.file
    places = [view.place for view in views() if view.place != "toolbar"]  # those stand in the order of their files
    assert len(set(places)) == len(places)


def test_a_view_needs_what_a_trace_can_have() -> None:
    """Groups that every method may fill, and records that one declares."""
    records = {name for info in engines.list_methods() for name in info.records}
    known = GROUPS | records | {"masked", "growing", "end"}
    needed = {one.split(".")[0] for view in views() for need in view.needs for one in need.split("+")}
    assert needed <= known and records <= needed, "each record that ships has a view"


@pytest.mark.parametrize("make", [masked, drafting, everything_else])
def test_the_player_and_the_exporter_ask_for_the_same_views(js: Call, make: Call) -> None:
    whole = make().to_json()
    cut = json.loads(whole)
    for text in (whole, json.dumps(cut | {"end": None}), json.dumps(cut | {"steps": [], "end": None})):
        asked = "[...M.IN_PANEL, ...M.IN_TOOLBAR].filter((one) => M.wanted(one, run)).map(({ file }) => file)"
        body = f"(() => {{ const run = modules['store.js'].Run.from(text); return {asked}; }})()"
        carried = set(views_of([text])) - {"record"}  # which stands in for a view that fails
        assert set(js("loader.js", body, text=text)) == carried


def test_a_view_of_one_file_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A new view is a file of its own: the list, the exports and their scripts have it."""
    shutil.copytree(PLAYER, tmp_path / "player")
    declared = 'export const view = { name: "New", title: "A: new one", place: 65, needs: ["intervals+end"] };'
    (tmp_path / "player" / "views" / "new.js").write_text(
        f'import {{ el }} from "../dom.js";\n\n{declared}\n\nexport class New {{}}\n', "utf-8"
    )
    monkeypatch.setattr("explorer.export.bundle.PLAYER", tmp_path / "player")
    views.cache_clear()
    try:
        line = 'view("new", "New", "A: new one", 65, "intervals+end")'
        assert line in module()
        assert "new" in views_of([everything_else().to_json()]) and "new" not in views_of([masked(24, 4).to_json()])
        assert 'modules["views/new.js"] ??=' in view_script("new")
        (tmp_path / "player" / "views" / "new.js").write_text("export const view = { name: New };\n", "utf-8")
        views.cache_clear()
        with pytest.raises(ValueError, match=r"new\.js declares its view in a form that cannot be read"):
            views()
    finally:
        views.cache_clear()


def test_the_player_uses_no_markup_from_data_and_no_network() -> None:
    for path in sorted(PLAYER.rglob("*.js")):
        text = path.read_text("utf-8")
        for word in (
            "innerHTML",
            "outerHTML",
            "insertAdjacentHTML",
            "document.write",
            "eval(",
            "new Function",
            "fetch(",
            "http:",
            "https:",
            "Math.random",
        ):
            assert word not in text.replace("http://www.w3.org/2000/svg", ""), f"{path.name} uses {word}"


def test_the_bundle_is_the_same_each_time_and_refuses_what_it_cannot_carry(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = bundle()
    _bundle.cache_clear()
    assert first == bundle()
    for line in ('import x from "./y.js";', "export default 1;", "const a = import.meta.url;", 'import("./z.js");'):
        (tmp_path / "player.js").write_text(line + "\n", "utf-8")
        (tmp_path / "toolbar.js").write_text("", "utf-8")
        monkeypatch.setattr("explorer.export.bundle.PLAYER", tmp_path)
        _bundle.cache_clear()
        with pytest.raises(ValueError, match=r"player\.js"):
            bundle(())
    _bundle.cache_clear()


def test_an_export_carries_the_views_of_its_runs_and_no_other() -> None:
    page = export_html(masked(24, 4))
    carried = {view.file for view in views() if f'modules["views/{view.file}.js"] =' in page}
    assert {"tokens", "counters", "text", "race", "overview", "hindsight"} <= carried
    assert not {"tree", "gantt", "branches", "routing", "media", "memory"} & carried and "views/fork.js" not in page
    both = export_html([masked(24, 4), drafting()])
    assert 'modules["views/tree.js"] =' in both and len(page) < len(both)


def test_an_export_holds_no_live_markup_from_data() -> None:
    page = export_html(masked(24, 4), title=HOSTILE[0])
    assert page.count("<script") == page.count("</script>") == 4 and "<title>&lt;/script&gt;" in page
    with pytest.raises(ValueError, match="at least one"):
        export_html([])


def test_every_recorded_run_is_shown_with_the_idea_of_its_method(js: Callable[..., Any]) -> None:
    known = {info.slug: info.signature for info in engines.list_methods()}
    found = {}
    for card in gallery().cards:
        trace = gallery().get(card.id)
        idea = js("shown.js", "M.ideaOf(modules['store.js'].Run.from(text))?.file", text=trace.to_json())
        if idea != known[trace.header.method]:
            found[card.id] = idea
    assert found == {}
