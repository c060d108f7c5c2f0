"""The page as a visitor meets it, in headless Chromium. Nothing here sleeps: every wait is for a state of the
document."""

import gzip
import json
import re
import threading

from playwright.sync_api import expect

import engines
from tests.page.conftest import HOSTILE, PROMPT, Held, first_model, methods_of, soon


def test_opens_with_recorded_runs_tells_their_end_when_asked_and_plays_them_and_a_card_at_once(visit, traces):
    screen = visit()
    screen.wait(1, "ready")
    results = screen.page.locator("#results")
    expect(results.locator(".show")).to_have_count(4)
    for trace in traces[:2]:
        expect(results).not_to_contain_text(trace.text)
    expect(results.locator(".number")).to_have_count(0)  # final counts are an answer too
    results.get_by_role("button", name="Show the result of player 2").first.press("Enter")
    expect(results.locator("td:focus")).to_have_text(traces[1].text)
    expect(results.locator(".show")).to_have_count(2)
    asked = len(screen.asked)
    screen.press("Play")
    screen.wait(0, "done")
    screen.wait(1, "done")
    assert screen.asked[asked:] == [], "who watches asks for nothing"
    expect(results.locator(".show")).to_have_count(0)
    screen.tab("Gallery")
    screen.page.locator(f"#play-{2}-{traces[2].header.method}").click()
    expect(screen.player(0).locator("h2 > span")).to_have_text(traces[2].header.title)
    screen.wait(0, "done")
    expect(screen.player(1)).to_be_hidden()


def test_what_is_opened_fills_the_controls_and_slots_of_different_kinds_run_side_by_side(visit, traces):
    screen = visit()
    page, prompt, seed = screen.page, screen.page.locator("#prompt textarea"), screen.page.locator("#seed input")
    screen.prompt("copy: something else")
    seed.fill("7")
    screen.method(0, methods_of("causal")[0])
    screen.tab("Gallery")
    page.locator("#gallery-cards section").first.get_by_role("button").first.click()
    screen.wait(2, "done")
    expect(prompt).to_have_value(PROMPT)
    expect(seed).to_have_value("0")
    for slot, trace in enumerate(traces):
        expect(page.locator(f"#method-{slot}")).to_have_value(trace.header.method)
        expect(page.locator(f"#model-{slot}")).to_have_value(trace.header.models[0].name)
    expect(page.locator("#method-3")).to_be_hidden()
    screen.model(1, first_model("causal"))
    screen.press("Run")
    screen.says(
        f"Slot 2: '{traces[1].header.method}' needs a masked model, which {first_model('causal')} is not or has not"
    )
    info = engines.get_method(methods_of("causal")[0]).info
    screen.method(1, info.slug)
    expect(page.locator("#model-1")).to_have_value(first_model("causal"))
    screen.press("Run")
    screen.wait(1, "done")
    expect(screen.player(1).locator("h2 > span")).to_have_text(info.title)


def test_nothing_is_told_before_the_end_was_seen_and_one_player_asks_at_a_time_and_never_beside_a_fork(visit):
    screen = visit()
    hindsight = screen.player(0).locator('[data-view="Hindsight"]')
    expect(hindsight).to_be_hidden()
    screen.player(0).press("f")
    places = screen.player(0).locator(".dx-place-list option")
    expect(places.first).to_be_attached()
    expect(places.filter(has_text="later")).to_have_count(0)
    one, two = (screen.player(slot).get_by_role("button", name="Predict", exact=True) for slot in (0, 1))
    one.click()
    expect(screen.player(0).locator(".dx-fork")).to_be_hidden()
    two.click()
    expect(one).to_have_attribute("aria-pressed", "false")
    expect(two).to_have_attribute("aria-pressed", "true")
    screen.player(1).get_by_role("button", name="Fork", exact=True).click()
    expect(two).to_have_attribute("aria-pressed", "false")
    screen.player(0).press("End")
    expect(hindsight).to_be_visible()


def test_a_number_of_the_results_opens_its_receipt_and_curves_are_drawn_when_asked_for(visit, traces):
    screen = visit()
    plots = screen.page.locator(".js-plotly-plot")
    expect(plots).to_have_count(0)
    number = screen.page.locator('#results [data-label^="Tokens per"] .number').first
    screen.player(0).press("End")
    number.press("Enter")
    box = screen.page.get_by_role("dialog")
    sums = traces[0].totals
    expect(box).to_contain_text(f"{sums.tokens} ÷ {sums.forwards} = ")
    expect(box).to_contain_text(traces[0].header.models[0].sha256)
    screen.page.keyboard.press("Escape")
    expect(box).to_have_count(0)
    expect(number).to_be_focused()
    screen.tab("Curves")
    expect(plots).to_have_count(2)


def test_runs_two_methods_scrubs_by_keyboard_and_space_plays_and_does_not_run_again(visit):
    screen = visit()
    screen.press("Run")
    screen.wait(0, "done")
    screen.wait(1, "done")
    screen.says("Done: 2 runs")
    expect(screen.page.locator("#results .facts")).to_have_attribute("data-rows", "2")
    screen.until("document.activeElement.closest('.dx-panel') !== null")
    run = screen.page.locator("#status").inner_text()
    screen.page.keyboard.press("Home")
    screen.page.keyboard.press(" ")
    screen.wait(0, "playing")
    screen.page.locator("h1").click()  # the focus is nowhere
    screen.page.keyboard.press(" ")
    expect(screen.player(0)).not_to_have_attribute("data-state", "playing")
    screen.go(0, 1)
    screen.at(1, 1)
    screen.player(0).press("End")
    screen.wait(0, "done")
    expect(screen.page.locator("#status")).to_have_text(run, use_inner_text=True)


def test_stop_ends_the_run_within_one_forward_and_the_next_one_works(visit, until_stopped):
    screen = visit()
    page = screen.page
    run, stop = (page.get_by_role("button", name=name, exact=True) for name in ("Run", "Stop"))
    expect(stop).to_be_hidden()
    for _ in range(2):
        run.press("Enter")
        expect(run).to_be_hidden()
        expect(stop).to_be_focused()
        screen.wait(0, "live")
        page.keyboard.press("Enter")
        screen.wait(0, "stopped")
        screen.wait(1, "stopped")
        screen.says("Stopped")
        expect(run).to_be_visible()
        assert until_stopped.running == 0
    expect(page.locator("#results .facts")).to_have_attribute("data-rows", "1")
    screen.go(0, 1)
    expect(screen.player(0).locator("output.dx-say[aria-live=polite]")).to_contain_text("Step 1 of")
    screen.prompt("")
    run.click()
    screen.says("prompt is empty")
    expect(run).to_be_visible()


def test_leaving_the_page_ends_its_run(visit, slowly):
    screen = visit()
    screen.press("Run")
    screen.wait(0, "live")
    screen.page.goto("about:blank")
    screen.complaints.clear()  # Gradio reports the stream that it aborts while its page goes away
    soon(screen.page, lambda: not slowly.running)


def test_a_second_visitor_waits_and_sees_the_place_and_stop_withdraws_a_waiting_run(visit, monkeypatch):
    real, over = engines.stream, threading.Event()
    monkeypatch.setattr(engines, "stream", lambda *a, **k: Held(real(*a, **k), over))
    first, second = visit(), visit()
    first.press("Run")
    first.wait(0, "live")
    second.press("Run")
    status, pill = second.page.locator("#status"), second.player(0).locator(".dx-pill")
    expect(status).to_have_text(re.compile("Waiting: one run is before this one"))
    expect(pill).to_have_text("waiting for its turn")
    second.press("Stop")
    second.says("Nothing is running")
    second.wait(0, "ready")
    second.press("Run")
    expect(pill).to_have_text("waiting for its turn")
    over.set()
    second.wait(0, "done")
    expect(second.page.locator("#status .waits")).to_be_hidden()
    first.wait(0, "done")


def test_a_saved_page_plays_offline_and_a_saved_trace_is_the_trace_and_opens_again(visit, browser, tmp_path, traces):
    screen = visit()
    screen.tab("Save and open")
    with screen.page.expect_download() as saved:
        screen.press("Save page (HTML)")
    path = tmp_path / "saved.html"
    saved.value.save_as(path)
    context = browser.new_context(offline=True)
    page = context.new_page()
    asked, wrong = [], []
    page.on("request", lambda r: asked.append(r.url))
    page.on("pageerror", lambda e: wrong.append(str(e)))
    page.goto(path.as_uri())
    expect(page.locator(".dx-panel")).to_have_count(2)
    page.locator(".dx-panel").first.press("End")
    expect(page.locator(".dx-panel").first).to_have_attribute("data-step", str(len(traces[0].steps)))
    expect(page.locator(".dx-panel").first).to_have_attribute("data-state", "done")
    assert len(asked) == 1 and wrong == []
    context.close()
    screen.choose("save-what", "player 1")
    with screen.page.expect_download() as saved:
        screen.press("Save trace (JSON)")
    path = tmp_path / "saved.json"
    saved.value.save_as(path)
    assert engines.read_trace(path.read_bytes()) == traces[0]
    packed = tmp_path / "saved.json.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    screen.page.locator("#trace-file").set_input_files(packed)
    screen.says("Opened in player 3")
    screen.wait(2, "ready")


def test_a_broken_trace_is_refused_with_a_sentence_and_hostile_text_of_a_whole_one_stays_text(visit, traces):
    body = json.loads(traces[2].to_json())
    for piece in body["pieces"]:
        piece["text"] = HOSTILE
    body["header"] |= {"title": HOSTILE, "prompt": HOSTILE, "departures": HOSTILE, "machine": HOSTILE}
    body["end"] |= {"text": HOSTILE, "message": HOSTILE}
    for step in body["steps"]:
        step["note"] = HOSTILE
    screen = visit()
    screen.tab("Save and open")
    screen.page.locator("#paste textarea").fill(traces[0].to_json()[:-200])
    screen.press("Open pasted trace")
    screen.says("cut off")
    expect(screen.player(2)).to_be_hidden()
    screen.page.locator("#paste textarea").fill(json.dumps(body))
    screen.press("Open pasted trace")
    screen.says("Opened in player 3")
    expect(screen.player(2).locator("h2 > span")).to_have_text(HOSTILE)
    screen.player(2).press("End")
    screen.wait(2, "done")
    screen.tab("All numbers")
    expect(screen.page.locator("#numbers")).to_contain_text(HOSTILE[:30])
    screen.tab("Results")
    expect(screen.page.locator("#results")).to_contain_text(HOSTILE[:30])
    screen.prompt(HOSTILE[:60])
    screen.press("Run")
    screen.says("Done")
    screen.player(0).press("End")
    screen.wait(0, "done")


def test_a_task_example_fills_the_prompt_its_answer_is_marked_and_a_method_brings_its_parameters(visit):
    screen = visit()
    screen.player(0).press("End")
    expect(screen.page.locator("#results [data-mark]")).to_have_count(2)
    screen.page.locator("#example input").click()
    screen.page.get_by_role("listbox").get_by_text("Copy a list").first.click()
    expect(screen.page.locator("#prompt textarea")).to_have_value(re.compile("^copy: "))
    shown = screen.parameters(0)
    for slug in methods_of("masked")[:3]:
        info = engines.get_method(slug).info
        screen.method(0, slug)
        expect(shown.locator(".param")).to_have_count(len(info.params))
        for param in info.params:
            expect(shown.get_by_text(param.help, exact=True)).to_be_visible()
