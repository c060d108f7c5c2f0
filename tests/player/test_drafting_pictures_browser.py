"""The pictures of drafting say what was recorded: chains and trees, who judged them, and what another line or choice
would have made of the same step."""

import pytest
from playwright.sync_api import expect

import engines
from tests.player.pictures import OUTSIDE, Panel, Stage, decoded

TOPS = """(view, all) => { const { top } = view.querySelector(".dx-tower").getBoundingClientRect();
  return all(".dx-tower text").map((one) => [Math.round(one.getBoundingClientRect().top - top), one.textContent]); }"""


def percent(share: float) -> int:
    return int(100 * share + 0.5)


@pytest.mark.parametrize(
    ("name", "nothing"),
    [
        ("MaskBlock", "No block was filled in this step."),
        ("SharedState", "Nothing was drafted in this step."),
    ],
)
def test_a_draft_at_once_is_cut_where_the_model_parted_from_it(stage: Stage, name: str, nothing: str) -> None:
    trace, cut = decoded(name), 0
    for step, now in stage.show(trace, name).beside(trace, cuts="path.dx-cut"):
        told, words = step.records.get(name.lower(), {}), " ".join(now["words"])
        if not told.get("tokens"):
            assert now["said"] == [nothing]
            continue
        n, refused = len(told["tokens"]), "mismatch" in step.tree.why  # not behind an accepted end mark
        assert f"{int(step.facts['accepted'])} accepted" in now["said"][0] and len(now["cuts"]) == refused
        if name == "MaskBlock":
            assert f"fills {n} masks after" in now["said"][0] and f"context: {told['context']} rows" in words
        else:
            assert f"token by token: {n} passes" in words
        cut += refused
    assert cut


def test_each_early_draft_is_a_hop_and_a_moved_threshold_decides_again(stage: Stage) -> None:
    trace = decoded("EarlyExit")
    picture = stage.show(trace, "EarlyExit")
    hops = """(view, all) => [view.querySelector(".dx-readout").textContent,
      all(".dx-arc").map(({ parentNode }) => [parentNode.dataset.s, parentNode.lastChild.textContent])]"""
    for step, (said, drawn) in zip(trace.steps, picture.each(hops)[1:], strict=True):
        told, wrote = step.records["early_exit"], len(step.commits.tokens)
        states = {True: "rejected", False: "accepted"}
        assert drawn == [[states[sure < told["eta"]], f"{percent(sure)} %"] for sure in told["confidence"]]
        assert f"{wrote} token{'s' if wrote > 1 else ''} from one model call." in said
    all_ = [step.records["early_exit"]["confidence"] for step in trace.steps]
    sure = max(all_, key=len)
    picture.seek(all_.index(sure) + 1)
    for eta in (0.0, 0.5, 0.99, 1.0):
        picture.locator("input[type=range]").fill(str(eta))
        n = next((i for i, chance in enumerate(sure, 1) if chance < eta), len(sure))
        expect(picture.locator("[aria-live]")).to_contain_text(f"derived: {n} of {len(sure)} drafted token")


def test_the_recorded_line_of_a_judge_gives_the_recorded_decision_and_keys_move_it(stage: Stage) -> None:
    trace = decoded("Judged")
    picture = stage.show(trace, "Judged")
    for step, now in picture.beside(trace):
        kept, drafted, alone = (int(step.facts[name]) for name in ("accepted", "drafted", "standard"))
        ended = step.commits.tokens[-1] in trace.header.eos_ids
        assert f" of {drafted}; {alone} without the judge." in now["said"][0]
        assert ended or f": {kept} of " in now["said"][0]
    picture.seek(1)
    back, derived = picture.locator("button", has_text="as recorded"), picture.locator("[aria-live]")
    expect(back).to_be_disabled()
    picture.root.get_by_role("slider").focus()
    for key, n in (("Home", 8), ("End", 0)):
        stage.page.keyboard.press(key)
        expect(derived).to_have_text(f"derived: {n} of {int(trace.steps[0].facts['drafted'])} stay")
    back.click()
    expect(derived).to_have_text("")


def test_another_first_guess_changes_what_is_ranked_after_it_and_nothing_of_the_control(stage: Stage) -> None:
    trace = decoded("Conveyor")
    picture = stage.show(trace, "Conveyor")
    picture.seek(2)
    buttons = picture.root.get_by_role("group", name="Another first guess").get_by_role("button")
    before = picture.now(TOPS)
    bottom = next(top for top, words in before if words == "control") + 40
    buttons.nth(1).click()
    expect(buttons.nth(1)).to_have_attribute("aria-pressed", "true")
    after = picture.now(TOPS)
    assert [words for _, words in before] != [words for _, words in after]
    shares, again = ([words for top, words in all_ if top >= bottom] for all_ in (before, after))
    assert shares == again and any("%" in words for words in shares)
    record, tree = trace.steps[1].records["rankings"], trace.steps[1].tree
    row = [row for row in record["rows"] if row and tree.parents[row] == 0 and not tree.accepted[row]][1]
    picture.says(f"({percent(record['ranked'][record['rows'].index(row)]['chances'][0])} %)")


def test_where_a_record_is_missing_the_rest_is_drawn(stage: Stage) -> None:
    nothing = "No draft was made in this step."
    trace = decoded("Conveyor")
    trace.steps[1].records["rankings"]["control"], trace.steps[2].records = [], {}
    picture = stage.show(trace, "Conveyor")
    picture.seek(2)
    assert "Clover" in picture.words() and "control" not in picture.words()
    picture.seek(3)
    expect(picture.readout).to_have_text(nothing)
    trace = engines.run("msd", "tiny-vlm", "words: red small circle top left", params={"max_new_tokens": 12})
    picture = stage.show(trace, "Entering")
    picture.seek(2)
    picture.says("There is no picture")
    expect(picture.locator("image")).to_be_hidden()


@pytest.mark.parametrize("width", [390, 1280])
def test_the_switch_takes_patches_the_other_way(stage: Stage, width: int) -> None:
    trace = decoded("Entering")
    picture = stage.show(trace, "Entering", Panel(width))
    picture.seek(len(trace.steps))
    buttons, exit_ = picture.locator("button"), '(view) => view.querySelector(".dx-exit").getAttribute("d")'
    for i, way in enumerate(trace.steps[0].records["inputs"]["ways"]):
        buttons.nth(i).click()
        expect(picture.locator("button[aria-pressed=true]")).to_have_text(buttons.nth(i).text_content())
        assert ("Q" in picture.now(exit_)) == (way == "fused")
        assert picture.locator("svg.dx-tower").evaluate(OUTSIDE) == [], way
        picture.says(" of 36 words." + " Another draft wrote this text." * bool(i))


def test_a_tree_names_the_chances_it_was_grown_by(stage: Stage) -> None:
    trace = engines.run("dyspec", "tiny-ar-l", "story: Mia, boat", params={"max_new_tokens": 12})
    picture = stage.show(trace, "DraftTree")
    picture.seek(1)
    told = picture.words("g[data-row]")
    known = [f"{float(f'{100 * value:.2g}'):g} % " for value in trace.steps[0].tree.values if value is not None]
    assert known and all(any(share in text for text in told) for share in known)


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
