"""Fork from here: a player's trace goes on from one of its steps with a change, live, in another player.

The browser sends one JSON text. Everything in it is checked here and behind `engines`; the trace itself is the one that
this server shows in that player."""

import json
from collections.abc import Iterator, Mapping
from typing import Annotated, Any

import gradio as gr
import msgspec

import engines
from engines import MethodInfo, Trace, UserError
from explorer.forking import MAX_PLACES, MAX_WORD, make_edit, sentence
from explorer.links import SLOTS
from explorer.page.catalogue import BESIDE, LENGTH, load, name_of, param_fields
from explorer.page.feed import Feed
from explorer.page.handlers import Handlers, Outputs
from explorer.page.parts import ONE_AT_A_TIME, PLAYER, module, refusals, say
from explorer.page.sessions import Session

MAX_REQUEST = 40_000  # characters of a request

Slot = Annotated[int, msgspec.Meta(ge=0, lt=SLOTS)]
Place = Annotated[int, msgspec.Meta(ge=0, lt=2**31)]
Text = Annotated[str, msgspec.Meta(max_length=MAX_WORD)]
Places = Annotated[list[tuple[Place, Place | Text]], msgspec.Meta(max_length=MAX_PLACES)]
Value = bool | int | float | Annotated[str, msgspec.Meta(max_length=12_000)]  # a text, or the files of a project


class Wish(msgspec.Struct, forbid_unknown_fields=True):
    """What the browser asks: fork the trace of player `slot` after `step` steps into player `target`. A token is an id,
    or text."""

    slot: Slot
    step: Place
    target: Slot
    method: Annotated[str, msgspec.Meta(max_length=100)] = ""
    params: Annotated[dict[Annotated[str, msgspec.Meta(max_length=100)], Value], msgspec.Meta(max_length=64)] = {}
    force: Places = []
    forbid: Places = []
    remask: Annotated[list[Place], msgspec.Meta(max_length=MAX_PLACES)] = []


def read_wish(text: object) -> Wish:
    """Raises UserError for anything but a request of the known form and size."""
    if not isinstance(text, str) or not text:
        raise UserError(
            "the request to fork is empty; open “Fork from here” in a player and press “Continue from here”."
        )
    if len(text) > MAX_REQUEST:
        raise UserError(
            f"the request to fork has {len(text):,} characters; at most {MAX_REQUEST:,} are taken. Change fewer "
            "positions."
        )
    try:
        return msgspec.json.decode(text.encode("utf-8", "surrogatepass"), type=Wish)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise UserError(f"the request to fork is not understood: {error}.") from None


class Forks:
    """The handler of the hidden component that carries the requests."""

    def __init__(self, handlers: Handlers) -> None:
        self.handlers = handlers

    @refusals(1, 3)
    def fork(self, value: Any, request: gr.Request) -> Iterator[Outputs]:
        """Replay and go on, as a run does: yields before the model is touched, streams to the bus, and Stop ends it."""
        session, wish = self.handlers.session(request), read_wish(value)
        trace = self._trace(session, wish)
        where = f"player {wish.slot + 1} at step {wish.step}"
        title = f"{trace.header.title}, forked at step {wish.step}"
        feed = Feed(session.begin(), wish.target, title, self.handlers.my_runs.keep_for(request))
        what = f"a fork of {trace.header.method}"
        yield from self.handlers.play_in(
            session,
            feed,
            f"Forking {where}: its {wish.step} steps are run again first.",
            lambda: feed.play(lambda: self._begin(wish, trace, session), what, of=wish.slot),
            lambda: _summary(feed, where),
        )

    def _trace(self, session: Session, wish: Wish) -> Trace:
        """The trace to fork, if that may be done here and now. Raises UserError; no model is touched."""
        if session.running:
            raise UserError("a run is going on; stop it or wait for its end, then fork.")
        trace = session.trace(wish.slot)
        if trace is None:
            raise UserError(f"player {wish.slot + 1} shows no run that this server knows; run or open one there first.")
        if wish.target == wish.slot:
            raise UserError(
                f"a fork of player {wish.slot + 1} cannot take its place; choose another player, so that both can be "
                "compared."
            )
        if wish.step > len(trace.steps):
            raise UserError(f"step {wish.step} cannot be forked; that run has {len(trace.steps)} steps.")
        header, limits = trace.header, self.handlers.limits
        if not header.models:
            raise UserError("this run does not name its model, so it cannot go on here.")
        first = engines.forking_method(trace, wish.method)
        for slug in filter(None, (first, wish.method, *(timed_edit.edit.method for timed_edit in header.edits))):
            if slug not in self.handlers.catalogue.methods:
                raise UserError(f"the method '{slug[:60]}' is not available here, so this run cannot be forked.")
        if len(header.prompt_ids) > limits.prompt_characters:
            raise UserError(
                f"the prompt has {len(header.prompt_ids):,} tokens; at most {limits.prompt_characters:,} are taken "
                "here."
            )
        for params in (header.params, wish.params, *(timed_edit.edit.params for timed_edit in header.edits)):
            self.handlers.catalogue.check_params(self.handlers.catalogue.methods[first], params)
        if not self.handlers.catalogue.open and (
            options := [name for model in header.models for name in model.options]
        ):
            raise UserError(
                f"this run was loaded with the option {options[0][:40]}, which is not taken from visitors, so it "
                "cannot go on here."
            )
        if not self.handlers.catalogue.open and any("format" in part.options for part in header.parts):
            raise UserError("this run drafted with a published checkpoint, which is not read for visitors.")
        listed = {model.name for model in self.handlers.catalogue.models} | (
            {name.partition(BESIDE)[0] for name in session.named} if self.handlers.catalogue.open else set()
        )
        known = engines.is_known if self.handlers.catalogue.open else listed.__contains__
        if missing := [m.name for m in header.models if m.name not in listed and not known(m.name)]:
            raise UserError(
                f"this run was made with the model '{missing[0][:80]}', which is not available on this server, so it "
                "cannot go on here."
            )
        return trace

    def _begin(self, wish: Wish, trace: Trace, session: Session) -> engines.Run:
        first = engines.forking_method(trace, wish.method)
        info, main = self.handlers.catalogue.methods[first], name_of(trace)
        typed = session.named.get(main, "")
        picked = trace.header.models[0]
        if engines.is_known(picked.name) and not engines.target_and_drafter(typed)[1]:
            given = engines.models_of(trace.header, first)
        else:
            invariant = picked.options.get("row_invariant") is True
            given = {info.role: load(typed, invariant, self.handlers.limits.device)}
        models = engines.assign_roles(info, given)
        edit = make_edit(models[info.role], wish.force, wish.forbid, wish.remask, wish.params, wish.method)
        limits = self.handlers.limits
        return engines.stream_fork(
            trace, wish.step, edit=edit, model=models, detail="full", max_steps=limits.steps, max_seconds=limits.seconds
        )


def _summary(feed: Feed, where: str) -> str:
    if feed.failure:
        return say(f"the fork of {where} failed: {feed.failure}", "error")
    assert feed.trace
    origin = feed.trace.header.origin
    assert origin
    changes = sentence(origin, {piece.id: piece.text for piece in feed.trace.pieces})
    if origin.diverged is not None:
        return say(f"Fork of {where}: the replay diverged from the recording at step {origin.diverged + 1}.", "error")
    stopped = feed.job.stop.is_set()
    return say(f"{'Stopped the fork' if stopped else 'Fork'} of {where} in player {feed.slot + 1}: {changes}.", "ok")


def offered(methods: Mapping[str, MethodInfo]) -> str:
    """The methods with their parameters, for the controls of the panel, as JSON; without the length, which no edit may
    change."""
    offers = [
        {
            "slug": info.slug,
            "title": info.title,
            "kind": info.kind,
            "params": [param_fields(param) for param in info.params if param.name != LENGTH],
        }
        for info in methods.values()
    ]
    return json.dumps(offers, ensure_ascii=False)


def connect(handlers: Handlers, outputs: list[Any]) -> Any:
    """The hidden component with its handler; returns the event, for Stop."""
    call, methods = "page.forker(element, props, () => trigger('submit'))", offered(handlers.catalogue.methods)
    channel = module(PLAYER, call, methods=methods, visible="hidden", elem_id="forker")
    return channel.submit(
        Forks(handlers).fork,
        channel,
        outputs,
        show_progress_on=[outputs[1]],
        **ONE_AT_A_TIME,
    )
