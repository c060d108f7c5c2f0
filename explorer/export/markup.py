"""HTML from values: every text is escaped, only what was made by `h` is taken as it stands. And the frame of all
pages."""

import html
import re
from collections.abc import Iterable, Mapping

from explorer.export.fonts import legible

VOID = {"meta", "link", "img", "br", "input", "hr"}
# `file:` lets the pages work from disk, where browsers differ on whether 'self' means the folder. A page from a web
# server cannot load it.
POLICY = (
    "default-src 'none'; script-src 'self' file:; style-src 'self' file: 'unsafe-inline'; img-src 'self' file: "
    "data:; base-uri 'none'; form-action 'none'"
)
FOOT = (
    "Recorded runs of real models, played in your browser. Times were measured when the runs were recorded; "
    "nothing is computed again or sent. Apache-2.0."
)
PAGES = (
    ("index.html", "Start"),
    ("gallery.html", "Gallery"),
    ("lessons.html", "Lessons"),
    ("methods.html", "Methods"),
    ("sweeps.html", "Measured"),
    ("glossary.html", "Glossary"),
    ("docs.html", "Docs"),
    ("numbers.html", "About the numbers"),
)


class Html(str):
    """A text that is HTML already."""


Node = str | Html | Iterable["Node"] | None


def h(tag: str, attributes: dict[str, str | bool | None] | None = None, *children: Node) -> Html:
    """An element. Attributes that are None or False are left out."""
    given = {name: value for name, value in (attributes or {}).items() if value not in (None, False)}
    rendered = "".join(
        f" {name}" if value is True else f' {name}="{html.escape(shown(str(value)))}"' for name, value in given.items()
    )
    return Html(f"<{tag}{rendered}>" if tag in VOID else f"<{tag}{rendered}>{join(*children)}</{tag}>")


def join(*children: Node) -> Html:
    """Children one behind the other; texts are escaped, what is invisible or turns the reading direction is shown by
    its number."""
    out = []
    for child in children:
        if child is None:
            continue
        if isinstance(child, Html):
            out.append(str(child))
        elif isinstance(child, str):
            out.append(html.escape(shown(child)))
        else:
            out.append(str(join(*child)))
    return Html("".join(out))


def shown(text: str) -> str:
    """A text whose control and direction characters can be seen; line breaks stay."""
    return re.sub(
        r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff]",
        lambda match: f"‹{ord(match[0]):X}›",
        text,
    )


def link(href: str, *children: Node, **more: str) -> Html:
    """A link; one that leaves the site says nothing of where it came from."""
    away: dict[str, str | bool | None] = {"rel": "noreferrer"} if href.startswith("https://") else {}
    return h("a", {"href": href, **away, **more}, *children)


def lead(text: str) -> Html:
    """The sentence under the head of a page."""
    return h("p", {"class": "lead"}, text)


def crumbs(*path: Node) -> Html:
    """The way to a page."""
    return h("p", {"class": "crumbs"}, *path)


def cards(contents: Iterable[Iterable[Node]]) -> Html:
    """Cards side by side, each with its parts."""
    return h("ul", {"class": "cards"}, [h("li", {"class": "card"}, *parts) for parts in contents])


def table(heads: Iterable[str], rows: Iterable[Iterable[Node]], **attributes: str) -> Html:
    """A table whose first column is its rows' heads; on a phone it scrolls by itself. With `data-sort` its columns sort
    it where scripts run."""
    head = h("tr", {}, [h("th", {"scope": "col"}, name) for name in heads])
    body = [h("tr", {}, h("th", {"scope": "row"}, first), [h("td", {}, cell) for cell in row]) for first, *row in rows]
    inside = h("table", dict(attributes), h("thead", {}, head), h("tbody", {}, body))
    return h("div", {"class": "scroll", "tabindex": "0"}, inside)


def page(title: str, about: str, main: Node, *, here: str, scripts: Iterable[str] = ()) -> str:
    """A whole page. here: its path inside the site. scripts: paths of what it plays, loaded in this order behind the
    player."""
    root = "../" * here.count("/")
    nav = [link(root + path, label, **({"aria-current": "page"} if path == here else {})) for path, label in PAGES]
    loaded = [h("script", {"src": root + path}) for path in scripts]
    meta = {"referrer": "no-referrer", "description": legible(about)[0]}
    looks = join(h("link", {"rel": "stylesheet", "href": root + "site.css"}), h("script", {"src": root + "mode.js"}))
    brand = link(root + "index.html", "Decoding Explorer", **{"class": "brand"})
    mode = h("button", {"type": "button", "id": "mode", "hidden": True}, "Light or dark")
    body = join(
        h("a", {"class": "skip", "href": "#main"}, "Skip to the content"),
        h("header", {"class": "top"}, brand, h("nav", {"aria-label": "Pages"}, nav), mode),
        h("main", {"id": "main"}, main),
        h("footer", {}, FOOT),
        loaded,
        h("script", {"src": root + "site.js"}),
    )
    name = f"{title} · Decoding Explorer" if title != "Decoding Explorer" else title
    return document(name, POLICY, looks, body, meta)


def document(title: str, policy: str, looks: Html, body: Html, meta: Mapping[str, str] = {}) -> str:
    """The frame of every page. looks: its styles, and scripts that run before it is drawn; meta: more of it by name."""
    named = {"viewport": "width=device-width, initial-scale=1", "color-scheme": "light dark", **meta}
    head = join(
        h("meta", {"charset": "utf-8"}),
        h("meta", {"http-equiv": "Content-Security-Policy", "content": policy}),
        *(h("meta", {"name": name, "content": content}) for name, content in named.items()),
        h("title", {}, title),
        h("link", {"rel": "icon", "href": "data:,"}),
        looks,
    )
    return f'<!doctype html>\n<html lang="en">\n<head>\n{head}\n</head>\n<body>\n{body}\n</body>\n</html>\n'
