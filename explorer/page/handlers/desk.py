"""What the page's event handlers work on: the gallery, the catalogue, the limits, the visitors' sessions and the kept
runs; and showing traces, which several of them do."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import gradio as gr

from engines import Trace
from explorer.links import SLOTS
from explorer.page import tables
from explorer.page.catalogue import Catalogue
from explorer.page.feed import Feed, message, whole
from explorer.page.my_runs import MyRuns
from explorer.page.parts import say
from explorer.page.run_limits import Limits
from explorer.page.sessions import Session, Sessions
from explorer.page.visitor_address import client_of
from explorer.runs.gallery import Gallery

Outputs = tuple[Any, Any, Any]  # bus, status, results


class Desk:
    """One gallery, one catalogue, the sessions, and what the handlers share."""

    def __init__(self, gallery: Gallery, catalogue: Catalogue, limits: Limits) -> None:
        self.gallery, self.catalogue, self.limits = gallery, catalogue, limits
        self.opened = dict(enumerate(gallery.opening().items()))  # slot -> (name, trace)
        self.opening = {slot: trace for slot, (_, trace) in self.opened.items()}
        self.sessions = Sessions(self.opening)
        self.my_runs = MyRuns.open(gallery, limits)

    def session(self, request: gr.Request) -> Session:
        """What is remembered of the page that asks."""
        return self.sessions.of(request.session_hash, client_of(request))

    def closed(self, request: gr.Request) -> None:
        """The page was closed."""
        self.sessions.drop(request.session_hash)

    @staticmethod
    def free_player(session: Session) -> int:
        """The player that takes the next run: the first empty one, else the last."""
        return next((i for i in range(SLOTS) if i not in session.held), SLOTS - 1)

    def check_room(self, kept: Iterable[bytes], request: gr.Request) -> None:
        """Raises UserError where a public host has no room for these packed traces."""
        if self.limits.public:
            self.sessions.check_room(sum(map(len, kept)), client_of(request))

    @staticmethod
    def play_in(
        session: Session, feed: Feed, words: str, play: Callable[[], Iterator[str]], sum_up: Callable[[], str]
    ) -> Iterator[Outputs]:
        """A run that takes the place of one player, and of that only once it has begun: the queued slot, what `play`
        yields, and at last what `sum_up` says. words: the status line until then. Yields before anything is begun."""
        slot, empty = feed.slot, feed.slot not in session.held
        with feed.job as job:
            job.cleared = True
            yield message(feed.queued()) if empty else gr.skip(), say(words), gr.skip()
            if not job.go_on():
                return
            line: Any = say(words, go=f"panel-{slot}")
            try:
                for batch in play():
                    if job.begun:
                        session.held.pop(slot, None)
                    yield batch if job.begun or empty else gr.skip(), line, gr.skip()
                    line = gr.skip()
            finally:
                if feed.trace:
                    session.keep(slot, feed.trace)
            yield gr.skip(), sum_up(), tables.results(session.traces)

    def show(
        self,
        session: Session,
        traces: dict[int, Trace],
        text: str,
        names: Mapping[int, str] = {},
        at: int | None = None,
    ) -> Outputs:
        """Show traces, and nothing else. names: ids of kept ones by slot; at: the finished steps to show first, None to
        play from the start."""
        if session.running:
            return (
                gr.skip(),
                say("A run is going on; stop it or wait for its end, then open the recorded run.", "error"),
                gr.skip(),
            )
        session.show(traces)
        session.opened = set(traces)
        shown = (whole(slot, trace, at, name=names.get(slot, "")) for slot, trace in traces.items())
        return message(*shown, clear=True, play=at is None), say(text, "ok", go="stage"), tables.results(traces)
