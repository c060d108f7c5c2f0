"""The kept runs on the page: every finished run is kept at home, listed under "My runs", and opened again by a link."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import gradio as gr

from engines import Trace, TraceError, UserError
from explorer.export.python import lines
from explorer.figures.calls import many
from explorer.links import read_query
from explorer.page.feed import whole
from explorer.page.parts import LAST, LIGHT, PLAYER, asked, capital, fresh, hidden, module
from explorer.page.run_limits import Limits
from explorer.page.visitor_address import client_of
from explorer.runs.cards import Kept
from explorer.runs.gallery import Gallery
from explorer.runs.journal import recover
from explorer.runs.scenarios import scene
from explorer.runs.store import ID, MAX_LABEL, MEGABYTE, RunStore

PAGE = 20  # runs of a list's page
SHOWN = 160  # characters of a prompt in the list
PUBLIC = (
    "This server is shared, so it keeps no runs and lists none: save what you want to have again as a file. "
    "At home (`pip install`, `decoding-explorer serve`) every run is kept and listed here."
)
OPENED = """() => { document.querySelector("#runs .runs")?.dispatchEvent(new Event("dx-opened", { bubbles: true })) }"""
log = logging.getLogger("decoding-explorer")


class MyRuns:
    """The handlers of kept runs. `keep` is None where nothing is kept; `why` says so. Without `listed` runs open by
    their link only."""

    def __init__(self, keep: RunStore | None, gallery: Gallery, why: str = "", listed: bool = True) -> None:
        self.keep, self.gallery, self.why, self.listed = keep, gallery, why, listed and keep is not None

    @classmethod
    def open(cls, gallery: Gallery, limits: Limits) -> MyRuns:
        """The store that the environment names; where it cannot be used the page says why and works without. Journals
        left behind are recovered."""
        try:
            keep = RunStore.from_env(limits.public)
        except UserError as error:
            return cls(None, gallery, str(error))
        if keep is None:
            return cls(None, gallery, PUBLIC)
        try:
            if recovered := recover(keep):
                log.info("recovered %d run(s) whose process had ended: %s", len(recovered), ", ".join(recovered))
            for journal, reason in keep.aside.items():
                log.warning("the journal %s of a run became no run: %s", journal, reason)
        except OSError as error:
            log.warning("journals could not be recovered: %s", error)
        return cls(keep, gallery, PUBLIC if limits.public else "", not limits.public)

    def keep_for(self, request: gr.Request) -> RunStore | None:
        """The store as the visitor behind a request has it: on a public host with a share of their own."""
        return self.keep if self.keep is None or self.listed else self.keep.of(client_of(request))

    def get(self, name: str) -> Trace:
        """The trace that a link names: a kept run, or one of the gallery. Raises TraceError."""
        if not ID.fullmatch(name):
            return self.gallery.get(name)
        if self.keep is None:
            raise TraceError(f"there is no run {name} here: this server keeps none.")
        return self.keep.get(name)

    def linked(self, query: Any) -> tuple[dict[int, tuple[str, Trace]], dict[str, Any], list[str]]:
        """What a query opens: slot -> (name, trace), where to go, and the sentences about what is not here. Raises
        UserError."""
        link = read_query(query)
        opened: dict[int, tuple[str, Trace]] = {}
        gone: list[str] = []
        names: tuple[str, ...] = link.names if link else ()
        if link and link.scene:
            names = scene(link.scene, [card.id for card in self.gallery.cards]).traces
        for name in names:
            try:
                opened[len(opened)] = (name, self.get(name))
            except TraceError as error:
                gone.append(str(error))
        view = dict(link.view) if link else {}
        if link and link.scene and "step" not in view:
            view["play"] = True
        if gone:  # the players are numbered otherwise then
            view.pop("of", None)
        return opened, view, gone

    def listing(self, page: int = 0, undo: str = "", message: str = "") -> str:
        """The value of the list: a page of cards, newest first."""
        if self.keep is None or not self.listed:
            return fresh(rows=[], pages=0, page=0, note=self.why)
        try:
            cards = self.keep.cards()
        except OSError as error:
            return fresh(rows=[], pages=0, page=0, note=f"The runs cannot be listed: {error.strerror}.")
        pages = max(1, -(-len(cards) // PAGE))
        page = min(max(0, page), pages - 1)
        share_of = f"{self.keep.used() / MEGABYTE:.1f} of {self.keep.limit / MEGABYTE:.0f} MB"
        note = (
            f"{len(cards)} runs, {share_of} in {self.keep.folder}. The oldest that are not pinned make room."
            if len(cards) > 1
            else f"One run, {share_of} in {self.keep.folder}."
            if cards
            else self._nothing()
        )
        broken = [f"{name} cannot be read: {why}" for name, why in self.keep.broken.items()]
        return fresh(
            rows=[_row(card) for card in cards[page * PAGE : (page + 1) * PAGE]],
            page=page,
            pages=pages,
            note=note,
            broken=broken,
            undo=undo,
            said=message,
        )

    def _nothing(self) -> str:
        assert self.keep
        return (
            f"No run is kept yet. Every run that you make on this page is kept in {self.keep.folder} and listed "
            "here; nothing leaves this machine."
        )

    def act(self, action: dict[str, Any]) -> str:
        """Pin, rename, delete or restore as the list asks, then the list again. Whatever is wrong becomes a
        sentence."""
        page = action.get("page")
        page = page if isinstance(page, int) and 0 <= page < 10**6 else 0
        name, what = str(action.get("id", ""))[:64], action.get("act")
        if self.keep is None or not self.listed:
            return self.listing()
        try:
            if what == "pin":
                message = (
                    "Pinned; it is never cleaned up."
                    if self.keep.pin(name, action.get("on") is True).pinned
                    else "Not pinned any more."
                )
            elif what == "rename":
                label = str(action.get("label", ""))
                if len(label) > MAX_LABEL:
                    raise UserError(f"a label has at most {MAX_LABEL} characters; this one has {len(label)}.")
                self.keep.rename(name, label)
                message = "Renamed."
            elif what == "delete":
                self.keep.card(name)
                self.keep.delete(name)
                return self.listing(page, undo=name, message="Deleted.")
            elif what == "forget":
                message = f"Forgotten: {many(self.keep.forget(), 'run')} and what this browser had kept."
            elif what == "restore":
                self.keep.restore(name)
                message = "It is back."
            else:
                message = ""
        except (TraceError, UserError) as error:
            message = f"That did not work: {error}"
        except OSError as error:
            message = f"That did not work: {error.strerror}."
        return self.listing(page, message=message)

    def keep_all(self, traces: dict[int, Trace], request: gr.Request) -> tuple[dict[int, str], str]:
        """Keep what is shown. Returns slot -> id, and the sentence about it."""
        keep = self.keep_for(request)
        if keep is None:
            return {}, self.why
        try:
            kept = {slot: keep.save(trace) for slot, trace in traces.items() if trace.steps}
        except (UserError, OSError) as error:
            return {}, f"Not everything could be kept: {error}"
        where = "they are under My runs and have links now" if self.listed else "they have links now: note them"
        return kept, f"Kept: {len(kept)} of {len(traces)} players; {where}." if kept else "There is nothing to keep."


def _row(card: Kept) -> dict[str, Any]:
    seconds = "" if card.seconds is None else f", {card.seconds:.2f} s"
    ending = {"complete": "", "budget": "budget used up", "failed": "failed"}.get(card.reason, card.reason)
    if card.message.startswith("the process that ran this"):
        ending = "recovered after its process ended"
    return {
        "id": card.id,
        "when": card.saved_at,
        "label": card.label,
        "title": card.title,
        "models": " + ".join(card.models),
        "prompt": card.prompt[:SHOWN],
        "cost": f"{card.tokens:,} tokens in {card.calls or 'calls not recorded'}{seconds}",
        "mark": card.mark,
        "ending": ending,
        "pinned": card.pinned,
        "size": f"{card.size / 1000:.0f} kB",
    }


def section(tab: gr.Tab, handlers: Any, tabs: gr.Tabs, outputs: list[Any]) -> None:
    """The list of kept runs in its tab. It asks for its rows itself when it is made, and whenever the tab is opened;
    its value is what `MyRuns.listing` says, and what it asks for when `submit` fires."""
    gr.Markdown("Your runs, newest first. Open one, or add it to what the players show.", elem_classes=["lead"])
    shown = module(
        "page/runs.js",
        "page.mountRuns(element, props, watch, trigger)",
        template='<div class="runs"></div>',
        elem_id="runs",
    )
    shown.submit(
        _answer(handlers, len(outputs) + 1),
        shown,
        [shown, *outputs, tabs],
        trigger_mode="multiple",  # the list asks again as soon as it has an answer, and then that event has not ended
        **LIGHT,
    )
    tab.select(None, js=OPENED)


def _answer(handlers: Any, others: int) -> Callable[..., tuple[Any, ...]]:
    """What the list asks for: to show a run, or to change one. others: outputs beside the list itself."""

    def answer(text: Any, request: gr.Request) -> tuple[Any, ...]:
        action = asked(text)
        if action.get("act") not in ("open", "add"):
            return (handlers.my_runs.act(action), *[gr.skip()] * others)
        shown, moved = handlers.open_kept(str(action.get("id", ""))[:64], action["act"] == "add", request)
        return (
            handlers.my_runs.listing(action.get("page", 0) if isinstance(action.get("page"), int) else 0),
            *shown,
            gr.Tabs(selected="explore") if moved else gr.skip(),
        )

    return answer


def links(handlers: Any, outputs: list[Any]) -> None:
    """Follows the link that the page was opened with. A page that was opened without one asks nothing."""
    opener = hidden("asker", "mountAsker(props, trigger)")
    opener.submit(handlers.follow, opener, outputs, **LAST)


def sharing(handlers: Any) -> None:
    """The buttons that copy a link and a script."""
    template = (
        '<div class="share"><button type="button">Copy link</button><button type="button">Copy as Python</button>'
        '<output></output><textarea readonly hidden rows="3" aria-label="Copied text"></textarea></div>'
    )
    call = "page.mountShare(element, props, watch, trigger)"
    buttons = module(PLAYER, call, template=template, elem_id="share")
    buttons.submit(handlers.as_python, None, buttons, **LIGHT)


def script(traces: dict[int, Trace]) -> str:
    """The value of the share buttons: the Python lines that repeat what is shown, or why there are none."""
    if not traces:
        return fresh(said="Nothing is shown that could be repeated.")
    try:
        return fresh(text=lines([trace for _, trace in sorted(traces.items())]))
    except UserError as error:
        return fresh(said=capital(error))


def batches(linked: dict[int, tuple[str, Trace]]) -> list[dict[str, Any]]:
    """Batches of runs with the names under which links find them."""
    return [whole(slot, trace, name=name) for slot, (name, trace) in linked.items()]
