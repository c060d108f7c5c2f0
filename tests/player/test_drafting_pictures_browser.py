"""The pictures of drafting say what was recorded: chains and trees, who judged them, and what another line or choice
would have made of the same step."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

import engines
from tests.player.pictures import FURTHER, OUTSIDE, Panel, Stage, decoded

TOPS = """(view, all) => { const { top } = view.querySelector(".dx-tower").getBoundingClientRect();
  return all(".dx-tower text").map((one) => [Math.round(one.getBoundingClientRect().top - top), one.textContent]); }"""


def percent(share: float) -> int:
    return int(100 * share + 0.5)


@pytest.mark.parametrize("name", ["Unrolled", "seven runs of a layer"])
def test_a_layer_stands_as_often_as_it_ran_up_to_where_its_chain_broke(stage: Stage, name: str) -> None:
    trace = decoded(name)
    picture = stage.show(trace, "Unrolled")
    for step, now in picture.beside(trace, runs="g[data-source=layer] > rect", told="g[data-s=accepted]"):
        m, kept = (int(step.facts[fact]) for fact in ("drafted", "accepted"))
        if m:
            assert f"run {m} times" in now["said"][0]
            assert sum("✕ chain broke here" in words for words in now["words"]) == (kept < m)
            assert len(now["runs"]) == m <= trace.header.params["k"]
            assert len(now["told"]) == 2 * kept + min(kept, m - 1)  # said, written, and read by the next run


def test_a_block_of_masks_says_what_was_filled_and_is_cut_where_the_model_parted_from_it(stage: Stage) -> None:
    trace, cut = decoded("MaskBlock"), 0
    picture = stage.show(trace, "MaskBlock")
    for step, now in picture.beside(trace, cuts="path.dx-cut", bars="[data-s=accepted] > rect[rx='3']"):
        told = step.records.get("maskblock", {})
        if not told.get("tokens"):
            assert now["said"] == ["No block was filled in this step."]
            continue
        accepted, refused = int(step.facts["accepted"]), "mismatch" in step.tree.why  # not behind an accepted end mark
        assert f"fills {len(told['tokens'])} masks after" in now["said"][0] and f"{accepted} accepted" in now["said"][0]
        assert any(f"context: {told['context']} rows" in words for words in now["words"])
        assert (len(now["cuts"]), len(now["bars"])) == (refused, accepted)
        cut += refused
    assert cut


def test_rows_with_one_learned_state_say_what_was_drafted(stage: Stage) -> None:
    trace, cut = decoded("SharedState"), 0
    for step, now in stage.show(trace, "SharedState").beside(trace, cuts="path.dx-cut"):
        told = step.records.get("sharedstate")
        if not told:
            assert now["said"] == ["Nothing was drafted in this step."]
            continue
        k, n, refused = len(told["tokens"]), len(told["text"]), "mismatch" in step.tree.why
        assert f"{n} row{'s' if n > 1 else ''} of text" in now["said"][0]
        assert f"{int(step.facts['accepted'])} accepted" in now["said"][0]
        assert any(f"token by token: {k} passes" in words for words in now["words"])
        assert len(now["cuts"]) == refused
        cut += refused
    assert cut


@pytest.mark.parametrize("k", [1, 2, 16])
def test_a_chain_has_a_dashed_circle_for_each_row_behind_its_first(stage: Stage, k: int) -> None:
    picture = stage.show(decoded(f"a chain of {k}"), "SharedState")
    picture.seek(2)
    expect(picture.seen("circle[stroke-dasharray], circle[style*=dasharray]")).to_have_count(k - 1)


@pytest.mark.parametrize("name", [name for name in FURTHER if name.startswith("a published") or "drafter" in name])
def test_a_published_checkpoint_says_which_layers_it_reads(stage: Stage, name: str) -> None:
    trace, view = decoded(name), FURTHER[name].view
    picture, told = stage.show(trace, view), trace.steps[1].records[view.lower()]
    picture.seek(2)
    if view == "MaskBlock":
        says = f"{', '.join(map(str, told['layers']))} of {told['depth']}"
        expect(picture.seen("text").filter(has_text=says).first).to_be_visible()
        expect(picture.seen(".dx-warm[rx='3']")).to_have_count(len(told["layers"]))
    elif view == "Fused":
        picture.says(f"the target's states after {', '.join(map(str, told['reads']))} layers")
        expect(picture.seen("rect.dx-lift[rx='4']:not([height='24'])")).to_have_count(told["layers"])
    else:
        picture.says("all with the same learned state")
        expect(picture.seen("circle[r='6']")).to_have_count(len(told["reads"]))


def test_what_a_draft_cannot_guess_is_marked(stage: Stage) -> None:
    trace, marked = decoded("Fused"), 0
    for step, now in stage.show(trace, "Fused").beside(trace):
        outside = bool(step.records.get("fused", {}).get("outside"))
        assert sum("is not one of them" in words for words in now["words"]) == outside
        marked += outside
    assert marked


def test_each_early_draft_is_a_hop_and_the_verdict_stands_above(stage: Stage) -> None:
    trace = decoded("EarlyExit")
    hops = """(view, all) => [view.querySelector(".dx-readout").textContent,
      all(".dx-arc").map(({ parentNode }) => [parentNode.dataset.s, parentNode.lastChild.textContent])]"""
    for step, (said, drawn) in zip(trace.steps, stage.show(trace, "EarlyExit").each(hops)[1:], strict=True):
        told, wrote = step.records["early_exit"], len(step.commits.tokens)
        states = {True: "rejected", False: "accepted"}
        assert drawn == [[states[sure < told["eta"]], f"{percent(sure)} %"] for sure in told["confidence"]]
        assert f"{wrote} token{'s' if wrote > 1 else ''} from one model call." in said


def test_a_moved_threshold_decides_again_on_what_was_recorded(stage: Stage) -> None:
    trace = decoded("EarlyExit")
    picture = stage.show(trace, "EarlyExit")
    t, step = max(enumerate(trace.steps, 1), key=lambda one: len(one[1].records["early_exit"]["confidence"]))
    sure = step.records["early_exit"]["confidence"]
    picture.seek(t)
    slider = picture.locator("input[type=range]")
    for eta in (0.0, 0.5, 0.99, 1.0):
        slider.fill(str(eta))
        n = next((i for i, chance in enumerate(sure, 1) if chance < eta), len(sure))
        expect(picture.locator("[aria-live]")).to_contain_text(f"derived: {n} of {len(sure)} drafted token")
    picture.locator("button", has_text="as recorded").click()
    expect(slider).to_have_value("0.6")


def test_the_recorded_line_of_a_judge_gives_the_recorded_decision(stage: Stage) -> None:
    trace = decoded("Judged")
    for step, now in stage.show(trace, "Judged").beside(trace):
        kept, drafted, alone = (int(step.facts[name]) for name in ("accepted", "drafted", "standard"))
        ended = step.commits.tokens[-1] in trace.header.eos_ids
        assert f" of {drafted}; {alone} without the judge." in now["said"][0]
        assert ended or f": {kept} of " in now["said"][0]


@pytest.mark.parametrize(
    ("name", "said"),
    [("Judged", ["8 of {drafted} stay", "0 of {drafted} stay"]), ("Units", ["4 of 4 written", "1 of 4 written"])],
)
def test_a_line_is_moved_by_keys_and_goes_back(stage: Stage, name: str, said: list[str]) -> None:
    trace = decoded(name)
    picture = stage.show(trace, name)
    picture.seek(1)
    back, derived = picture.locator("button", has_text="as recorded"), picture.locator("[aria-live]")
    expect(back).to_be_disabled()
    picture.root.get_by_role("slider").focus()
    for key, words in zip(("Home", "End"), said, strict=True):
        stage.page.keyboard.press(key)
        expect(derived).to_have_text("derived: " + words.format(drafted=int(trace.steps[0].facts.get("drafted", 0))))
    back.click()
    expect(derived).to_have_text("")
    expect(back).to_be_disabled()


def test_tiles_are_the_units_and_marks_are_the_count_of_the_run(stage: Stage) -> None:
    trace = decoded("Units")
    picture = stage.show(trace, "Units", Panel(1900))
    picture.seek(len(trace.steps))
    parted = int(sum(step.facts["checked"] - step.facts["agreed"] for step in trace.steps))
    assert parted
    for selector, n in (
        (".dx-unit", len(trace.steps)),
        (".dx-alone", len(trace.output_ids)),
        ("[data-parted]", parted),
    ):
        expect(picture.seen(selector)).to_have_count(n)
    expect(picture.locator("svg")).to_contain_text(f"{len(trace.output_ids)} model calls")
    expect(picture.root).to_contain_text(f"those that differ from autoregressive decoding: {parted}.")
    stage.panel(390)
    picture.seek(len(trace.steps))
    assert 0 < len(picture.words(".dx-unit")) < len(trace.steps), "the newest that there is room for"


def test_a_ribbon_for_each_copy_says_what_came_from_where(stage: Stage) -> None:
    trace = decoded("Copying")
    picture = stage.show(trace, "Copying")
    for t, said in ((1, "1 model call for 3 tokens, 2"), (5, "5 model calls for 16 tokens, 11")):
        picture.seek(t)
        picture.says(said)
    expect(picture.seen('path[data-s="accepted"]')).to_have_count(sum(s.facts["accepted"] > 0 for s in trace.steps))
    expect(picture.seen('g[data-s="rejected"]')).to_have_count(3)


def test_the_strip_of_passages_and_the_tokens_say_what_the_record_says(stage: Stage) -> None:
    trace = decoded("Passages")
    picture, step = stage.show(trace, "Passages"), trace.steps[0]
    kept = [span for span in step.spans if span.kind == "retrieved"]
    picture.seek(1)
    strip, tokens = picture.locator("svg.dx-tree").nth(0), picture.locator("svg.dx-tree").nth(1)
    assert kept
    expect(strip.locator("g[data-s=accepted]")).to_have_count(len(kept))
    expect(strip.locator("g[data-s=unreached]")).to_have_count(len(step.spans) - len(kept))
    expect(picture.locator("ul")).to_contain_text("Uma has a yellow toy.")
    picture.says(f"Retrieved: {len(kept)} of {len(step.spans)} passages", "2 tokens were accepted only because")
    by = {"draft": "both", "retrieval": "view alone", "target": "the target"}
    expect(tokens.locator("text.dx-small")).to_have_text([by[author] for author in step.commits.authors])
    picture.seek(0)
    expect(picture.readout).not_to_contain_text("In this step")


def test_another_strength_of_retrieval_refuses_the_answer_and_goes_back(stage: Stage) -> None:
    picture = stage.show(decoded("Passages"), "Passages")
    picture.seek(1)
    view = picture.locator(".dx-leaning")
    said, back = view.locator(".dx-readout").first, view.get_by_role("button", name="as recorded")
    looked = view.locator('[aria-pressed="true"]')
    expect(said).to_contain_text("with η = 10, as recorded: 5 of 5; 3 with η = 0")
    expect(back).to_be_disabled()
    expect(looked).to_contain_text("yellow")
    expect(looked.locator('[data-s="mixed"]')).to_have_count(1)
    view.get_by_role("button", name="η = 0").click()
    expect(said).to_have_text(re.compile(r"With η = 0: 3\.$"))
    expect(looked.locator('[data-s="rejected"]')).to_have_count(1)
    view.get_by_role("slider").focus()
    stage.page.keyboard.press("End")
    expect(said).to_contain_text("With η = 50:")
    back.click()
    expect(said).not_to_contain_text("With η")
    expect(looked.locator('[data-s="mixed"]')).to_have_count(1)
    view.locator('[role="group"] button').first.click()
    expect(looked).not_to_contain_text("yellow")


def test_a_record_without_opinions_has_no_strength_to_move(stage: Stage) -> None:
    trace = decoded("Passages")
    for step in trace.steps:
        step.records = {}
    picture = stage.show(trace, "Passages")
    picture.seek(1)
    expect(picture.root).to_be_visible()
    expect(picture.locator(".dx-leaning")).to_be_hidden()


def test_another_first_guess_changes_what_is_ranked_after_it_and_nothing_of_the_control(stage: Stage) -> None:
    trace = decoded("Conveyor")
    picture = stage.show(trace, "Conveyor")
    picture.seek(2)
    buttons = picture.root.get_by_role("group", name="Another first guess").get_by_role("button")
    expect(buttons).to_have_count(4)
    before = picture.now(TOPS)
    bottom = next(top for top, words in before if words == "control")
    buttons.nth(1).click()
    expect(buttons.nth(1)).to_have_attribute("aria-pressed", "true")
    after = picture.now(TOPS)
    percents = [[words for top, words in all_ if top >= bottom + 40] for all_ in (before, after)]
    assert percents[0] == percents[1] and any("%" in words for words in percents[0])
    assert [words for _, words in before] != [words for _, words in after]
    record, tree = trace.steps[1].records["rankings"], trace.steps[1].tree
    row = [row for row in record["rows"] if row and tree.parents[row] == 0 and not tree.accepted[row]][1]
    picture.says(f"({percent(record['ranked'][record['rows'].index(row)]['chances'][0])} %)")


def test_a_run_without_the_link_has_one_belt_on_which_nothing_drops(stage: Stage) -> None:
    trace = engines.run("clover", "tiny-ar-l", "story: Dan, coin", params={"max_new_tokens": 12, "link": False})
    picture = stage.show(trace, "Conveyor")
    picture.seek(2)
    picture.says("each place has one ranking")
    words = picture.words(".dx-tower text")
    assert words.count("drop cut") == 1 and "control" not in words and "guess drops in" not in words


def test_where_the_control_or_the_record_is_missing_the_rest_is_drawn(stage: Stage) -> None:
    trace = decoded("Conveyor")
    for i, step in enumerate(trace.steps):
        step.records = {"rankings": {**step.records["rankings"], "control": []}} if i % 2 else {}
    picture = stage.show(trace, "Conveyor")
    picture.seek(2)
    assert "Clover" in picture.words() and "control" not in picture.words()
    picture.seek(3)
    expect(picture.readout).to_have_text("No draft was made in this step.")
    expect(picture.locator("svg.dx-tower")).to_be_hidden()


def test_the_shares_of_attention_add_up_at_each_place_of_the_bracket(stage: Stage) -> None:
    picture = stage.show(decoded("Fusion"), "Fusion")
    picture.seek(8)
    buttons = picture.root.get_by_role("group", name="Place of the bracket").get_by_role("button")
    expect(buttons).to_have_count(3)
    for place in range(3):
        buttons.nth(place).click()
        expect(buttons.nth(place)).to_have_attribute("aria-pressed", "true")
        shares = picture.now(
            '(view, all) => all("circle").map((one) => one.parentNode.querySelector("title").textContent)'
        )
        assert sum("predicted" in share for share in shares) == place + 1
        percents = [int(share) for text in shares for share in re.findall(r": (\d+) %", text)]
        assert abs(sum(percents) - 100) <= len(shares)


def test_another_window_shows_what_was_recorded_for_it(stage: Stage) -> None:
    trace = decoded("Fusion")
    picture = stage.show(trace, "Fusion")
    picture.seek(8)
    record, tree = trace.steps[7].records["fusing"], trace.steps[7].tree
    path = [row for row in record["rows"] if tree.accepted[row]]
    for window in (1, 2):
        picture.locator("input[type=range]").fill(str(window))
        rankings = [record["readings"][window - 1]["rankings"][record["rows"].index(row)] for row in path]
        right = sum(one["tokens"][0] == token for one, token in zip(rankings, tree.emitted, strict=False))
        said = f"derived: first choice right at {right} of {len(path)} places"
        expect(picture.locator("[aria-live]")).to_have_text(said)
        words = picture.words()
        assert {f"{percent(ranking['chances'][0])} %" for ranking in rankings} <= set(words)
        assert not any(word.startswith("cos") for word in words)
    picture.locator("button", has_text="as recorded").click()
    expect(picture.seen("text").filter(has_text=re.compile("^cos")).first).to_be_visible()


def test_a_step_without_a_record_says_so_and_a_short_text_has_no_places_before_it(stage: Stage) -> None:
    trace = decoded("Fusion")
    trace.steps[4].records = {}
    picture = stage.show(trace, "Fusion")
    picture.seek(5)
    expect(picture.readout).to_have_text("No draft was made in this step.")
    expect(picture.locator("svg.dx-tower")).to_be_hidden()
    picture.seek(6)
    assert any(word.startswith("+") for word in picture.words())
    picture = stage.show(engines.run("chimera", "tiny-ar-l", [40, 41], params={"max_new_tokens": 8, "K": 1}), "Fusion")
    picture.seek(2)
    assert not any(word.startswith("+") for word in picture.words())


@pytest.mark.parametrize("name", [name for name in FURTHER if name.startswith("half columns")])
def test_half_columns_are_as_many_as_tokens_were_guessed(stage: Stage, name: str) -> None:
    trace = decoded(name)
    for step, now in stage.show(trace, "Transferred").beside(trace, etas=".dx-eta", tower="svg.dx-tower"):
        told = step.records["transfer"]
        if "tokens" not in told:
            assert now["said"][0] == "Nothing was guessed for this call." and not now["tower"]
            continue
        assert len(now["etas"]) == len(told["tokens"][0])
        assert f"Call {step.index + 1} accepts {sum(step.tree.accepted) - 1} and writes" in now["said"][0]


def test_the_switch_takes_patches_the_other_way(stage: Stage) -> None:
    trace = decoded("Entering")
    for panel in (Panel(390), Panel()):
        picture = stage.show(trace, "Entering", panel)
        picture.seek(len(trace.steps))
        expect(picture.locator("button")).to_have_count(4)
        for i, way in enumerate(trace.steps[0].records["inputs"]["ways"]):
            picture.locator("button").nth(i).click()
            expect(picture.locator("button").nth(i)).to_have_attribute("aria-pressed", "true")
            expect(picture.locator("button[aria-pressed=true]")).to_have_count(1)
            assert ("Q" in picture.now('(view) => view.querySelector(".dx-exit").getAttribute("d")')) == (
                way == "fused"
            )
            assert picture.locator("svg.dx-tower").evaluate(OUTSIDE) == [], way
            picture.says(" of 36 words." + " Another draft wrote this text." * bool(i))


def test_without_a_picture_there_are_no_patches(stage: Stage) -> None:
    trace = engines.run("msd", "tiny-vlm", "words: red small circle top left", params={"max_new_tokens": 12})
    picture = stage.show(trace, "Entering")
    picture.seek(2)
    picture.says("There is no picture")
    expect(picture.locator("image")).to_be_hidden()
    expect(picture.locator("text", has_text="patches")).to_have_count(0)


def test_a_tree_names_the_passes_that_grew_it_and_the_chances_it_was_grown_by(stage: Stage) -> None:
    picture = stage.show(engines.run("falcon", "tiny-ar-m", "add: 45 + 86", params={"max_new_tokens": 12}), "DraftTree")
    picture.seek(2)
    names = picture.words(".dx-slab + text")
    assert names[0] == "pass 1 drafts levels 1–2 at once"
    assert all(name.startswith(f"pass {i} ") for i, name in enumerate(names, 1))
    trace = engines.run("dyspec", "tiny-ar-l", "story: Mia, boat", params={"max_new_tokens": 12})
    picture = stage.show(trace, "DraftTree")
    picture.seek(1)
    expect(picture.locator(".dx-legend")).to_contain_text("%: estimated chance that the check gets here")
    told = picture.words("g[data-row]")
    known = [f"{float(f'{100 * value:.2g}'):g} % " for value in trace.steps[0].tree.values if value is not None]
    assert known and all(any(share in text for text in told) for share in known)


def test_copies_stand_above_the_columns_of_the_tree_that_they_are_in(stage: Stage) -> None:
    trace, drawn = decoded("DraftTree"), 0
    ways = """(view, all) => [all(".dx-threads path").map((one) => one.getAttribute("d")),
      all(".dx-quiet").map((one) => one.textContent).filter((text) => text.endsWith("taken"))]"""
    picture = stage.show(trace, "DraftTree", Panel(1440))
    for step, (paths, notes) in zip(trace.steps, picture.each(ways)[1:], strict=True):
        taken = [len({cell for _, cell in one.links}) for one in step.tree.guessed_from if one.kind != "model"]
        if not taken:
            continue
        for way in paths:
            (x, _), (end, _) = (pair.split(",") for pair in (way[1:].split("C")[0], way.split(" ")[-1]))
            assert abs(float(x) - float(end)) < 1, way
            drawn += 1
        assert [int(note.split()[0 if note[0] != "…" else 1].replace("none", "0")) for note in notes] == taken
    assert drawn > 8


def test_one_model_in_two_roles_parts_them_where_they_disagree(stage: Stage) -> None:
    trace, parted = decoded("TwoRoles"), 0
    selectors = {"old": "[data-s=old]", "cuts": ".dx-cut", "put": "[data-s=correction]"}
    for step, now in stage.show(trace, "TwoRoles").beside(trace, view=".dx-content", **selectors):
        told, tree = step.records["tworoles"], step.tree
        if not step.index:
            assert "No block was filled in this step." in now["view"][0]
            continue
        wrote, broke = len(tree.emitted), "mismatch" in tree.why
        assert f"{told['accepted']} accepted, {wrote} token{'s' * (wrote != 1)} written." in now["said"][0]
        assert len(now["old"]) == 1  # the text's last token begins the block
        assert (len(now["cuts"]), len(now["put"])) == (broke, 2 * broke)  # among the verdicts, and written
        parted += broke
    assert parted > 1
