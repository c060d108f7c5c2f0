"""Prose in Simplified Chinese, whole or not at all: lessons, methods, the steps of players, errors; and that no tab
shows an English sentence with Chinese words in it."""

import re

from playwright.sync_api import expect

import engines
from explorer.language import prose
from explorer.page.learn import payload
from explorer.papers.lessons import lessons

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


def test_lessons_cards_and_sentences_are_in_one_language_as_a_whole(visit):
    told = next(one for one in lessons() if one.method == "token-recycling")
    page = opened(visit, "&lesson=token-recycling")
    text = page.locator("#lessons article")
    for one in (told.problem, told.idea, told.watch, told.question):
        expect(text.filter(has_text=KNOWN[one])).to_be_visible()
    stop = told.stops[-1]
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
    expect(docs).to_have_attribute("data-said", ONLY)  # English as a whole, and says so once
    expect(docs.get_by_text(re.compile(r"[\u3400-\u9fff]"))).to_have_count(0)
    english = next(one for one in payload()["lessons"] if one["title"] == "DySpec")
    page.goto(f"{address}?still&lang=zh-Hans&lesson={english['method']}")
    expect(page.get_by_text(ONLY)).to_have_count(1)
    for one in (english["problem"], english["question"]):
        expect(page.locator("#lessons article p", has_text=one)).to_have_attribute("lang", "en")
