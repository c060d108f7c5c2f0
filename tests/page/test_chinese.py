"""Prose in Simplified Chinese, whole or not at all: lessons, methods, the steps of players, errors; and that no tab
shows an English sentence with Chinese words in it."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

import engines
from explorer.language import prose
from explorer.page.learn import payload
from explorer.papers.lessons import lessons
from tests.page.conftest import LAPTOP

KNOWN = prose.translations("zh-Hans")
ONLY = "以下说明仅有英文。"
LONG = r"(?:\b[a-z]{2,}[,;]? ){3}[a-z]{2,}\b"
MIXED = """(long) => {
  const closed = '[translate="no"]:not(.card *), [lang="en"], textarea, script, style, pre, code, option, svg';
  const blocks = "p, li, h1, h2, h3, h4, td, th, dd, dt, span, label, button, summary";
  const found = [];
  for (const node of document.querySelectorAll(blocks)) {
    if (node.closest(closed) || node.querySelector("p, li, div, button, label, table, dd, dt")) continue;
    const copy = node.cloneNode(true);
    for (const one of copy.querySelectorAll(closed)) one.remove();
    const text = copy.textContent;
    if (/[\\u3400-\\u9fff]/.test(text) && new RegExp(long).test(text)) found.push(text);
  }
  return found;
}"""


def opened(visit, query="", **options):
    page = visit(f"?still&lang=zh-Hans{query}", **options).page
    expect(page.get_by_role("tab", name="探索", exact=True)).to_be_visible()
    return page


def lesson(method):
    return next(one for one in lessons() if one.method == method)


def test_lessons_cards_and_sentences_are_in_one_language_as_a_whole(visit):
    told = lesson("token-recycling")
    page = opened(visit, "&lesson=token-recycling")
    text = page.locator("#lessons article")
    for one in (told.problem, told.idea, told.watch, told.question, told.stops[0].say):
        expect(text.filter(has_text=KNOWN[one])).to_be_visible()
    for stop in told.stops:
        page.locator(f'.learn-stops [data-step="{stop.step}"]').click()
        expect(page.locator(".learn-say")).to_have_text(f"第 {stop.step} 步：{KNOWN[stop.say]}")
    expect(page.locator('#lessons article [lang="en"]')).to_have_count(0)
    expect(page.locator("#lessons")).not_to_contain_text(ONLY)
    said = {
        "k=0 is out of range; give a whole number from 1 to 8.": "k=0 超出范围；请给出 1 到 8 的整数。",
        "head=x is not offered; choose one of trained, confidence.": "不提供 head=x；请从 trained, confidence 中选择。",
        "By the median a run takes 0.71 s, the control's 1.00 s, for 7 tokens. After the prompt it writes 1.17 tokens "
        "per model call; a call on 9 rows, its mean, costs 0.90 calls on one row here.": (
            "按中位数，一次运行用 0.71 秒，对照用 1.00 秒，写出 7 个词元。读完提示词后，每次模型调用写出 1.17 个词元；"
            "在这台机器上，9 行（平均值）的一次调用耗时相当于 0.90 次单行调用。"
        ),
        "No task is chosen; choose at least one. Nobody translated this.": None,
        "Colours are tokens of the text, as many as there are": None,
    }
    found = page.evaluate("(texts) => texts.map((text) => dxWords.sentence(text))", list(said))
    assert found == [chinese or english for english, chinese in said.items()]
    info = engines.get_method("creditdecoding").info
    address = page.url.split("?")[0]
    page.goto(f"{address}?still&lang=zh-Hans&method={info.slug}")
    card = page.locator("#chooser .card")
    expect(card).to_contain_text(KNOWN[info.summary])
    expect(card).to_contain_text(KNOWN[info.departures])
    expect(card.locator('[lang="en"]')).to_have_count(0)
    expect(page.locator("#chooser .prose-left")).not_to_be_visible()
    page.goto(f"{address}?still&lang=zh-Hans&doc=using")
    docs = page.locator("#docs-text")
    expect(docs.locator("h1")).to_have_text("Using the page")
    expect(docs).to_have_attribute("data-said", ONLY)
    expect(page.locator('[lang="en"]').filter(has=page.locator("h1", has_text="Using the page"))).not_to_have_count(0)
    expect(docs.get_by_text(re.compile(r"[\u3400-\u9fff]"))).to_have_count(0)
    expect(page.locator("#docs-list")).to_contain_text("使用页面")


@pytest.mark.pages
def test_a_lesson_without_a_translation_is_english_as_a_whole_and_says_so_once(visit, shipped):
    english = next(one for one in payload()["lessons"] if one["title"] == "DySpec")
    page = opened(visit, f"&lesson={english['method']}", at=shipped)
    expect(page.get_by_text(ONLY)).to_have_count(1)
    for one in (english["problem"], english["idea"], english["watch"], english["question"]):
        expect(page.locator("#lessons article p", has_text=one)).to_have_attribute("lang", "en")
    say, note = page.locator(".learn-say"), page.locator(".learn-stage .dx-panel .dx-note").first
    expect(say).to_have_attribute("lang", "en")
    expect(say).to_have_text(re.compile(r"^Step \d+: [^\u3400-\u9fff]+$"))
    panel = page.locator(".learn-stage .dx-panel").first
    expect(panel).to_have_attribute("data-state", "ready")
    panel.press("Home")
    panel.press("ArrowRight")
    expect(note).to_have_text(re.compile(r"^[^\u3400-\u9fff]+$"))
    expect(note).to_have_attribute("lang", "en")


@pytest.mark.pages
def test_the_steps_of_players_and_the_names_of_scores_are_chinese(visit, shipped):
    """Of four methods: those of the opening, and those of the draft tree."""
    page = opened(visit, at=shipped, viewport=LAPTOP)
    expect(page.locator("#panel-1 .dx-panel")).to_have_attribute("data-state", "ready")
    page.get_by_role("button", name="前进一步").first.click()
    second = page.locator("#panel-1")
    expect(page.locator(".scene-legend, #panel-1 .dx-legend").filter(has_text="置信度").first).to_be_visible()
    expect(second.get_by_label("着色依据").locator("option").filter(has_text="置信度")).to_have_count(1)
    second.locator(".dx-board .dx-cell").filter(has_text="Leo").last.click()
    inspector = second.locator(".dx-pop")
    expect(inspector.get_by_role("rowheader", name="置信度", exact=True)).to_be_visible()
    expect(inspector).to_contain_text("阈值 0.900")
    expect(page.locator("#players")).not_to_contain_text("confidence", use_inner_text=True)
    page.keyboard.press("Escape")
    for chip in ("", "看草稿树"):
        if chip:
            page.get_by_role("button", name=chip, exact=True).click()
            expect(page.locator("#panel-1 .dx-panel header")).to_contain_text("Token Recycling")
            expect(page.locator("#panel-0 .dx-panel")).to_have_attribute("data-state", "playing")  # as a scene does
            page.locator("#panel-0 .dx-panel").press("Space")
            expect(page.locator("#panel-0 .dx-panel")).to_have_attribute("data-state", "ready")
        for slot in (0, 1):
            panel, note = page.locator(f"#panel-{slot} .dx-panel"), page.locator(f"#panel-{slot} .dx-note")
            panel.press("Home")
            expect(panel).to_have_attribute("data-step", "0")
            for step in range(1, 4):
                panel.press("ArrowRight")
                expect(panel).to_have_attribute("data-step", str(step))
                expect(note).to_have_text(re.compile(r"[\u3400-\u9fff].*。$"))
                expect(note).not_to_have_text(re.compile(LONG))
                expect(note).not_to_have_attribute("lang", "en")


@pytest.mark.pages
def test_sweeps_are_chinese_in_their_text_their_charts_and_their_tables(visit):
    page = opened(visit)
    page.get_by_role("tab", name="扫参", exact=True).click()
    expect(page.get_by_role("heading", name="方法比普通阈值多带来什么")).to_be_visible()
    word, chinese = re.compile("[A-Za-z]{3}"), re.compile(r"[\u3400-\u9fff]")
    for sub in (None, "推测解码"):
        if sub:
            page.get_by_role("tab", name=sub, exact=True).click()
        expect(page.locator("svg.main-svg:visible .gtitle").first).to_have_text(chinese)
        expect(page.locator("svg.main-svg:visible .xtitle, svg.main-svg:visible .ytitle").first).to_have_text(chinese)
        heads = page.locator(".facts th[scope=col]:visible")
        expect(heads.first).to_be_visible()
        expect(heads.filter(has_text=word)).to_have_count(0)
        expect(page.locator(".facts td:last-child:visible").filter(has_text=word)).to_have_count(0)
        expect(page.locator('.facts:visible [lang="en"], .prose:visible [lang="en"]')).to_have_count(0)
    page.get_by_role("tab", name="ParallelBench", exact=True).click()
    row = page.locator("#pb-points span:visible", has_text="低置信度，每次前向计算 1 个，取 argmax")
    expect(row.first).to_be_visible()
    page.get_by_role("tab", name="方法", exact=True).click()
    page.locator("#chooser").get_by_role("button", name="编写自己的规则").click()
    expect(page.locator("#user-methods strong")).to_have_text(
        "此文件会原样运行，并拥有你的全部权限：只加载你自己编写或读过的文件。"
    )
    expect(page.locator('#user-methods p[lang="en"]')).to_have_count(0)


@pytest.mark.pages
def test_the_prose_of_results_is_chinese_and_what_a_model_wrote_stays(visit):
    """A run that claims its control's text, beside it; both are cut at their limit."""
    screen = visit("?still&lang=zh-Hans")
    page = screen.page
    page.locator(".slot-form").first.wait_for()
    page.locator(".slot-form").evaluate_all("(forms) => forms.forEach((form) => { form.open = true; })")
    screen.prompt("copy: Ada, Ben, Ada, Ben, Ada, Ben")
    for slot, method in enumerate(("greedy", "prompt-lookup")):
        screen.method(slot, method)
        screen.model(slot, "tiny-ar-l")
    page.get_by_role("button", name="运行", exact=True).click()
    row = page.locator(".facts:visible tbody tr").nth(1)
    expect(row.locator("td").last).to_contain_text(re.compile(r"\d+ 个词元相同（float32）。"))
    expect(row.locator('[lang="en"]')).to_have_count(0)
    expect(row.locator("td").last).not_to_have_text(re.compile(LONG))
