"""One page that shows run after run, what is asked of its pictures, and the runs that all pictures are held against."""

import json
import time
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from msgspec import structs
from playwright.sync_api import expect

import engines
from engines.core.trace import Step, Trace
from explorer.export.bundle import view_script, views_of
from explorer.export.html import export_html
from explorer.figures.handed import shown
from tests.page.tabs import Tab
from tests.player.handmade import masked

ODD = ["\u202eright to left", "\u05e9\u05dc\u05d5\u05dd", "w" * 80, "\U0001f468\u200d\U0001f469\u200d\U0001f467", "\n"]
OUTSIDE = """(svg) => { const box = svg.getBoundingClientRect();
  const out = ({ left, right }) => left < box.left - 2 || right > box.right + 2;
  return [...svg.querySelectorAll("text")].filter((one) => one.textContent && [...one.getClientRects()].some(out))
    .map((one) => one.textContent); }"""  # words outside
SEEN = "(one) => one.getClientRects().length > 0"  # a group of a drawing that is not shown passes checkVisibility
# What moves is put where it ends: a step is drawn at once, all but its movement.
SEEK = """(t) => { handles[0].seek(t); for (const one of document.getAnimations()) one.cancel(); }"""
HOLDS = f"""(name) => {{ const outside = {OUTSIDE}, seek = {SEEK}, wrong = [], said = [];
  let drawn = 0;
  for (let t = 0; t <= handles[0].debug().steps; t++) {{
    seek(t);
    const view = document.querySelector(`[data-view="${{name}}"]`);
    if (!view?.getClientRects().length) {{ wrong.push([t, "there is no such view"]); break; }}
    said.push(view.querySelector(".dx-readout")?.textContent ?? "");
    for (const svg of [...view.querySelectorAll("svg")].filter({SEEN})) {{
      wrong.push(...outside(svg).map((words) => [t, `outside: ${{words}}`]));
      if (t && svg.getBoundingClientRect().height > 1) drawn++;
    }}
    const odd = view.outerHTML.match(/.{{0,60}}\\b(NaN|undefined|Infinity|\\[object).{{0,20}}/);
    if (odd) wrong.push([t, odd[0]]);
    if (document.documentElement.scrollWidth > innerWidth) wrong.push([t, "wider than the window"]);
  }}
  return {{ wrong, said, drawn }}; }}"""
# A function for each step from the start on. Its second argument finds what is seen.
EACH = f"""([name]) => {{ const seek = {SEEK}, found = [], make = SCRIPT;
  const among = (view) => (all) => [...view.querySelectorAll(all)].filter({SEEN});
  for (let t = 0; t <= handles[0].debug().steps; t++) {{
    seek(t);
    const view = document.querySelector(`[data-view="${{name}}"]`);
    found.push(make(view, among(view)));
  }}
  return found; }}"""
# Whether this cell of the first board is seen.
INSIDE_THE_BOARD = """(at) => { const board = document.querySelector(".dx-board"), box = board.getBoundingClientRect(),
  cell = board.querySelectorAll(".dx-cell")[at].getBoundingClientRect();
  return box.top - 1 <= cell.top && cell.bottom <= box.bottom + 1; }"""
# Every view has been told the width that it has.
SIZED = """() => handles.every(({ views }) => views.all.every(({ view, dom, width }) =>
  !view.resize || !dom.clientWidth || dom.clientWidth === width))"""
Seen = dict[str, list[str]]


def until(page: Any, condition: str, arg: Any = None) -> None:
    """Waits until a function says yes, asked in every frame. Playwright's own wait evaluates text in the page once more
    where the first answer is no, which the policy of an exported page forbids."""
    page.evaluate(
        f"""(given) => new Promise((done, fail) => {{ const yes = {condition}, last = performance.now() + 20000;
          const look = () => {{ if (yes(given)) return done();
            if (performance.now() > last) return fail(new Error(`still not so: ${{yes}}`));
            requestAnimationFrame(look); }};
          look(); }})""",
        arg,
    )


def rests(locator: Any) -> None:
    """Waits until an element has stood still for twenty frames. Views that had not been seen get their heights when
    they come into sight, and what is hidden moves its neighbours: a click that was aimed before lands beside."""
    locator.evaluate(
        """(node) => new Promise((done) => { let still = 0, last = "";
        const look = () => { const { x, y, width } = node.getBoundingClientRect(), now = [x, y, width].join();
          still = now === last ? still + 1 : 0;
          last = now;
          still > 20 ? done() : requestAnimationFrame(look); };
        look(); })"""
    )


def becomes(read: Callable[[], Any], wanted: Any) -> None:
    """Reads until that is so, at most ten seconds."""
    last = time.monotonic() + 10
    while (found := read()) != wanted and time.monotonic() < last:
        time.sleep(0.05)
    assert found == wanted


class Panel(NamedTuple):
    """How wide a window is, and in which colours."""

    width: int = 1280
    dark: bool = False


WIDE = Panel()


class Picture:
    """A view of the run that the stage shows."""

    def __init__(self, page: Any, name: str) -> None:
        self.page, self.name, self.root = page, name, page.locator(f'[data-view="{name}"]')
        self.readout = self.root.locator(".dx-readout").first

    def seek(self, t: int) -> None:
        """Goes to that step, where everything is drawn and nothing moves any more."""
        self.page.evaluate(SEEK, t)

    def locator(self, selector: str, **more: Any) -> Any:
        return self.root.locator(selector, **more)

    def seen(self, selector: str) -> Any:
        """Those that are not hidden."""
        return self.root.locator(selector).locator("visible=true")

    def says(self, *parts: str) -> None:
        for part in parts:
            expect(self.readout).to_contain_text(part)

    def each(self, script: str) -> list[Any]:
        """What a function makes of the view at each step, from the start on; its second argument finds what is seen."""
        return self.page.evaluate(EACH.replace("SCRIPT", script), [self.name])

    def beside(self, trace: Trace, **selectors: str) -> Iterator[tuple[Step, Seen]]:
        """Each step of the run with the texts of all elements that are seen after it, by the names of the selectors;
        `said`: the sentences, `words`: those of the drawings."""
        sought = {"said": ".dx-readout", "words": "svg text", **selectors}
        script = f"""(view, all) => Object.fromEntries(Object.entries({json.dumps(sought)})
          .map(([key, one]) => [key, all(one).map((node) => node.textContent)]))"""
        return zip(trace.steps, self.each(script)[1:], strict=True)

    def after(self, t: int, script: str) -> Any:
        """The same after one step, of the view as it then stands."""
        self.seek(t)
        return self.now(script)

    def now(self, script: str) -> Any:
        """What a function makes of the view."""
        among = f"(all) => [...view.querySelectorAll(all)].filter({SEEN})"
        return self.root.evaluate(f"(view) => ({script})(view, {among})")

    def words(self, selector: str = "svg text") -> list[str]:
        """The texts of all elements that are seen."""
        return self.now(f"(view, all) => all({json.dumps(selector)}).map((one) => one.textContent)")


class Stage:
    """An exported page in which run after run is shown; the views that a run needs are carried there before it."""

    def __init__(self, tab: Tab, folder: Path) -> None:
        self.page, self.carried = tab.page, {*views_of([masked(16, 1).to_json()])}
        self.wrong: list[str] = []
        tab.on("console", lambda m: self.wrong.append(m.text) if m.type in ("error", "warning") else None)
        tab.on("pageerror", lambda error: self.wrong.append(str(error)))
        tab.on("request", lambda r: self.wrong.append(r.url) if not r.url.startswith("file:") else None)
        (folder / "stage.html").write_text(export_html(masked(16, 1)), "utf-8")
        tab.open((folder / "stage.html").as_uri())

    def panel(self, width: int = 1280, dark: bool = False) -> None:
        """Waits until every view stands in that width."""
        self.page.set_viewport_size({"width": width, "height": 900})
        self.page.emulate_media(color_scheme="dark" if dark else "light")
        until(self.page, SIZED)

    def show(self, trace: Trace, name: str, panel: Panel = WIDE, details: bool = False) -> Picture:
        """A view of a run as a new visitor finds it, at its start. details: they are opened before."""
        text = shown(trace)
        for file in views_of([text]):
            if file not in self.carried:
                self.page.evaluate(f"() => {{ {view_script(file)} }}")
                self.carried.add(file)
        load = "([text, open]) => { handles[0].unfold(open); handles[0].load(text); }"
        self.page.mouse.move(0, 0)
        self.panel(*panel)
        self.page.evaluate(load, [text, details])
        until(self.page, SIZED)
        return Picture(self.page, name)


class Drawn(NamedTuple):
    """A run that a view shows."""

    view: str
    slug: str
    model: str
    prompt: Any
    params: dict[str, Any]

    def decode(self, **more: Any) -> Trace:
        return engines.run(self.slug, self.model, self.prompt, params={**self.params, **more})


STORY, SUM, CODE = "story: Mia, boat", "add: 4827 + 3169", "python: class Boat(name: str, speed: int, crew: int)"
FORM = "0:size :|3:colour :|6:shape :|9:place :|13:;"
CANVAS = {"max_new_tokens": 32, "max_denoising_steps": 16}
SHUFFLE = "shuffle: Ada, Oscar, Joe, Uma"  # where many answers are right, and the model wavers
EDITED = {"max_new_tokens": 16, "threshold": 0.5, "editing_threshold": 0.9, "max_post_steps": 5}
WIDELY = {"threshold": 0.2, "editing_threshold": 0.9, "max_post_steps": 2}
MOVED = {"max_new_tokens": 16, "threshold": 0.7, "editing_threshold": 0.0, "max_post_steps": 1}
ORDERS = {"delete_token_id": 447, "split_token_id": 445}  # words of the prompt stand in for them
MOVES = Drawn("Edits", "llada22", "tiny-blockdlm", "copy: Leo, Dora, Hugo, Ben, Gina", MOVED | ORDERS)
ASK = "ask: Which cities? Mia lives in Rome. Ben has a kite."
SORT = "sort: Pia, Ida, Paul, Leo, Oscar, Emma, Finn, Bob"
ROBOT = "python: class Robot(size: int, owner: str)"
PASSAGE = (
    "read: Tina is 12 years old. Tina has a pink pencil. Uma is 11 years old. Uma has a yellow toy. Gina is 7 years "
    "old. Gina has a grey hat. Pia is 16 years old. Pia lives in Lima. Dan has a green letter. Dan lives in London. "
    "Olga has a blue drum. Olga lives in Rome. Amy is 9 years old. Amy has a red ball. Will lives in Athens. Will is "
    "15 years old. What does Uma have?"
)
GRAMMAR = "grammar: Yesterday Sam plays near the garden. Mia play in the house every day."
SLIPS = "remove any: Vera, Amy, Cara, Emma, Carl, Rita, Dora, Ben"


def short(n: int, /, **params: Any) -> dict[str, Any]:
    return {"max_new_tokens": n, **params}


_MAIN = [
    # drafts
    Drawn("Staircase", "specdec-pp", "tiny-ar-l", STORY, short(20)),
    Drawn("Reflected", "reflective-verification", "tiny-ar-l", STORY, short(20, alpha=0.6)),
    Drawn("ExitMap", "del", "tiny-ar-l", STORY, short(20)),
    Drawn("Conveyor", "clover", "tiny-ar-l", "story: Dan, coin", short(24, nodes=20)),
    Drawn("Fusion", "chimera", "tiny-ar-l", "story: Carl, door, map", short(40)),
    Drawn("Transferred", "hidden-transfer", "tiny-ar-l", "story: Sara, horse", short(20, transfer_layer=2)),
    Drawn("Siblings", "rsd", "tiny-ar-l", STORY, short(20, temperature=1.0)),
    Drawn("Schooling", "fastdraft", "tiny-ar-l", STORY, short(20)),
    Drawn("AtOnce", "pearl", "tiny-ar-l", STORY, short(20)),
    Drawn("SampleBands", "stand", "tiny-ar-l", STORY, short(20, temperature=1.0, trajectories=3)),
    Drawn("SearchTree", "aded", "tiny-ar-l", CODE, short(20, corpus="store")),
    Drawn("Unrolled", "mtp", "tiny-ar-l", SUM, short(24, k=3)),
    Drawn("MaskBlock", "dflash", "tiny-ar-l", SUM, short(64)),
    Drawn("SharedState", "p-eagle", "tiny-ar-l", SUM, short(64)),
    Drawn("Fused", "eagle3", "tiny-ar-l", "python: class Box(pages: int, speed: int)", short(64)),
    Drawn("EarlyExit", "kangaroo", "tiny-ar-l", STORY, short(24)),
    Drawn("Judged", "judge-decoding", "tiny-ar-l", SLIPS, short(24)),
    Drawn("Units", "lud", "tiny-ar-m", SUM, short(64, k=4, beta=0.7, n=3)),
    Drawn("Passages", "rapid", "tiny-ar-l", PASSAGE, short(16, chunk=8, keep=24)),
    Drawn("Copying", "aggressive-decoding", "tiny-ar-l", GRAMMAR, short(32)),
    Drawn("DraftTree", "rasd", "tiny-ar-l", CODE, short(48)),
    # masks and canvases
    Drawn("TwoRoles", "nemotron-self-speculation", "tiny-two-way", SUM, short(64)),
    Drawn("OpenBlock", "nemotron-diffusion", "tiny-two-way", "add: 457 + 86", short(32)),
    Drawn("Edits", "token-editing", "tiny-dlm", "latin: B S I", EDITED),
    Drawn("Canvas", "entropy-bound", "tiny-canvas", SHUFFLE, CANVAS),
    Drawn("Filtering", "learn2pd", "tiny-dlm", SORT, short(48)),
    Drawn("Form", "dimple", "tiny-vlm-dimple", "answer: scene 12", short(48, structure_prior=FORM, cache="prefix")),
    Drawn("Watched", "prophet", "tiny-dlm", "subtract: 266 - 74", short(48, constraints="26:answer", answer_length=3)),
    Drawn(
        "Credits",
        "creditdecoding",
        "tiny-dlm",
        "sort: Uma, Carl, Dan, Rosa, Ben, Finn, Alan",
        short(48, stop_at_end=False),
    ),
    Drawn("Leaps", "localleap", "tiny-dlm", "subtract: 9532 - 3432", short(48, block_length=48)),
    Drawn("Boundary", "adablock", "tiny-dlm", "subtract: 7596 - 6660", short(48)),
    # tokens and paths
    Drawn("Pauses", "adadec", "tiny-ar-l", STORY, short(24, threshold=0.3)),
    Drawn("LeftAlone", "concise", "tiny-reasoner", "1*2*8*3", {}),
    Drawn("Vote", "rpc", "tiny-ar-s", "subtract: 717 - 610", short(40, n=8)),
    Drawn("Lines", "ffs", "tiny-reasoner", "8+9*3+0-8", {"n": 8, "let_finish": True}),
    Drawn("Frontier", "a-star-decoding", "tiny-reasoner", "8+9*3+0-8", {}),
    Drawn("Baton", "ead", "tiny-ar-l", "subtract: 9906 - 999", {"tau": 0.2, "window": 3, "d_min": 3}),
    # what models see, keep and cost
    Drawn("Media", "sjd", "tiny-digits", "3", {}),
    Drawn("Word", "cppd", "tiny-reader", "bookkeeper", {}),
    Drawn("Seen", "vispec", "tiny-vlm", "scene 12", short(24)),
    Drawn("Entering", "msd", "tiny-vlm", "scene 12", short(48)),
    Drawn("Scene", "scene-heavy", "tiny-reader", "cafe", {"scene": "wall"}),
    Drawn("Operators", "pldr-llm", "tiny-pldr", STORY, short(16)),
    Drawn("Phases", "encoder-return", "tiny-encdec", ASK, {}),
    Drawn("Starfield", "ultramem-v2", "tiny-ultramem", "fact: Ada Raven", short(12)),
    Drawn("Experts", "blockffn", "tiny-blockffn", ROBOT, short(32)),
    Drawn("Exchange", "speculative-moe", "tiny-moe", STORY, short(8)),
    Drawn("Slots", "read-me", "tiny-ar-m", STORY, short(6, slots=2)),
    Drawn("Workers", "lean-attention", "tiny-ar-m", STORY, short(8, workers=6)),
    Drawn("Pipeline", "afd", "tiny-mfa", STORY, short(5, microbatches=2, texts=2)),
    Drawn("Attentions", "factorised-attention", "tiny-mfa", STORY, short(5, copies=2)),
    Drawn("Arena", "specmemo", "tiny-ar-l", STORY, short(16, budget=26.0, batch=2)),
    Drawn("Schedule", "easyspec", "tiny-ar-m", STORY, short(16, size=3)),
]
MAIN = {one.view: one for one in _MAIN}
_COPY = "copy: Mia"  # of which there is little to see
# Drafts of any depth, boards of any length, and runs of one step or of little to see.
FURTHER = {
    "one exit, no drafts": Drawn("EarlyExit", "kangaroo", "tiny-ar-l", "add: 4 + 8", short(2, gamma=0)),
    "seven runs of a layer": MAIN["Unrolled"]._replace(params=short(24, k=7)),
    "a short block in two roles": MAIN["TwoRoles"]._replace(params=short(32, block_length=2, threshold=0.9)),
    "a long block in two roles": MAIN["TwoRoles"]._replace(params=short(32, block_length=24, threshold=0.9)),
    "a block of 2 masks": MAIN["MaskBlock"]._replace(params=short(32, block=2)),
    "a block of 20 masks": MAIN["MaskBlock"]._replace(params=short(32, block=20)),
    "a chain of 1": MAIN["SharedState"]._replace(params=short(32, k=1)),
    "a chain of 16": MAIN["SharedState"]._replace(params=short(32, k=16)),
    "a wide draft": MAIN["Fused"]._replace(params=short(24, depth=7, nodes=40, top_k=6)),
    "a draft without depth": MAIN["Fused"]._replace(params=short(24, depth=0)),
    "a chain of first guesses": MAIN["Fused"]._replace(params=short(24, top_k=1, depth=7)),
    "half columns of one place": MAIN["Transferred"]._replace(params=short(12, m=1)),
    "half columns of no node": MAIN["Transferred"]._replace(params=short(12, nodes=0)),
    "half columns of one token": MAIN["Transferred"]._replace(params=short(1)),
    "edits in several rows": Drawn(
        "Edits", "token-editing", "tiny-dlm", "story: Mia, boat, lamp", short(64, block_length=64) | WIDELY
    ),
    "places that move": MOVES,
    "block refinement": Drawn(
        "Canvas", "block-refinement", "tiny-canvas", SHUFFLE, CANVAS | {"threshold": 0.6, "editing_threshold": 0.8}
    ),
    "a corrected canvas": Drawn(
        "Canvas", "discrete-ddim", "tiny-canvas", SHUFFLE, CANVAS | {"corrector_steps": 1, "corrector_k": 3}
    ),
    "a vote by whole paths": MAIN["Vote"]._replace(params=short(40, n=8, weight="whole path")),
    "sixteen lines": MAIN["Lines"]._replace(params={"n": 16, "let_finish": True}),
    "little to filter": Drawn("Filtering", "learn2pd", "tiny-dlm", _COPY, short(1, accept_thres=1.0)),
    "no form": Drawn("Form", "dimple", "tiny-dlm", _COPY, short(1, alg="entropy")),
    "a short answer": Drawn("Watched", "prophet", "tiny-dlm", _COPY, short(2, block_length=2, answer_length=1)),
    "no credit": Drawn("Credits", "creditdecoding", "tiny-dlm", _COPY, short(1, credit_alpha=0.0, slack=0.0)),
    "no leap": Drawn("Leaps", "localleap", "tiny-dlm", _COPY, short(1, threshold=1.01)),
    "one boundary": Drawn("Boundary", "adablock", "tiny-dlm", _COPY, short(1)),
}


@cache
def _text(run: str) -> str:
    return (MAIN | FURTHER)[run].decode().to_json()


def decoded(run: str) -> Trace:
    """The run of a table, decoded once."""
    return Trace.from_json(_text(run))


def with_odd_words(trace: Trace) -> Trace:
    """The same run in words of any direction and length."""
    pieces = [structs.replace(piece, text=ODD[i % len(ODD)]) for i, piece in enumerate(trace.pieces)]
    return structs.replace(trace, pieces=pieces)
