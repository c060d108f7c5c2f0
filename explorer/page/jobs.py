"""What the page is told of a job: how many runs it has, how it ended, and what Stop sends again."""

from __future__ import annotations

import json

from explorer.page.feed import Feed, message
from explorer.page.parts import say
from explorer.page.sessions import Job


def runs(n: int) -> str:
    """A number of runs in words."""
    return "one run" if n == 1 else f"{n} runs, one after the other"


def stopped(job: Job) -> str:
    """The status line after Stop."""
    return say("Stopped; what was decoded so far stays." if job.begun else "Stopped before anything was decoded; what was shown stays.", "ok")


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
    seconds = sum(feed.trace.totals.model_seconds for feed in feeds if feed.trace)
    return say(f"Done: {runs(len(feeds))}, {seconds:.2f} s of model time (measured). Space plays and pauses, arrows step.", "ok")


def joined(job: Job) -> str:
    """The last messages of a job as one; batches that the page has seen are ignored there by their number. Clears the page unless that is done."""
    return message(*job.queued, *(batch for text in job.last for batch in json.loads(text)["batches"]), clear=not job.cleared)


def idle(feeds: list[Feed]) -> str:
    """Slots that never got their turn say so."""
    return message(*({**feed.queued(), "seq": 1, "state": "stopped", "message": "Stopped before its turn."} for feed in feeds if not feed.begun))
