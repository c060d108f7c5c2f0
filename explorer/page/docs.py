"""The Docs tab: the texts of `assets/docs` and the tables of `explorer.papers.listing`, one at a time. Nothing of them
is sent before the tab is opened, or a link that names one (`?doc=NAME`)."""

import base64
import re
from typing import Any

import gradio as gr

from explorer.page import tables
from explorer.page.parts import LIGHT, fresh, module, table
from explorer.papers import listing
from explorer.papers.documents import PICTURES, document, documents

FENCE = re.compile(r"^```\w+$", re.MULTILINE)  # with a language Gradio colours code, in tones too light to read
PICTURE = re.compile(r"!\[([^\]]*)\]\(pictures/([\w-]+\.svg)\)")
CHOSEN = "(name) => { document.dispatchEvent(new CustomEvent('dx-chosen-doc', { detail: name })); }"
LECTURE = re.compile(r"`\?lecture`")  # on the page it opens the lecture
LINK = re.compile(r"(?<!!)\[([^\]]*)\]\(([^)\s]+)\)")


def text(name: object) -> tuple[str, str]:
    """A text, or what is above a table, as Markdown, and the table as JSON. Pictures are within a text; links to other
    texts stay on the page, those to files of the repository and to headings are words. A name that is none of them
    gives a sentence that says so."""
    name = str(name)
    try:
        if name in documents():
            markdown = LINK.sub(_link, PICTURE.sub(_picture, FENCE.sub("```", document(name))))
            return LECTURE.sub(r"[`?lecture`](?lecture)", markdown), fresh()
        shown = listing.table(name)
    except KeyError:
        return f"There is no text '{name[:60]}' here; choose one from the list.", fresh()
    back = [] if name in listing.TITLES else [f"[{listing.TITLES['measured']}](?doc=measured)"]
    return "\n\n".join([f"# {shown.title}", *back, *shown.about]), tables.listed(shown)


def _picture(match: re.Match[str]) -> str:
    words, file = match.groups()
    if not (PICTURES / file).is_file():
        return words
    data = base64.b64encode((PICTURES / file).read_bytes()).decode()
    return f"![{words}](data:image/svg+xml;base64,{data})"


def _link(match: re.Match[str]) -> str:
    words, target = match.groups()
    file = target.partition("#")[0]
    if target.startswith("https://"):
        return match[0]
    return f"[{words}](?doc={file[:-3]})" if file.removesuffix(".md") in documents() else words


def first() -> str:
    """The text that the tab shows by itself; "" where there is none."""
    return next(iter(documents()), "")


def links() -> gr.HTML:
    """Hidden; sends the name of a text when a link to it is followed, or the page was opened with one."""
    call = "page.mountDocs(props, trigger)"
    return module("page/docs.js", call, first=first(), visible="hidden", elem_id="docs-links")


def section(tab: gr.Tab, tabs: gr.Tabs, asked: gr.HTML, limits: str) -> None:
    """Build the tab. asked: what `links` made, outside of all tabs; limits: those of this page, as Markdown."""
    titles = documents()
    with gr.Row():
        with gr.Column(scale=1, min_width=240):
            choices = [(title, name) for name, title in (titles | listing.TITLES).items()]
            choice = gr.Radio(choices, value=first() or None, label="Texts", elem_id="docs-list")
            gr.Markdown(limits, elem_id="limits")
        with gr.Column(scale=4, min_width=320):
            shown = gr.Markdown("" if titles else "No text is installed here.", elem_id="docs-text")
            listed = table(fresh(), elem_id="docs-table")
    tab.select(_first, [choice, shown, asked], [shown, listed], **LIGHT)
    choice.input(text, choice, [shown, listed], **LIGHT)
    choice.input(None, choice, None, js=CHOSEN)
    followed = [tabs, choice, shown, listed]
    asked.submit(_follow, asked, followed, trigger_mode="always_last", **LIGHT)  # Back twice, quickly


def _first(name: object, before: str, asked: str) -> Any:
    """What the tab shows when it is opened first, unless a link opened it, whose text is on its way."""
    return (gr.skip(), gr.skip()) if before or asked else text(name)


def _follow(name: object) -> tuple[Any, Any, str, str]:
    known = isinstance(name, str) and name in {**documents(), **listing.TITLES}
    return gr.Tabs(selected="docs"), gr.update(value=name if known else None), *text(name)
