"""The player's pure functions against what Python finds (player.test.mjs has those that need no Python), and the rules
that its files keep."""

import itertools
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

import engines
from engines.core.trace import GROUPS, pack, pack_exact
from explorer import ASSETS
from explorer.export.bundle import PLAYER, View, _shipped, given, module_of, view_script, views, views_of
from explorer.export.html import export_html
from explorer.export.modules import Module, closure
from explorer.figures.handed import shown
from explorer.runs.gallery import gallery
from tests.explorer.figures.lookback import NOISY, noisy
from tests.player.handmade import HOSTILE, drafting, everything_else, masked, recorded

CLIENT = ASSETS / "client"
THEME = json.loads((ASSETS / "theme.json").read_text("utf-8"))
MODES = ("light", "dark")
CORE, VIEW = 100_000, 10_200  # bytes, as they stand and are served
Call = Callable[..., Any]


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
    code = "[...M.unpack(p).values].map((v) => Number.isNaN(v) ? null : v)"
    got = js("codec.js", code, p={f: getattr(packed, f) for f in packed.__struct_fields__})
    np.testing.assert_allclose(np.array(got, float), packed.array().ravel().astype(float), rtol=1e-6)


def read(js: Call, trace: Any, expression: str, **more: Any) -> Any:
    return js(
        "run.js", f"(() => {{ const run = M.Run.from(text); return {expression}; }})()", text=shown(trace), **more
    )


@pytest.mark.parametrize("make", [masked, drafting, everything_else])
def test_sums_and_board_agree_with_the_trace(js: Call, make: Call) -> None:
    trace = make()
    told = "(n) => { run.end = null; return [run.sums[n], run.tokens(n), run.board(n)]; }"
    sums, tokens, board = read(js, trace, f"({told})(run.length)")
    totals, target = trace.totals, trace.header.models[0].role
    assert tokens == totals.tokens
    assert sums["forwards"] + sums["others"] == totals.forwards
    assert sums["forwards"] == totals.forwards_by_role[target]
    assert (sums["roles"], sums["layers"]) == (totals.forwards_by_role, totals.work_by_role)
    assert (sums["work"], sums["fed"]) == (sum(totals.work_by_role.values()), totals.tokens_fed)
    assert [sums["model"], sums["method"]] == pytest.approx([totals.model_seconds, totals.method_seconds])
    assert [cell["token"] for cell in board] == [*trace.header.prompt_ids, *trace.output_ids]


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


def test_files_of_the_player_keep_their_rules() -> None:
    """Colours stand in the theme alone; no markup comes from data, and nothing from the network."""
    markup = ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function")
    for path in sorted(path for part in ("player", "views") for path in (CLIENT / part).iterdir()):
        text = path.read_text("utf-8")
        found = set(re.findall(r"#[0-9a-fA-F]{3,8}\b", text)) - {"#000", "#fff"}
        assert not found, f"{path.name}: {found}"
        if path.suffix == ".js":
            for word in (*markup, "fetch(", "http:", "https:", "Math.random"):
                assert word not in text.replace("http://www.w3.org/2000/svg", ""), f"{path.name} uses {word}"


# Pictures of what several methods record, which one of them names as its idea.
SEVERAL = {"arena", "branches", "copying", "experts", "next", "overview", "seen", "tape", "vote"}


def test_a_picture_of_one_methods_idea_stands_in_its_runs_alone() -> None:
    """It asks for a record or for things of a kind, not for groups that another method happens to fill."""
    ideas: dict[str, set[str]] = {}
    for info in engines.list_methods():
        ideas.setdefault(info.signature, set()).add(info.slug)
    shown_in: dict[str, set[str]] = {}
    for trace in recorded():
        for file in views_of([trace.to_json()]):
            shown_in.setdefault(file, set()).add(trace.header.method)
    own = {file for file, methods in ideas.items() if len(methods) == 1}
    assert {file for file in own if shown_in.get(file, set()) - ideas[file]} == SEVERAL


def test_no_field_of_a_view_has_the_name_of_what_the_player_calls() -> None:
    """`tell` calls the methods that a view has, and a field of such a name would be called."""
    player = "".join(path.read_text("utf-8") for path in (CLIENT / "player").glob("*.js"))
    called = {*re.findall(r'\btell\("(\w+)"', player)}
    assert called >= {"show", "fold", "stop"}
    fields = {
        (path.name, field)
        for path in [*(CLIENT / "views").glob("*.js"), CLIENT / "player" / "drawing.js"]
        for field in re.findall(r"^  (\w+) =|\bthis\.(\w+) = ", path.read_text("utf-8"), re.M)
    }
    assert not {(file, name) for file, names in fields for name in names if name in called}


def test_the_core_and_each_view_stay_small() -> None:
    """What every page loads, styles included; and each module that is loaded when a run needs it."""
    core = {module.name for module in closure(("player/gradio.js", *PLAYER), module_of)} | {"player/player.css"}
    only_views = {f"player/{name}.js" for name in ("layout", "receipt")}
    assert not [name for name in core if name.startswith("views/") or name in only_views]
    paths = [path for part in ("player", "views") for path in (CLIENT / part).iterdir()]
    sizes = {path.relative_to(CLIENT).as_posix(): path.stat().st_size for path in paths}
    assert sum(sizes[name] for name in core) <= CORE
    later = {name: size for name, size in sizes.items() if name not in core}
    assert {name for name, size in later.items() if size > (2 * VIEW if name.endswith(".css") else VIEW)} == set()


def selectors_of(sheet: str) -> list[list[str]]:
    """Of each rule."""
    bare = re.sub(r"/\*.*?\*/", "", sheet, flags=re.S)
    return [re.split(r",\s*\n\s*", rule.strip()) for rule in re.findall(r"([^{}@]+)\{[^{}]*\}", bare)]


def test_the_style_of_a_view_is_its_own_files() -> None:
    """A sheet of `views` stands beside a module, and each of its selectors names something that no other module of
    `views` does. What several have stands in `player`, whose rules come first: none there is of one view alone."""
    modules = {path.stem: path.read_text("utf-8") for path in (CLIENT / "views").glob("*.js")}
    sheets = {path.stem: path.read_text("utf-8") for path in (CLIENT / "views").glob("*.css")}
    assert sheets and sheets.keys() <= modules.keys()
    used = {name: {*re.findall(r"[\w-]+", text)} for name, text in modules.items()}
    wrong = []
    for name, sheet in sheets.items():
        others = set().union(*(words for other, words in used.items() if other != name))
        for selector in itertools.chain(*selectors_of(sheet)):
            named = {*re.findall(r"dx-[\w-]+|data-[\w-]+|(?<==\")\w+", selector)}
            wrong += [(name, selector)] if named <= others else []
    assert wrong == []
    everywhere = [{*re.findall(r"[\w-]+", path.read_text("utf-8"))} for path in CLIENT.rglob("*.js")]
    for path in (CLIENT / "player").glob("*.css"):
        for selectors in selectors_of(path.read_text("utf-8")):
            classes = [re.findall(r"dx-[\w-]+", selector) for selector in selectors if ":is(" not in selector]
            alone = [{one for one in some if sum(one in words for words in everywhere) == 1} for some in classes]
            owners = [{name for name, words in used.items() if words & some} for some in alone]
            wrong += [(path.name, selectors)] if owners and set.intersection(*owners) else []
    assert wrong == []


def test_the_list_of_views_is_made_from_their_files(js: Callable[..., Any]) -> None:
    assert msgspec.convert(js("loader.js", "[...M.IN_PANEL, ...M.IN_TOOLBAR]"), tuple[View, ...]) == views()
    for view in views():
        assert f"export class {view.name} " in (CLIENT / "views" / f"{view.file}.js").read_text("utf-8"), view.file
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
        body = f"(() => {{ const run = dxModules.use('player/run.js').Run.from(text); return {asked}; }})()"
        carried = set(views_of([text])) - {"record"}  # which stands in for a view that fails
        assert set(js("loader.js", body, text=text)) == carried


def test_a_view_of_one_file_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A new view is a file of its own: the list, the exports and their scripts have it."""
    shutil.copytree(CLIENT, tmp_path / "client")
    declared = 'export const view = { title: "A: new one", place: 65, needs: ["intervals+end"] };'
    (tmp_path / "client" / "views" / "new.js").write_text(
        f'import {{ el }} from "../player/dom.js";\n\n{declared}\n\nexport class New {{}}\n', "utf-8"
    )
    monkeypatch.setattr("explorer.export.bundle.CLIENT", tmp_path / "client")
    views.cache_clear()
    try:
        assert '["new","New","A: new one",65,["intervals+end"]]' in given()
        assert "new" in views_of([everything_else().to_json()]) and "new" not in views_of([masked(24, 4).to_json()])
        assert 'define("views/new.js"' in view_script("new")
        (tmp_path / "client" / "views" / "new.js").write_text("export const view = { name: New };\n", "utf-8")
        views.cache_clear()
        _shipped.cache_clear()
        with pytest.raises(ValueError, match=r"new\.js declares its view in a form that cannot be read"):
            views()
    finally:
        views.cache_clear()


REFUSED = (
    'import x from "./y.js";', 'import { x } from "y";', 'import "./y.js";', "export default 1;", "export { a };",
    "export const { a } = b;", "const a = import.meta.url;", "// </script>",
)  # fmt: skip


@pytest.mark.parametrize("line", REFUSED)
def test_what_a_classic_script_cannot_hold_is_refused(line: str) -> None:
    with pytest.raises(ValueError, match=r"player/a\.js (uses a form|holds text)"):
        Module("player/a.js", line + "\n")


def test_a_module_becomes_a_function() -> None:
    text = """import { a as b, c } from "./x.js";
import * as y from "../page/y.js";
export const one = 1, two = "export const no = 2;";
/** Said. */
export async function later(n) { return import(`../views/${n}.js`); }
export class Kind {}
"""
    made = Module("player/a.js", text)
    assert made.imports == ["player/x.js", "page/y.js"]
    assert (
        made.function
        == """dxModules.define("player/a.js", ($use, $load) => {
const { a: b, c } = $use("player/x.js");
const y = $use("page/y.js");
const one = 1, two = "export const no = 2;";
/** Said. */
async function later(n) { return $load(`../views/${n}.js`); }
class Kind {}
return { one, two, later, Kind };
});
"""
    )
    assert made.constant("one") == 1 and made.constant("three") is None


def test_modules_that_import_each_other_are_refused() -> None:
    texts = {"a/a.js": 'import { b } from "./b.js";', "a/b.js": 'import { a } from "./a.js";'}
    with pytest.raises(ValueError, match=r"a/a\.js -> a/b\.js -> a/a\.js"):
        closure(["a/a.js"], lambda name: Module(name, texts[name]))


def test_an_export_carries_the_views_of_its_runs_and_no_other() -> None:
    page = export_html(masked(24, 4))
    carried = {view.file for view in views() if f'define("views/{view.file}.js"' in page}
    assert {"tokens", "counters", "text", "race", "overview", "hindsight"} <= carried
    assert not {"tree", "gantt", "branches", "routing", "media", "memory"} & carried
    assert 'define("views/tree.js"' in export_html([masked(24, 4), drafting()])


def test_an_export_holds_no_live_markup_from_data() -> None:
    page = export_html(masked(24, 4), title=HOSTILE[0])
    assert page.count("<script") == page.count("</script>") == 4 and "<title>&lt;/script&gt;" in page


def test_every_recorded_run_is_shown_with_the_idea_of_its_method(js: Callable[..., Any]) -> None:
    known = {info.slug: info.signature for info in engines.list_methods()}
    found = {}
    for card in gallery().cards:
        trace = gallery().get(card.id)
        idea = js(
            "panelviews.js", "M.ideaOf(dxModules.use('player/run.js').Run.from(text))?.file", text=trace.to_json()
        )
        if idea != known[trace.header.method]:
            found[card.id] = idea
    assert found == {}
