"""The frame of the page: what stands where, what is folded, what Run becomes, what is said before it."""

from playwright.sync_api import expect

from tests.page.conftest import LAPTOP


def test_a_prompt_that_a_task_model_cannot_know_is_said_and_a_comparison_on_my_text_begins_with_it(visit):
    screen = visit(folded=True)
    page, said = screen.page, screen.page.locator("#elsewhere .status")
    expect(said).to_be_hidden()
    screen.prompt("What is the capital of France?")
    expect(said).to_contain_text("small tasks only")
    other = page.locator("#elsewhere button")
    name = other.inner_text().split()[1]
    other.click()
    expect(said).to_be_hidden()
    for slot in (0, 1):
        expect(page.locator(f"#slot-{slot} .slot-said")).to_contain_text(name)
    screen.press("Compare on my text")
    prompt = page.locator("#prompt textarea")
    expect(prompt).to_be_focused()
    page.keyboard.press("ControlOrMeta+a")
    page.keyboard.type("Who wrote Faust?")
    expect(prompt).to_have_value("Who wrote Faust?")
    expect(said).to_be_hidden()


def test_a_player_folds_its_rest_for_all_and_remembers_it_and_the_prompt_is_a_chip(visit, traces):
    screen = visit(viewport=LAPTOP, folded=True)
    page, cells = screen.page, screen.player(0).locator(".dx-cells .dx-cell")
    screen.everything()
    chips = page.get_by_role("button", name=f"Prompt, {len(traces[0].header.prompt_ids)} tokens", exact=True)
    for number, state in ((0, "prompt"), (1, "masked")):
        chips.nth(number).click()
        expect(cells.first).to_have_attribute("data-s", state)
    numbers = page.locator("[data-view=Counters]")
    expect(numbers).to_have_count(0)
    screen.player(0).locator(".dx-details > summary").click()
    expect(numbers).to_have_count(2)
    page.reload()
    screen.wait(0, "ready")
    expect(numbers).to_have_count(2)
