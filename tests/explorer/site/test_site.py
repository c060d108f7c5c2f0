"""The static site, opened from disk: every page is quiet, every link leads somewhere, the player plays."""

import html
import io
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from PIL import Image, ImageStat
from playwright.sync_api import Browser, Page, expect

from engines import UserError, list_methods
from explorer import lecture
from explorer.cli import main
from explorer.export.html import export_lecture
from explorer.papers import listing, read
from explorer.papers.documents import documents
from explorer.papers.lessons import glossary, lessons
from explorer.runs.gallery import Gallery, gallery
from explorer.runs.scenarios import scenarios
from explorer.site import MARKER, build, compose
from tests.explorer.test_recordings import FEW
from tests.player.handmade import HOSTILE, hostile, masked

EACH = 158_000  # bytes of the site for a recording: its data, page, figures and its share of all else
PICTURES = """() => Promise.all([...document.images].map((picture) => {
  picture.loading = "eager";
  return picture.decode().then(() => picture.naturalWidth > 0, () => false);
}))"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("out") / "site"
    report = build(out)
    assert report.broken == {} and report.pages == len(list(out.rglob("*.html")))
    return out


@pytest.fixture(scope="module")
def few(tmp_path_factory: pytest.TempPathFactory) -> tuple[Gallery, Path]:
    """The runs that the first page shows, two of others' methods and one that only a lever shows; and their site."""
    folder = tmp_path_factory.mktemp("few") / "traces"
    folder.mkdir()
    hidden = next(card.id for card in gallery().cards if not card.listed)
    for name in {*gallery().opening(), *(card.id for card in gallery().cards[-2:]), hidden}:
        shutil.copy(gallery().path(name), folder)
    (folder.parent / "gallery.json").write_text(f'[{{"id": "{hidden}", "listed": false}}]', "utf-8")
    shown, out = Gallery(folder), folder.parent / "site"
    assert build(out, shown).broken == {} and not (out / "runs" / f"{hidden}.html").exists()
    return shown, out


@pytest.fixture(params=["few", pytest.param("all", marks=pytest.mark.exhaustive)])
def either(request: pytest.FixtureRequest) -> tuple[Gallery, Path]:
    return request.getfixturevalue("few") if request.param == "few" else (gallery(), request.getfixturevalue("site"))


@pytest.fixture(scope="module")
def foreign(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A site of traces that somebody made to hurt us."""
    folder = tmp_path_factory.mktemp("foreign") / "traces"
    folder.mkdir()
    trace = hostile()
    trace.header.title = trace.header.method = HOSTILE[0]
    trace.header.prompt = "".join(HOSTILE[:9])
    for step in trace.steps:
        step.note = HOSTILE[1]
    (folder / "a <b>&.json").write_text(trace.to_json())
    (folder / "broken.json").write_text("{")
    out = folder.parent / "site"
    assert set(build(out, Gallery(folder)).broken) == {"broken"}
    return out


class Watched:
    """A page from disk with everything that a quiet page must not do."""

    def __init__(self, page: Page) -> None:
        self.page, self.asked, self.complaints = page, list[str](), list[str]()
        page.on("request", lambda r: self.asked.append(r.url))
        page.on("console", lambda m: self.complain(m.text) if m.type in ("error", "warning") else None)
        page.on("pageerror", self.complain)
        page.on("requestfailed", lambda r: None if "ABORTED" in str(r.failure) else self.complain(r.url))

    def complain(self, what: object) -> None:
        self.complaints.append(f"{self.page.url}: {what}")

    def open(self, path: Path) -> Page:
        self.page.goto(path.as_uri())
        return self.page


@pytest.fixture
def watched(browser: Browser) -> Iterator[Watched]:
    one = Watched(browser.new_page(viewport={"width": 1200, "height": 900}, offline=True))
    yield one
    assert one.complaints == []
    assert [url for url in one.asked if not url.startswith(("file:", "data:"))] == []
    one.page.close()


def places(path: Path) -> set[str]:
    return {html.unescape(one) for one in re.findall(r'<[^>]* id="([^"]*)"', path.read_text("utf-8"))}


def test_every_internal_link_resolves_and_no_script_stands_in_a_page(either: tuple[Gallery, Path]):
    shown, site = either
    pages = {path: places(path) for path in site.rglob("*.html")}
    listed = {f"runs/{card.id}.html" for card in shown.cards if card.listed}
    assert listed <= {path.relative_to(site).as_posix() for path in pages}
    for path in pages:
        text = path.read_text("utf-8")
        assert not re.search(r"<script(?![^>]* src=)|<[^>]* on\w+=", text), path
        for target in map(html.unescape, re.findall(r'<[^>]* (?:href|src)="([^"]+)"', text)):
            if target.startswith(("https:", "data:")):
                assert target == "data:," or target.startswith("https://arxiv.org/abs/")
                continue
            file, _, place = target.partition("#")
            at = (path.parent / file).resolve() if file else path
            assert at.is_file() and at.is_relative_to(site.resolve()), f"{path.name} refers to {target}"
            assert not place or place in (pages[at] if at in pages else places(at)), f"{path.name}: {target}"


@pytest.mark.parametrize("which", ["two", pytest.param("all", marks=pytest.mark.pages)])
def test_pages_load_quietly_and_have_their_players(site: Path, watched: Watched, which: str):
    """A run and a comparison; or all but most of the lessons and runs, which are made by the same two functions: the
    runs that have everything among them, and one lesson of each family."""
    paths = [sorted(site.glob(f"{kind}/*.html"))[0] for kind in ("runs", "compare")]
    if which == "all":
        shown = {info.family: info.slug for info in list_methods() if not info.file}
        paths = [*sorted(site.glob("*.html")), *sorted(site.glob("compare/*.html"))]
        paths += [site / "runs" / f"{card.id}.html" for card in gallery().cards if card.id in FEW and card.listed]
        paths += [site / "lessons" / f"{slug}.html" for slug in shown.values()]
    for path in paths:
        page = watched.open(path)
        expect(page.locator("h1")).to_have_count(1)
        assert set(page.evaluate(PICTURES)) <= {True}
        players = re.findall(r'data-play="([^"]*)"', path.read_text("utf-8"))
        expect(page.locator(".dx-panel")).to_have_count(len(" ".join(players).split()))
        expect(page.locator('.dx-panel[data-state="error"]')).to_have_count(0)


def test_the_first_page_plays_its_scene_and_has_its_voice_its_lever_and_its_colours(site: Path, watched: Watched):
    page = watched.open(site / "index.html")
    panels = page.locator(".dx-panel")
    expect(panels).to_have_count(2)
    shorter = list(gallery().opening().values())[1]
    expect(panels.nth(1)).to_have_attribute("data-step", str(len(shorter.steps)), timeout=60_000)
    scene = scenarios([card.id for card in gallery().cards])[0]
    assert scene.lever
    expect(page.locator(".scene-question")).to_have_text(scene.question)
    move = "(lever, at) => { lever.value = at; lever.dispatchEvent(new Event('input')); }"
    for at, stop in enumerate(scene.lever.stops):
        page.locator("#scene-lever").evaluate(move, at)
        expect(page.locator(".scene-says")).to_have_text(stop.say)
        expect(panels.nth(1)).to_have_attribute("data-step", str(stop.calls))
    light = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.get_by_role("button", name="Change to dark colours").click()
    expect(page.locator("body")).not_to_have_css("background-color", light)
    expect(panels.first).to_have_css("--dx-mode", "dark")
    watched.open(site / "gallery.html")
    expect(page.locator("h1")).to_be_visible()
    expect(page.locator("body")).not_to_have_css("background-color", light)


def test_a_lesson_goes_to_its_stops_by_keyboard_too(site: Path, watched: Watched):
    lesson = lessons()[0]
    page = watched.open(site / "lessons" / f"{lesson.method}.html")
    for stop in lesson.stops:
        button = page.get_by_role("button", name=f"Go to step {stop.step}", exact=True)
        button.focus()
        page.keyboard.press("Enter")
        expect(page.locator(".dx-panel")).to_have_attribute("data-step", str(stop.step))
        expect(button).to_have_attribute("aria-pressed", "true")
    expect(page.get_by_text(lesson.answer)).to_be_hidden()
    page.get_by_text(lesson.question).click()
    expect(page.get_by_text(lesson.answer)).to_be_visible()


def test_all_papers_stand_in_the_table_and_can_be_found(site: Path, watched: Watched):
    page = watched.open(site / "methods.html")
    rows, papers = page.locator("#papers tbody tr"), read().papers
    expect(rows).to_have_count(len(papers))
    wanted = [f"paper-{paper.id}" for paper in read().all()]
    wanted += [f"method-{slug}" for paper in read().all() for slug in paper.methods]
    there = places(site / "methods.html")
    assert sorted(one for one in there if one.startswith(("paper-", "method-"))) == sorted(wanted)
    page.get_by_label("Find").fill(papers[0].name)
    expect(rows.locator("visible=true").first.locator("th")).to_have_text(re.compile(f"^{re.escape(papers[0].name)}"))
    assert (site / "glossary.html").read_text("utf-8").count("<dt") == len(glossary())


def test_what_was_measured_is_listed_searched_and_sorted(site: Path, watched: Watched):
    page = watched.open(site / "sweeps.html")
    titles = [found.title for found in listing.by_name().values()]
    index, rows = page.locator("#measured"), page.locator("#measured tbody tr")
    assert rows.get_by_role("link").all_inner_texts() == titles
    index.get_by_role("button", name="subject").click()
    expect(index.get_by_role("columnheader", name="subject")).to_have_attribute("aria-sort", "ascending")
    subjects = rows.locator("td:nth-child(2)").all_inner_texts()
    assert subjects == sorted(subjects, key=str.lower) and len(set(subjects)) > 10
    page.locator("[data-filter=measured]").fill("needles")
    expect(page.locator("#measured-count")).to_have_text(f"3 of {len(titles)}")
    rows.get_by_role("link").locator("visible=true").first.click()
    assert page.url.rpartition("#")[2] in listing.by_name()
    assert page.evaluate("document.getElementById(location.hash.slice(1)).nextElementSibling !== null")
    table = watched.open(site / "docs" / "papers.html").locator("#papers")
    expect(table.get_by_role("row")).to_have_count(len(listing.table("papers").rows) + 1)


def test_pictures_of_cards_are_dark_on_a_dark_site(few: tuple[Gallery, Path], browser: Browser):
    page = browser.new_page(color_scheme="light")
    page.goto((few[1] / "gallery.html").as_uri())
    page.evaluate("document.documentElement.classList.add('dark')")
    for picture in page.locator(".card img:visible").all()[:3]:
        picture.scroll_into_view_if_needed()
        picture.evaluate("(image) => image.decode()")
        seen = Image.open(io.BytesIO(picture.screenshot())).convert("L")
        assert ImageStat.Stat(seen).mean[0] < 128  # of 255: drawn on white, each is above
    page.close()


@pytest.mark.parametrize("which", ["first", pytest.param("all", marks=pytest.mark.pages)])
def test_on_a_phone_nothing_hangs_over_and_nothing_moves_unasked(site: Path, browser: Browser, which: str):
    """The first page; every page of its own kind, and one of each kind of which there are many."""
    page = browser.new_page(viewport={"width": 390, "height": 800}, is_mobile=True, reduced_motion="reduce")
    page.clock.install()
    paths = [site / "index.html"]
    if which == "all":
        one_each = [sorted((site / folder).glob("*.html"))[0] for folder in ("docs", "lessons", "runs", "compare")]
        paths = [*one_each, *sorted(site.glob("*.html")), site / "index.html"]
    for path in paths:
        page.goto(path.as_uri())
        page.wait_for_function("document.documentElement.scrollWidth <= 390")
    expect(page.locator(".dx-panel").first).to_have_attribute("data-state", "ready")
    page.clock.run_for(5000)
    expect(page.locator(".dx-panel").first).to_have_attribute("data-step", "0")
    page.close()


def test_without_javascript_the_text_is_there(site: Path, browser: Browser):
    page = browser.new_page(java_script_enabled=False)
    page.goto(sorted(site.glob("runs/*.html"))[0].as_uri())
    card = gallery().cards[0]
    for said in (card.prompt, card.text.strip().splitlines()[0], "needs JavaScript"):
        expect(page.locator("main")).to_contain_text(said, use_inner_text=True)
    expect(page.locator("main")).to_contain_text("step 0: calls")
    lesson = (site / "lessons" / f"{lessons()[0].method}.html").read_text("utf-8")
    assert lessons()[0].stops[0].say in html.unescape(lesson)
    page.close()


@pytest.mark.parametrize("which", ["few", pytest.param("all", marks=pytest.mark.pages)])
def test_hostile_text_stays_text(foreign: Path, watched: Watched, which: str):
    assert [path.name for path in foreign.glob("runs/*")] == ["a-b.html"]
    others = sorted(foreign.rglob("*.html")) if which == "all" else [foreign / "gallery.html"]
    for path in (*others, foreign / "runs" / "a-b.html"):
        page = watched.open(path)
        expect(page.locator("h1")).to_be_visible()
        expect(page.locator("img[src=x]")).to_have_count(0)
        assert page.evaluate("window.hacked") is None
    expect(page.locator("h1")).to_contain_text(HOSTILE[0])
    expect(page.locator("main")).to_contain_text(HOSTILE[1])
    assert not re.search("[\u202a-\u202e\u2028]", (foreign / "runs" / "a-b.html").read_text("utf-8"))
    page.locator(".dx-panel").press("End")
    expect(page.locator(".dx-panel")).to_have_attribute("data-step", str(len(hostile().steps)))
    assert page.evaluate("window.hacked") is None


def test_the_same_traces_give_the_same_bytes_and_a_sensible_size(either: tuple[Gallery, Path]):
    shown, site = either
    made, files = compose(shown), [path for path in site.rglob("*") if path.is_file() and path.name != MARKER]
    assert made == {path.relative_to(site).as_posix(): path.read_text("utf-8") for path in files}
    if len(shown.cards) == len(gallery().cards):
        assert sum(len(text.encode()) for text in made.values()) < EACH * sum(card.listed for card in shown.cards)


def test_only_an_empty_folder_or_a_site_of_ours_is_written(tmp_path: Path, capsys):
    traces, other, out = tmp_path / "traces", tmp_path / "other", tmp_path / "out"
    for folder in (traces, other, tmp_path / "none"):
        folder.mkdir()
    (traces / "one.json").write_text(masked().to_json())
    (other / "mine.txt").write_text("keep me")
    assert main(["site", str(other), "--traces", str(traces)]) == 2
    assert "is not empty and was not written by this command" in capsys.readouterr().err
    assert [path.name for path in other.iterdir()] == ["mine.txt"]
    assert main(["site", str(out), "--traces", str(traces)]) == 0 and (out / "runs" / "one.html").is_file()
    (traces / "one.json").rename(traces / "two.json")
    (out / "mine.txt").write_text("keep me")
    assert main(["site", str(out), "--traces", str(traces)]) == 0
    assert [path.name for path in (out / "runs").iterdir()] == ["two.html"] and (out / "mine.txt").is_file()
    (out / MARKER).write_text("../traces/two.json\nmine.txt/../../traces/two.json\n")
    assert main(["site", str(out), "--traces", str(traces)]) == 0 and (traces / "two.json").is_file()
    for name, said in ((traces / "two.json", "is a file"), (tmp_path / "a" / "b", "there is no folder")):
        with pytest.raises(UserError, match=said):
            build(name)
    with pytest.raises(UserError, match="no recorded run"):
        build(tmp_path / "nothing", Gallery(tmp_path / "none"))


def test_every_text_is_a_page_and_keeps_its_words(few: tuple[Gallery, Path]):
    _, site = few
    for name, title in documents().items():
        text = (site / "docs" / f"{name}.html").read_text("utf-8")
        assert re.findall(r"<h1[^>]*>(.*?)</h1>", text) == [html.escape(title, quote=False)]
        words = html.unescape(re.sub(r"<(code|pre)[^>]*>.*?</\1>|<[^>]+>", "", text, flags=re.DOTALL))
        assert not re.search(r"\*\*|```|<!--|\]\(", words)
    cards = re.findall(r"<h3[^>]*>(?:<a[^>]*>)?(.*?)(?:</a>)?</h3>", (site / "docs.html").read_text("utf-8"))
    assert [html.unescape(card) for card in cards] == list(documents().values())
    assert all((site / "docs" / f"{name}.html").is_file() for name in listing.TITLES if name != "measured")


FOREIGN = """async () => {
  window.refused = [];
  document.addEventListener("securitypolicyviolation", (event) => window.refused.push(event.effectiveDirective));
  const script = document.createElement("script");
  script.textContent = "window.foreign = 1";
  const image = new Image();
  image.src = "https://elsewhere.test/seen.png";
  document.body.append(script, image);
  await fetch("https://elsewhere.test/").catch(() => 0);
}"""


def test_the_policy_of_every_page_stands_first_and_holds(site: Path, browser: Browser):
    for path in site.rglob("*.html"):
        head = html.unescape(path.read_text("utf-8").split("</head>")[0])
        assert head.count('http-equiv="Content-Security-Policy"') == 1, path
        assert head.index("Content-Security-Policy") < min(map(head.index, ("<script", "<link"))), path
        assert "default-src 'none'; script-src 'self' file:;" in head, path
    page = browser.new_page()
    for path in (site / "index.html", sorted((site / "runs").glob("*.html"))[0]):
        page.goto(path.as_uri())
        page.evaluate(FOREIGN)
        page.wait_for_function("window.refused.length >= 3")
        assert page.evaluate("window.refused.sort()") == ["connect-src", "img-src", "script-src-elem"]
        assert page.evaluate("window.foreign") is None
    page.close()


def test_a_lecture_fits_into_one_page(tmp_path: Path, watched: Watched):
    """All scenes of the lecture that ships, by the keys of a clicker; none runs live."""
    told, page = lecture.own().scenes(gallery()), watched.page
    (tmp_path / "lecture.html").write_text(export_lecture(told, gallery()), "utf-8")
    page.goto(f"{(tmp_path / 'lecture.html').as_uri()}?lecture")
    for number, scene in enumerate(told, 1):
        expect(page.locator(".lecture-count")).to_have_text(f"{number} of {len(told)}")
        expect(page.locator(".scene-question")).to_have_text(scene.voice.question)
        names = [gallery().get(name).header.title for name in scene.voice.traces]
        expect(page.locator('.dx-panel:not([data-state="empty"]) h2 > span')).to_have_text(names)
        page.keyboard.press("PageDown")
    expect(page.locator(".top, .toolbar, h1, footer").locator("visible=true")).to_have_count(0)
    page.keyboard.press("l")
    expect(page.locator(".lecture-said")).to_contain_text("This page holds recorded runs only")
    page.keyboard.press("Escape")
    expect(page.locator(".lecture")).to_be_hidden()
    with pytest.raises(UserError, match="no scene whose runs are recorded"):
        export_lecture(lecture.read('[{"link": "?gallery=gone"}]', "x").scenes(gallery()), gallery())
