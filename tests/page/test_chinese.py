"""Prose in Simplified Chinese, whole or not at all: lessons, methods, the steps of players, errors; and that no tab
shows an English sentence with Chinese words in it."""

from __future__ import annotations

import re

from playwright.sync_api import expect

import engines
from explorer.language import prose
from explorer.page.learn import payload
from explorer.papers.lessons import lessons
from tests.page.test_everybody import all_paths

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


def test_a_lesson_is_chinese_as_a_whole(visit):
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


def test_a_lesson_without_a_translation_is_english_as_a_whole_and_says_so_once(visit):
    english = next(one for one in payload()["lessons"] if one["idea"] not in KNOWN)
    page = opened(visit, f"&lesson={english['method']}")
    expect(page.get_by_text(ONLY)).to_have_count(1)
    for one in (english["problem"], english["idea"], english["watch"], english["question"]):
        expect(page.locator("#lessons article p", has_text=one)).to_have_attribute("lang", "en")
    say = page.locator(".learn-say")
    expect(say).to_have_attribute("lang", "en")
    expect(say).to_have_text(re.compile(r"^Step \d+: [^\u3400-\u9fff]+$"))


def test_the_card_of_a_method_is_chinese(visit):
    info = engines.get_method("creditdecoding").info
    card = opened(visit, f"&method={info.slug}").locator("#chooser .card")
    expect(card).to_contain_text(KNOWN[info.summary])
    expect(card).to_contain_text(KNOWN[info.departures])
    expect(card.locator('[lang="en"]')).to_have_count(0)
    expect(card.page.locator("#chooser .prose-left")).not_to_be_visible()


def test_the_steps_of_players_are_told_in_chinese(visit, shipped):
    """Of four methods: those of the opening, and those of the draft tree."""
    page = opened(visit, at=shipped)
    expect(page.locator("#panel-1 .dx-panel")).to_have_attribute("data-state", "ready")
    for chip in ("", "看草稿树"):
        if chip:
            page.get_by_role("button", name=chip, exact=True).click()
            expect(page.locator("#panel-1 .dx-panel header")).to_contain_text("Token Recycling")
        for slot in (0, 1):
            panel = page.locator(f"#panel-{slot} .dx-panel")
            panel.focus()
            page.keyboard.press("Home")
            for _ in range(3):
                page.keyboard.press("ArrowRight")
                note = panel.locator(".dx-note")
                expect(note).to_have_text(re.compile(r"[\u3400-\u9fff].*。$"))
                expect(note).not_to_have_text(re.compile(LONG))
                expect(note).not_to_have_attribute("lang", "en")


def test_a_step_without_a_translation_is_english_and_marked(visit, shipped):
    english = next(one for one in payload()["lessons"] if one["title"] == "DySpec")
    page = opened(visit, f"&lesson={english['method']}", at=shipped)
    panel = page.locator(".learn-stage .dx-panel").first
    expect(panel).to_have_attribute("data-state", "ready")
    panel.focus()
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    expect(panel.locator(".dx-note")).to_have_text(re.compile(r"^[^\u3400-\u9fff]+$"))
    expect(panel.locator(".dx-note")).to_have_attribute("lang", "en")


def test_no_english_sentence_has_chinese_words_in_it_on_any_tab(visit):
    page = opened(visit)
    paths = all_paths(page)  # what a tab held stays in the document
    assert len(paths) >= 9, paths
    expect(page.locator("#docs-text h1")).to_be_attached()
    assert page.evaluate(MIXED, LONG) == []


def test_a_text_of_docs_is_english_under_one_line_that_says_so(visit):
    page = opened(visit, "&doc=using")
    docs = page.locator("#docs-text")
    expect(docs.locator("h1")).to_have_text("Using the page")
    expect(docs).to_have_attribute("data-said", ONLY)
    assert page.evaluate("document.querySelector('#docs-text h1').closest('[lang]').lang") == "en"
    expect(docs.get_by_text(re.compile(r"[\u3400-\u9fff]"))).to_have_count(0)
    expect(page.locator("#docs-list")).to_contain_text("使用页面")


def test_a_sentence_is_in_one_language(visit):
    said = {
        "No task is chosen; choose at least one.": "没有选择任务；请至少选择一个。",
        "Prompt 3 is empty; write something, or leave it out.": "第 3 个提示词为空；请写点内容，或将它去掉。",
        "k=0 is out of range; give a whole number from 1 to 8.": "k=0 超出范围；请给出 1 到 8 的整数。",
        "k=x is not a whole number; give a whole number from 1 to 8.": "k=x 不是整数；请给出 1 到 8 的整数。",
        "head=x is not offered; choose one of trained, confidence.": "不提供 head=x；请从 trained, confidence 中选择。",
        "answer=x is not offered; choose one of auto, marked, last number, last line.": (
            "不提供 answer=x；请从 auto, marked, last number, last line 中选择。"
        ),
        "By the median a run takes 0.71 s, the control's 1.00 s, for 7 tokens. After the prompt it writes 1.17 tokens "
        "per model call; a call on 9 rows, its mean, costs 0.90 calls on one row here.": (
            "按中位数，一次运行用 0.71 秒，对照用 1.00 秒，写出 7 个词元。读完提示词后，每次模型调用写出 1.17 个词元；"
            "在这台机器上，9 行（平均值）的一次调用耗时相当于 0.90 次单行调用。"
        ),
        "No task is chosen; choose at least one. Nobody translated this.": None,
        "The second of all these things that nobody translated: more": None,
        "Colours are tokens of the text, as many as there are": None,
    }
    told = opened(visit).evaluate("(texts) => texts.map((text) => dxWords.sentence(text))", list(said))
    assert told == [chinese or english for english, chinese in said.items()]


def test_sweeps_are_chinese_in_their_text_their_charts_and_their_tables(visit):
    page = opened(visit)
    page.get_by_role("tab", name="扫参", exact=True).click()
    expect(page.get_by_role("heading", name="方法比普通阈值多带来什么")).to_be_visible()
    for sub in (None, "推测解码"):
        if sub:
            page.get_by_role("tab", name=sub, exact=True).click()
        chart = page.locator("svg.main-svg:visible .gtitle").first
        expect(chart).to_have_text(re.compile(r"[\u3400-\u9fff]"))
        expect(page.locator("svg.main-svg:visible .xtitle, svg.main-svg:visible .ytitle").first).to_have_text(
            re.compile(r"[\u3400-\u9fff]")
        )
        heads = page.locator(".facts th[scope=col]:visible")
        expect(heads.first).to_be_visible()
        assert [head for head in heads.all_inner_texts() if re.search("[A-Za-z]{3}", head)] == []
        for cell in page.locator(".facts td:last-child:visible").all_inner_texts():
            assert not re.search("[A-Za-z]{3}", cell), cell
        assert page.locator('.facts:visible [lang="en"], .prose:visible [lang="en"]').count() == 0
    page.get_by_role("tab", name="ParallelBench", exact=True).click()
    row = page.locator("#pb-points span:visible", has_text="低置信度，每次前向计算 1 个，取 argmax")
    expect(row.first).to_be_visible()


OPENED = """() => { const head = document.querySelector('#user-methods button');
  if (head && !head.classList.contains('open')) head.click();
  return Boolean(head?.classList.contains('open')); }"""


def test_the_warning_beside_a_method_of_ones_own_is_chinese(visit):
    page = opened(visit)
    page.get_by_role("tab", name="方法", exact=True).click()
    page.wait_for_function(OPENED, polling=500)  # a tab that is still being built loses a click
    expect(page.locator("#user-methods strong")).to_have_text(
        "此文件会原样运行，并拥有你的全部权限：只加载你自己编写或读过的文件。"
    )
    expect(page.locator("#user-methods")).to_contain_text("当前没有加载。")
    assert page.locator('#user-methods p[lang="en"]').count() == 0


def test_the_prose_of_results_is_chinese_and_what_a_model_wrote_stays(visit):
    """A run that claims its control's text, beside it; both are cut at their limit."""
    screen = visit("?still&lang=zh-Hans")
    page = screen.page
    page.locator(".slot-form").first.wait_for()
    page.locator(".slot-form").evaluate_all("(forms) => forms.forEach((form) => { form.open = true; })")
    screen.prompt("copy: Ada, Ben, Ada, Ben, Ada, Ben")
    screen.method(0, "greedy")
    screen.method(1, "prompt-lookup")
    for slot in (0, 1):
        screen.model(slot, "tiny-ar-l")
    page.get_by_role("button", name="运行", exact=True).click()
    row = page.locator(".facts:visible tbody tr").nth(1)
    cell = row.locator("td").last
    expect(cell).to_contain_text(re.compile(r"\d+ 个词元相同（float32）。"))
    expect(row.locator('[lang="en"]')).to_have_count(0)
    assert not re.search(LONG, cell.inner_text())


def test_names_of_scores_are_chinese_in_legend_choice_and_inspector(shipped, visit):
    page = opened(visit, at=shipped, viewport={"width": 1440, "height": 900})
    page.get_by_role("button", name="前进一步").first.click()
    panel = page.locator("#panel-1")
    expect(page.locator(".scene-legend, #panel-1 .dx-legend").filter(has_text="置信度").first).to_be_visible()
    expect(panel.get_by_label("着色依据").locator("option").filter(has_text="置信度")).to_have_count(1)
    panel.locator(".dx-board .dx-cell").filter(has_text="Leo").last.click()
    inspector = panel.locator(".dx-pop")
    expect(inspector.get_by_role("rowheader", name="置信度", exact=True)).to_be_visible()
    expect(inspector).to_contain_text("阈值 0.900")
    assert "confidence" not in page.locator("#players").inner_text()
