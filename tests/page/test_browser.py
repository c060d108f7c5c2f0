"""The page as a visitor meets it, in headless Chromium. Nothing here sleeps: every wait is for a state of the
document."""

from __future__ import annotations

import gzip
import json
import re
import threading

import pytest
from playwright.sync_api import expect

import engines
from explorer.bench import quality
from tests.page.conftest import HOSTILE, PROMPT, first_model, methods_of


def test_opens_with_recorded_runs_and_plays_them_and_a_card_of_the_gallery_at_once(visit, traces):
    screen = visit()
    screen.wait(1, "ready")
    assert screen.page.locator("h1").count() == 1
    assert screen.page.title() == "Decoding Explorer"
    screen.press("Play")
    screen.wait(0, "done")
    screen.wait(1, "done")
    screen.tab("Gallery")
    screen.page.locator(f"#play-{2}-{traces[2].header.method}").click()
    expect(screen.player(0).locator("h2 > span")).to_have_text(traces[2].header.title)
    screen.wait(0, "done")
    expect(screen.player(1)).to_be_hidden()


def test_the_end_of_a_recorded_run_is_told_after_it_was_played_or_asked_for(visit, traces):
    screen = visit()
    results = screen.page.locator("#results")
    expect(results.locator(".show")).to_have_count(4)
    for trace in traces[:2]:
        expect(results).not_to_contain_text(trace.text)
    expect(results.locator(".number")).to_have_count(0)  # final counts are an answer too
    results.get_by_role("button", name="Show the result of player 2").first.press("Enter")
    expect(results.locator("td:focus")).to_have_text(traces[1].text)
    expect(results.locator(".show")).to_have_count(2)
    screen.player(0).press("End")
    expect(results.locator(".show")).to_have_count(0)
    screen.player(0).press("Home")
    expect(results).to_contain_text(traces[0].text)
    screen.tab("Gallery")
    output = screen.page.locator("#gallery-cards details").first
    expect(output).not_to_have_attribute("open", "")
    output.locator("summary").press("Enter")
    expect(output).to_contain_text(traces[0].text[:160])


def test_what_is_opened_fills_the_controls_and_a_refused_slot_puts_nothing_away(visit, traces):
    screen = visit()
    info = engines.get_method(methods_of("causal")[0]).info
    screen.prompt("copy: something else")
    screen.page.locator("#seed input").fill("7")
    screen.method(0, info.slug)
    screen.tab("Gallery")
    screen.page.locator("#gallery-cards section").first.get_by_role("button").first.click()
    screen.wait(2, "done")
    expect(screen.page.locator("#prompt textarea")).to_have_value(PROMPT)
    expect(screen.page.locator("#seed input")).to_have_value("0")
    for slot, trace in enumerate(traces):
        expect(screen.page.locator(f"#method-{slot}")).to_have_value(trace.header.method)
        expect(screen.page.locator(f"#model-{slot}")).to_have_value(trace.header.models[0].name)
        expect(screen.page.locator(f"#method-{slot}")).to_be_visible()
    expect(screen.page.locator("#method-3")).to_be_hidden()
    screen.model(1, first_model("causal"))
    screen.press("Run")
    screen.says("Slot 2: ")
    screen.says(f"needs a masked model, {first_model('causal')} is causal")
    for slot, trace in enumerate(traces):
        expect(screen.player(slot).locator("h2 > span")).to_have_text(trace.header.title)


def test_one_player_asks_at_a_time_and_never_while_a_fork_is_prepared(visit):
    screen = visit()
    one, two = (screen.player(slot).get_by_role("button", name="Predict", exact=True) for slot in (0, 1))
    one.click()
    two.click()
    expect(one).to_have_attribute("aria-pressed", "false")
    expect(two).to_have_attribute("aria-pressed", "true")
    fork = screen.player(1).get_by_role("button", name="Fork", exact=True)
    fork.click()
    expect(two).to_have_attribute("aria-pressed", "false")
    two.click()
    expect(fork).to_have_attribute("aria-expanded", "false")
    expect(screen.player(1).locator(".dx-fork")).to_be_hidden()


def test_a_number_of_the_results_opens_its_receipt_and_curves_are_drawn_when_asked_for(visit, traces):
    screen = visit()
    assert screen.page.locator(".js-plotly-plot").count() == 0
    number = screen.page.locator('#results [data-label^="Tokens per"] .number').first
    screen.player(0).press("End")
    number.focus()
    number.press("Enter")
    box = screen.page.get_by_role("dialog")
    sums = traces[0].totals
    expect(box).to_contain_text(f"{sums.tokens} ÷ {sums.forwards} = ")
    expect(box).to_contain_text(f"✗ not counted; {sums.end_tokens} in this run")
    expect(box).to_contain_text(traces[0].header.models[0].sha256)
    screen.page.keyboard.press("Escape")
    expect(box).to_have_count(0)
    expect(number).to_be_focused()
    screen.tab("All numbers")
    screen.page.locator("#numbers .number").first.click()
    expect(screen.page.get_by_role("dialog")).to_contain_text("iterations of the decoding loop")
    screen.page.keyboard.press("Escape")
    screen.tab("Curves")
    expect(screen.page.locator(".js-plotly-plot")).to_have_count(2, timeout=30_000)


def test_recorded_sweeps_show_their_curve_and_table(visit):
    found = quality.recorded()
    screen = visit()
    screen.tab("Sweeps")
    expect(screen.page.locator("#sweeps .js-plotly-plot")).to_have_count(len(found))
    assert len(found) > 0
    expect(screen.page.locator("#sweeps .facts").first).to_have_attribute("data-rows", str(len(found[0].points)))
    expect(screen.page.locator("#sweeps")).to_contain_text(found[0].model.sha256[:12])


def test_runs_two_methods_scrubs_by_keyboard_and_space_plays_and_does_not_run_again(visit):
    screen = visit()
    screen.press("Run")
    screen.wait(0, "done")
    screen.wait(1, "done")
    screen.says("Done: 2 runs")
    assert screen.page.locator("#results .facts").get_attribute("data-rows") == "2"
    expect(screen.page.locator("#run")).not_to_be_focused()
    assert screen.page.evaluate("document.activeElement.closest('.dx-panel') !== null")
    run = screen.page.locator("#status").inner_text()
    screen.page.keyboard.press("Home")
    screen.page.keyboard.press(" ")
    screen.wait(0, "playing")
    screen.page.locator("h1").click()  # the focus is nowhere
    screen.page.keyboard.press(" ")
    expect(screen.player(0)).not_to_have_attribute("data-state", "playing")
    assert screen.page.locator("#status").inner_text() == run
    screen.page.locator("#prompt textarea").press(" ")
    expect(screen.player(0)).not_to_have_attribute("data-state", "playing")
    screen.player(0).press("Home")
    assert screen.step(0) == screen.step(1) == 0
    screen.player(0).press("ArrowRight")
    assert screen.step(0) == 1
    screen.player(0).press("End")
    assert screen.step(0) > 1


def test_what_is_shown_says_that_a_new_run_is_awaited(visit, monkeypatch):
    real, answered = engines.stream, threading.Event()

    def stream(*args, **options):
        answered.wait(60)
        raise engines.UserError("the model has gone fishing.")

    monkeypatch.setattr(engines, "stream", stream)
    screen = visit()
    pill = screen.player(0).locator(".dx-pill")
    expect(pill).to_contain_text("ready")
    screen.press("Run")
    reading = re.compile(r"reading (\d+ tokens|the prompt)")  # counted where the model is in memory
    expect(pill).to_have_text(reading)
    expect(screen.player(1).locator(".dx-pill")).to_have_text(reading)
    answered.set()
    screen.says("gone fishing")
    expect(pill).to_contain_text("ready · step 0")  # nothing came: what was shown stays
    monkeypatch.setattr(engines, "stream", real)
    screen.press("Run")
    screen.wait(1, "done")
    expect(pill).to_contain_text("done")


def test_slots_of_different_kinds_stand_side_by_side(visit):
    screen = visit()
    info = engines.get_method(methods_of("causal")[0]).info
    screen.method(1, info.slug)
    expect(screen.page.locator("#model-1")).to_have_value(first_model("causal"))
    screen.press("Run")
    screen.wait(1, "done")
    expect(screen.player(1).locator("h2 > span")).to_have_text(info.title)


def test_stop_ends_the_run_within_one_forward_and_the_next_one_works(visit, slowly):
    screen = visit()
    screen.press("Run")
    screen.wait(0, "live")
    screen.press("Stop")
    screen.wait(0, "stopped")
    screen.wait(1, "stopped")
    screen.says("Stopped")
    assert slowly.running == 0
    assert screen.page.locator("#results .facts").get_attribute("data-rows") == "1"
    screen.press("Run")
    screen.wait(0, "live")
    screen.press("Stop")
    screen.wait(0, "stopped")
    assert slowly.running == 0


def test_leaving_the_page_ends_its_run(visit, slowly):
    screen = visit()
    screen.press("Run")
    screen.wait(0, "live")
    screen.page.goto("about:blank")
    screen.complaints.clear()  # Gradio reports the stream that it aborts while its page goes away
    for _ in range(50):
        if not slowly.running:
            return
        screen.page.wait_for_timeout(100)
    pytest.fail("the run of a closed page goes on")


def test_a_second_visitor_waits_and_sees_the_place_and_stop_withdraws_a_waiting_run(visit, slowly):
    first, second = visit(), visit()
    first.press("Run")
    first.wait(0, "live")
    second.press("Run")
    expect(second.page.locator("#status")).to_contain_text("queue", timeout=10_000)
    second.press("Stop")
    second.says("Nothing is running")
    second.wait(0, "ready")
    second.press("Run")
    expect(second.page.locator("#status")).to_contain_text("queue", timeout=10_000)
    first.press("Stop")
    first.wait(0, "stopped")
    second.wait(0, "live")
    second.press("Stop")
    second.wait(0, "stopped")


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


def test_a_broken_trace_is_refused_with_a_sentence(visit, traces):
    screen = visit()
    screen.tab("Save and open")
    for text, sentence in (
        ("", "nothing to read"),
        ("{}", "not a valid trace"),
        ('{"header": {"schema": 1, "meth', "cut off"),
        ('{"header": {"schema": 99}}', "schema version 99"),
        ("[" * 5000, "The trace was not opened"),
        (traces[0].to_json()[:-200], "cut off"),
    ):
        screen.page.locator("#paste textarea").fill(text)
        screen.press("Open pasted trace")
        screen.says(sentence)
        screen.wait(0, "ready")
        screen.wait(1, "ready")
        expect(screen.player(2)).to_be_hidden()


def test_hostile_tokens_of_a_trace_stay_text(visit, traces):
    body = json.loads(traces[2].to_json())
    for piece in body["pieces"]:
        piece["text"] = HOSTILE
    body["header"] |= {"title": HOSTILE, "prompt": HOSTILE, "departures": HOSTILE, "machine": HOSTILE}
    body["end"] |= {"text": HOSTILE, "message": HOSTILE}
    for step in body["steps"]:
        step["note"] = HOSTILE
    screen = visit()
    screen.tab("Save and open")
    screen.page.locator("#paste textarea").fill(json.dumps(body))
    screen.press("Open pasted trace")
    screen.says("Opened in player 3")
    expect(screen.player(2).locator("h2 > span")).to_have_text(HOSTILE)
    screen.player(2).press("End")
    screen.tab("All numbers")
    expect(screen.page.locator("#numbers")).to_contain_text(HOSTILE[:30])
    screen.tab("Results")
    expect(screen.page.locator("#results")).to_contain_text(HOSTILE[:30])
    screen.tab("Curves")
    expect(screen.page.locator(".js-plotly-plot")).to_have_count(2, timeout=30_000)


def test_what_cannot_run_gets_a_sentence_and_loses_nothing_and_a_hostile_prompt_stays_text(visit):
    screen = visit()
    before = [screen.player(slot).locator("h2 > span").inner_text() for slot in (0, 1)]
    screen.model(0, first_model("causal"))
    screen.press("Run")
    screen.says("Slot 1")
    screen.says("needs a masked model")
    screen.says("choose one of")
    for slot in (0, 1):
        screen.wait(slot, "ready")
        expect(screen.player(slot).locator("h2 > span")).to_have_text(before[slot])
    screen.model(0, first_model("masked"))
    for text, sentence in (
        ("", "prompt is empty"),
        ("x" * 100_000, "100,000 characters"),
        ("   ", "prompt is empty"),
        ("sort " * 3000, "has room for"),
    ):
        screen.prompt(text)
        screen.press("Run")
        screen.says(sentence)
        screen.wait(0, "ready")
    screen.prompt(PROMPT)
    screen.page.locator("#seed input").fill("")
    screen.press("Run")
    screen.says("give a whole number")
    screen.page.locator("#seed input").fill("0")
    screen.prompt(HOSTILE[:60])
    screen.press("Run")
    screen.says("Done")
    screen.player(0).press("End")


def test_a_failing_method_is_a_sentence_not_a_traceback(visit, monkeypatch):
    real = engines.stream
    broken = iter([True])

    def stream(*args, **options):
        if next(broken, False):
            raise RuntimeError("secret inner detail")
        return real(*args, **options)

    monkeypatch.setattr(engines, "stream", stream)
    screen = visit()
    screen.press("Run")
    screen.wait(0, "failed")
    screen.wait(1, "done")
    assert "secret" not in screen.page.content() and "Traceback" not in screen.page.content()


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


def test_on_a_phone_the_offer_of_the_tour_leaves_the_title_alone(visit):
    screen = visit(viewport={"width": 390, "height": 844})
    expect(screen.page.locator(".tour-offer button").first).to_be_visible()
    ends = screen.page.evaluate("""() => {
        const text = document.createRange();
        text.selectNodeContents(document.querySelector("#title h1"));
        const left = text.getBoundingClientRect();
        const button = document.querySelector(".tour-offer button").getBoundingClientRect();
        return [left.right, button.left, left.bottom > button.top];
    }""")
    assert ends[2] and ends[0] + 4 <= ends[1], "they stand in one row, and apart"


def test_dark_follows_the_system(visit):
    light, dark = (
        visit(color_scheme=scheme).page.evaluate("getComputedStyle(document.body).backgroundColor")
        for scheme in ("light", "dark")
    )
    assert light != dark
