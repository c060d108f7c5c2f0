"""Fork from here: by hand in the browser with the tiny models, and what the endpoint refuses."""

import json
import shutil
import threading

import pytest
from playwright.sync_api import expect

import engines
from engines import UserError
from explorer import ASSETS
from explorer.forking import make_edit
from explorer.page.catalogue import Catalogue, Form, name_of
from explorer.page.forks import MAX_REQUEST, Forks, offered, read_wish
from explorer.page.sessions import Job
from tests.page.conftest import Held, Slow, desk, methods_of, visitor


def place(screen, slot: int, steps: int):
    """The panel of a player that stands after that many steps."""
    screen.go(slot, steps)
    screen.player(slot).press("f")
    panel = screen.player(slot).locator(".dx-fork")
    expect(panel).to_be_visible()
    return panel


def debug(screen, slot: int):
    return screen.page.evaluate(
        """(slot) => {
            return dxModules.use("player/gradio.js").panel(slot).debug();
        }""",
        slot,
    )


def test_a_masked_run_is_forked_by_clicking_on_its_board(visit, traces):
    screen, title = visit(), traces[0].header.title
    panel = place(screen, 0, 4)
    screen.player(0).locator(".dx-cells .dx-cell[data-s=masked]").last.click()
    row = panel.locator("[data-position]")
    position = int(row.get_attribute("data-position"))
    row.locator("select").nth(1).select_option("type a text …")
    panel.get_by_label(f"Text for position {position}").fill(" Leo")
    panel.get_by_role("button", name="Continue from here").click()
    screen.wait(2, "done")
    screen.says("in player 3: forced")
    screen.until("""() => { const { top } = document.querySelector("#panel-2").getBoundingClientRect();
      return top > 0 && top < innerHeight / 2; }""")
    expect(screen.player(2).locator(".dx-lineage")).to_contain_text(
        f"fork of player 1 at step 4: forced “␣Leo” at {position}"
    )
    cell = next(cell for cell in debug(screen, 2)["board"] if cell["position"] == position)
    assert (cell["text"], cell["state"]) == (" Leo", "forced")
    expect(screen.page.locator("#results .facts")).to_have_attribute("data-rows", "3")
    expect(screen.player(2).locator("h2 > span")).to_have_text(f"{title}, forked at step 4")
    for step in range(5):
        screen.go(2, step)
        screen.at(0, step)
        both = [[(c["position"], c["token"]) for c in debug(screen, slot)["board"]] for slot in (0, 2)]
        assert both[0] == both[1], f"the boards differ after step {step}"


def test_a_gallery_trace_of_a_causal_model_is_forked_by_keyboard_and_stop_keeps_what_is_there(
    visit, traces, monkeypatch
):
    screen, original, real = visit(), traces[2], engines.stream_fork
    screen.tab("Gallery")
    screen.page.locator(f"#play-{2}-{original.header.method}").click()
    screen.wait(0, "done")
    with monkeypatch.context() as patch:
        over, end = threading.Event(), Job.end
        patch.setattr(engines, "stream_fork", lambda *a, **k: Held(real(*a, **k), over))
        patch.setattr(Job, "end", lambda job: (end(job), over.set()))  # it goes on when it is stopped
        Slow.running = 0
        place(screen, 0, 1).get_by_role("button", name="Continue from here").click()
        screen.wait(1, "live")
        screen.press("Stop")
        screen.wait(1, "stopped")
        screen.says("Stopped")
        assert Slow.running == 0
    at = len(original.header.prompt_ids) + 2
    panel = place(screen, 0, 2)
    panel.get_by_role("button", name="Change it").press("Enter")
    panel.locator(f"[data-position='{at}'] select").first.select_option("forbid")
    panel.get_by_label("Into").select_option("2")
    panel.get_by_role("button", name="Continue from here").press("Enter")
    screen.wait(2, "done")
    expect(screen.player(2).locator(".dx-lineage")).to_contain_text("fork of player 1 at step 2: forbade")
    board = {cell["position"]: cell["token"] for cell in debug(screen, 2)["board"]}
    assert [board[at - 2], board[at - 1]] == original.output_ids[:2] and board[at] != original.output_ids[2]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (None, "is empty"),
        ("[]", "not understood"),
        ('{"slot": 0}', "missing required field"),
        ('{"slot": 9, "step": 1, "target": 1}', "not understood"),
        ('{"slot": 0, "step": 1, "target": 1, "shell": "rm"}', "unknown field"),
        ('{"slot": 0, "step": 1, "target": 1, "force": [[3, null]]}', "not understood"),
        ('{"slot": 0, "step": 1, "target": 1, "params": {"a": [1]}}', "not understood"),
        (json.dumps({"slot": 0, "step": 1, "target": 1, "force": [[i, 1] for i in range(65)]}), "not understood"),
        ("[" * 20_000, "not understood"),
        ("x" * (MAX_REQUEST + 1), "at most"),
    ],
)
def test_requests_that_are_none(text, sentence):
    with pytest.raises(UserError, match=sentence):
        read_wish(text)


def ask(handlers, **wish) -> str:
    """The last sentence on the status line."""
    asked = json.dumps({"slot": 0, "step": 2, "target": 2, **wish})
    lines = [line for _, line, _ in Forks(handlers).fork(asked, visitor()) if isinstance(line, str)]
    return json.loads(lines[-1])["text"]


@pytest.mark.parametrize(
    ("wish", "sentence"),
    [
        ({"slot": 3}, "Player 4 shows no run"),
        ({"target": 0}, "cannot take its place"),
        ({"step": 999}, "that run has"),
        ({"method": "no-such"}, "The method 'no-such' is not available"),
        ({"force": [[0, 5]]}, "position 0 cannot be edited"),
        ({"force": [[12, 10**7]]}, "not in the vocabulary"),
        ({"force": [[12, ""]]}, "the text is empty"),
        ({"force": [[12, 20], [12, 21]]}, "forced twice"),
        ({"forbid": [[12, "no single token here"]]}, "one token is forbidden at a time"),
        ({"params": {"max_new_tokens": 1000}}, "settled when a run begins"),
        ({"method": methods_of("causal")[0]}, "needs a causal model"),
    ],
)
def test_wishes_that_cannot_be_granted(recorded, wish, sentence):
    handlers = desk(recorded, public=True)
    assert sentence in ask(handlers, **wish) and handlers.sessions.of("visitor").running is None


def test_another_method_and_other_parameters_take_over(recorded, traces):
    handlers, info = desk(recorded), engines.get_method("threshold").info
    assert "Fork of player 1" in ask(handlers, method=info.slug, params={"threshold": 0.5})
    forked = handlers.sessions.of("visitor").traces[2]
    assert forked.header.title == f"{traces[0].header.title}, then {info.title}"
    assert len(forked.steps) < len(traces[0].steps), "it is the faster method"


def test_a_public_page_forks_only_what_its_models_made(recorded, traces):
    handlers = desk(recorded, public=True)
    session = handlers.sessions.of("visitor")
    foreign = engines.read_trace(
        traces[0].to_json().replace(f'"name":"{traces[0].header.models[0].name}"', '"name":"/etc"')
    )
    session.keep(0, foreign)
    session.named["/etc"] = "/etc"
    assert "the model '/etc', which is not available on this server" in ask(handlers)
    session.begin()
    assert "A run is going on" in ask(handlers)


def test_a_fork_of_a_model_of_one_s_own_has_the_forwards_of_its_run(recorded, tmp_path):
    folder = shutil.copytree(ASSETS / "models" / "tiny-ar-s", tmp_path / "mine")
    home = desk(recorded)
    session = home.sessions.of("visitor")
    for wished in (True, False):
        run = Form("prompt-lookup", str(folder), {"max_new_tokens": 6}, wished).begin("sort: Mia, Leo", 0, home.limits)
        assert list(run)
        trace = run.trace()
        session.keep(0, trace)
        session.named[name_of(trace)] = str(folder)
        assert not engines.is_known(trace.header.models[0].name)
        assert "Fork of player 1" in ask(home, step=1)
        forked = session.traces[2].header
        assert forked.models[0].options == trace.header.models[0].options
        assert bool(forked.models[0].options) is wished


def test_the_panel_offers_every_method_and_no_length():
    found = json.loads(offered(Catalogue.read(public=False).methods))
    assert {one["slug"] for one in found} == {info.slug for info in engines.list_methods()}
    assert all(p["name"] != "max_new_tokens" for one in found for p in one["params"])


def test_words_become_tokens():
    model = engines.load_model("tiny-dlm")
    edit = make_edit(model, force=[(9, "Mia, Leo"), (20, 5)], forbid=[(3, " Mia"), (3, 7)], remask=[4, 4])
    assert list(edit.force) == [*range(9, 9 + len(model.tokenizer.encode("Mia, Leo"))), 20]
    assert edit.remask == [4] and len(edit.forbid[3]) == 2
    for force, said in (
        ([(9, "\ud800")], "half of a character"),
        ([(9, "x" * 401)], "at most 400"),
        ([(i, 5) for i in range(65)], "64 positions"),
    ):
        with pytest.raises(UserError, match=said):
            make_edit(model, force=force)


@pytest.mark.parametrize("public", [False, True])
def test_a_draft_of_a_grid_is_known_at_home_and_no_model_for_strangers(recorded, public):
    """A run with a checkpoint as draft, such as a study fills into a slot, goes on with the same pair."""
    handlers, pair = desk(recorded, public), "tiny-ar-l@d64x4.512"
    trace = engines.run("speculative-sampling", pair, "add: 45 + 86", params={"max_new_tokens": 12})
    session = handlers.session(visitor())
    session.keep(0, trace)
    said = ask(handlers, step=1)
    if public:
        assert f"'{pair}', which is not available on this server" in said
        return
    fork = session.trace(2)
    assert fork.output_ids == trace.output_ids
    assert [m.name for m in fork.header.models] == [pair, "tiny-ar-l-draft-grid@d64x4.512"]
