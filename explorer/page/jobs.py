"""What the page is told of a job: how many runs it has, how it ended, and what Stop sends again."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from engines import Trace
from explorer.figures.compare import Tie, control_of, near_tie, same_forwards
from explorer.page.catalogue import Plan, load
from explorer.page.feed import MODEL_LOCK, Feed, message
from explorer.page.limits import Limits
from explorer.page.parts import say
from explorer.page.sessions import Job


def beginning(n: int) -> str:
    """The status line while so many runs are made. Whole sentences, so that each language can say them in its way."""
    return "Running one run." if n == 1 else f"Running {n} runs, one after the other."


def stopped(job: Job) -> str:
    """The status line after Stop."""
    return job.said or say(
        "Stopped; what was decoded so far stays."
        if job.begun
        else "Stopped before anything was decoded; what was shown stays.",
        "ok",
    )


def summary(job: Job, feeds: list[Feed]) -> str:
    """The status line at the end of a job."""
    if job.stop.is_set():
        return stopped(job)
    failed = [f"Slot {feed.slot + 1}: {feed.failure}" for feed in feeds if feed.failure]
    if failed:
        return say(" ".join(failed), "error")
    unkept = [feed.unkept for feed in feeds if feed.unkept]
    if unkept:
        return say(" ".join(unkept), "error")
    seconds, n = sum(feed.trace.totals.model_seconds for feed in feeds if feed.trace), len(feeds)
    if n == 1:
        done = f"Done: one run, {seconds:.2f} s of model time (measured)."
    else:
        done = f"Done: {n} runs, one after the other, {seconds:.2f} s of model time (measured)."
    notes = dict.fromkeys(feed.without for feed in feeds if feed.without)
    return say(" ".join([done, *notes, "Space plays and pauses, arrows step."]), "ok")


def joined(job: Job) -> str:
    """The last messages of a job as one; batches that the page has seen are ignored there by their number. Clears the
    page unless that is done."""
    return message(
        *job.queued, *(batch for text in job.last for batch in json.loads(text)["batches"]), clear=not job.cleared
    )


def idle(feeds: list[Feed]) -> str:
    """Slots that never got their turn say so."""
    return message(
        *(
            {**feed.queued(), "seq": 1, "state": "stopped", "message": "Stopped before its turn."}
            for feed in feeds
            if not feed.begun
        )
    )


def ties(plans: Sequence[Plan], traces: Mapping[int, Trace], limits: Limits) -> dict[int, Tie]:
    """By slot the two logits where a lossless run diverged from its control: one more look at the model, which is
    loaded and has just run."""
    found: dict[int, Tie] = {}
    for slot, trace in traces.items():
        control = control_of(trace, traces)
        if not control or not same_forwards(trace, control):  # the logits of one network explain no other's choice
            continue
        if trace.header.lossless and not trace.header.params.get("temperature", 0):
            with MODEL_LOCK:
                tie = near_tie(load(plans[slot].model, plans[slot].invariant(limits)), trace, control)
            if tie:
                found[slot] = tie
    return found
