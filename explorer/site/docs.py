"""The texts of `assets/docs` and the tables as pages of the site."""

from explorer.export.markup import cards, crumbs, h, join, lead, link, page
from explorer.papers import listing
from explorer.papers.documents import PICTURES, document, documents
from explorer.site import listed
from explorer.site.markdown import markdown


def pages() -> dict[str, str]:
    """Path -> page: the list, one page for each text, and the pictures that these show."""
    texts = {name: document(name) for name in documents()}
    made = {f"docs/{name}.html": _page(name, title, texts[name]) for name, title in documents().items()}
    found = [
        [h("h3", {}, link(f"docs/{name}.html", title)), markdown(_lead(texts[name]), resolve=lambda target: "")]
        for name, title in documents().items()
    ]
    about = "How to use it from the page, the command line and Python, what runs, and what was measured."
    places = {name: f"docs/{name}.html" for name in listing.TITLES} | {"measured": "sweeps.html#tables"}
    main = join(
        h("h1", {}, "Docs"),
        lead(about),
        cards(found),
        h("h2", {}, "Tables"),
        h("ul", {}, [h("li", {}, link(places[name], title)) for name, title in listing.TITLES.items()]),
    )
    pictures = {f"docs/pictures/{file.name}": file.read_text("utf-8") for file in sorted(PICTURES.glob("*.svg"))}
    return {"docs.html": page("Docs", about, main, here="docs.html"), **made, **listed.pages(), **pictures}


def _lead(text: str) -> str:
    """The paragraph under the title."""
    return text.split("\n\n")[1]


def _page(name: str, title: str, text: str) -> str:
    way = crumbs(link("../docs.html", "Docs"), " / ", title)
    main = join(way, h("div", {"class": "doc"}, markdown(text, places=True, resolve=_resolve)))
    return page(title, " ".join(_lead(text).split())[:200], main, here=f"docs/{name}.html")


def _resolve(target: str) -> str:
    """Links between texts lead to their pages; files of the repository are not on the site."""
    file, place, head = target.partition("#")
    if target.startswith(("https://", "#")) or (PICTURES.parent / file).is_relative_to(PICTURES):
        return target
    known = file.removesuffix(".md") in documents()
    return f"{file.removesuffix('.md')}.html{place}{head}" if known else ""
