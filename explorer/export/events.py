"""Events as CSV: one line for each token that a step drafted, each place that it removed, and each token that it
wrote."""

import csv
import io
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from engines import Step, Trace
from explorer.figures.calls import target_calls, target_role

COLUMNS = (
    "run,method,models,seed,step,event,position,token,text,cause,probability,source,"
    "target_calls_in_step,target_calls_so_far,seconds_in_step,seconds_so_far"
).split(",")
CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]|\r(?!\n)")  # a CR alone would end a row


def events_csv(traces: Sequence[Trace]) -> str:
    """One line per event with a heading line. `event` is draft, remove, insert (written to a place that was not there)
    or write; what a trace does not hold is an empty cell, never a zero.

    Positions are those of the board that the step leaves, of what is removed those of the board that it found.

    Seconds are model and method time. `probability` of a draft is the drafter's.
    """
    return csv_text(COLUMNS, (row for number, trace in enumerate(traces) for row in _rows(number, trace)))


def csv_text(heads: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """A table as CSV."""
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows([heads, *rows])
    return out.getvalue()


def _rows(number: int, trace: Trace) -> Iterator[list[Any]]:
    header = trace.header
    lost, pieces = set(header.missing), {piece.id: piece for piece in trace.pieces}
    models = inert(" ".join(m.name for m in header.models))
    which = [number, inert(header.method), models, "" if "seed" in lost else header.seed]
    forwards, seconds, target = 0, 0.0, target_role(trace)
    for step in trace.steps:
        made, took = target_calls(step, target), step.model_seconds + step.method_seconds
        forwards, seconds = forwards + made, seconds + took
        passes = ["", ""] if "forwards" in lost else [made, forwards]
        times = ["", ""] if "model_seconds" in lost else [f"{took:.6f}", f"{seconds:.6f}"]
        for kind, position, token, why, chance, source in _events(step):
            piece = None if token == "" else pieces.get(int(token))
            word = inert(piece.text) if piece and "token_texts" not in lost else ""
            name = "" if "token_ids" in lost else piece.token_id if piece else token
            event = [step.index, kind, position, name, word, inert(why), chance, inert(source)]
            yield [*which, *event, *passes, *times]


def _events(step: Step) -> Iterator[tuple[str, int, int | str, str, Any, str]]:
    """(event, position, token, cause, probability, source) of a step: its drafts, then what it removed and wrote."""
    if tree := step.tree:
        depth: list[int] = []
        for row, parent in enumerate(tree.parents):
            depth.append(depth[parent] + 1 if parent >= 0 else 0)
            if parent >= 0:
                logprob = tree.draft_logprobs[row] if tree.draft_logprobs else None
                chance = "" if logprob is None else f"{math.exp(min(logprob, 0.0)):.6f}"
                source = tree.sources[row] if tree.sources else ""
                yield "draft", tree.start + depth[row], tree.tokens[row], tree.why[row], chance, source
    if commits := step.commits:
        new = set(commits.inserted)
        yield from (("remove", position, "", "", "", "") for position in commits.removed)
        chances = commits.probabilities or [None] * len(commits.tokens)
        for position, token, cause, p in zip(commits.positions, commits.tokens, commits.causes, chances, strict=True):
            event = "insert" if position in new else "write"
            yield event, position, token, cause, "" if p is None else p, ""


def inert(text: str) -> str:
    """A text that a spreadsheet will not take for a formula, nor a terminal for a command: control characters but tab
    and line ends are written as they are in Python."""
    text = CONTROL.sub(lambda match: f"\\x{ord(match[0]):02x}", text)
    return "'" + text if text[:1] in ("=", "+", "-", "@", "\t", "\r") else text
