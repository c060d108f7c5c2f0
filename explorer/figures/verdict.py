"""The mark of a run on a checked task, and where it first went wrong: the word, its token on the board, and the step
that wrote it. Pure functions."""

import re

import msgspec

from engines import Trace, texts_beside
from engines.tasks import check, recognise, task_of
from explorer.figures.history import history


class Mark(msgspec.Struct, frozen=True, omit_defaults=True):
    """Right or wrong by the task's exact check. expected: the answer, or one of several right ones (`many`).

    word: index of the first wrong word; a missing one counts at its place. first, last: the board positions [first,
    last] of that word's tokens, from the first token that differs on; of the end mark where the word is missing. step:
    the index of the step that wrote the token at `first`. None where the trace does not tell."""

    right: bool
    expected: str
    many: bool = False
    word: int | None = None
    first: int | None = None
    last: int | None = None
    step: int | None = None


def judge(trace: Trace) -> Mark | None:
    """The mark of the text as it stands; None where the prompt is none of the tasks, or the run was not finished."""
    example = recognise(trace.header.prompt) if finished(trace) else None
    if example is None:
        return None
    checked, task = check(example, trace.text), task_of(example)
    many = task.many
    if checked.correct or checked.first_wrong is None or task.aloud:
        return Mark(checked.correct, checked.expected, many)
    words = checked.expected.split()
    expected = "" if many or checked.first_wrong >= len(words) else words[checked.first_wrong]
    places = positions(trace, checked.first_wrong, expected)
    if places is None:
        return Mark(False, checked.expected, many, checked.first_wrong)
    return Mark(False, checked.expected, many, checked.first_wrong, *places, written_in(trace, places[0]))


def marks(trace: Trace) -> dict[str, tuple[str, bool]]:
    """Of texts that pictures mark beside that of the run, what each answers and whether it is right: paths that have
    ended, and what records tell beside the run, texts by the task's check and answers by their last number."""
    example = recognise(trace.header.prompt)
    if example is None:
        return {}
    ends, pieces = set(trace.header.eos_ids), {piece.id: piece.text for piece in trace.pieces}
    paths, over = dict[int, list[int]](), set[int]()
    alone, answers = texts_beside(trace)
    for step in trace.steps:
        for branch in step.branches:
            kept = paths.get(branch.id, [])[: max(0, branch.length - len(branch.tokens))]
            paths[branch.id] = [*kept, *branch.tokens]
            if branch.fate in ("finished", "chosen") or ends & {*branch.tokens[-1:]}:
                over.add(branch.id)
    whole = alone, *(paths[number] for number in over)
    texts = ("".join(pieces.get(id_, "") for id_ in ids if id_ not in ends) for ids in whole)
    by_task = {text: (_answer(text), check(example, text).correct) for text in texts if text}
    return by_task | {answer: (answer, _answer(answer) == _answer(example.answer)) for answer in answers}


def _answer(text: str) -> str:
    """The last number of a text, else the text."""
    return [text.strip(), *re.findall(r"-?\d[\d.,/]*", text)][-1]


def finished(trace: Trace) -> bool:
    """Whether a run came to an end of its own or of its budget: it neither failed nor was stopped."""
    return trace.end.reason in ("complete", "budget")


def cut_at(trace: Trace) -> int | None:
    """The limit of tokens that cut an answer: it has all it was allowed, and no end mark. None for any other."""
    most, ids, ends = trace.header.params.get("max_new_tokens"), trace.output_ids, set(trace.header.eos_ids)
    full = trace.end.reason == "complete" and isinstance(most, int) and 0 < most <= len(ids)
    return most if full and ends and not ends & set(ids) else None  # type: ignore[return-value]


def positions(trace: Trace, word: int, expected: str = "") -> tuple[int, int] | None:
    """The board positions of the first and last token of the answer's word `word`, from the first that differs from
    `wanted` on; None if unknown."""
    pieces, start = {piece.id: piece for piece in trace.pieces}, len(trace.header.prompt_ids)
    ends = set(trace.header.eos_ids)
    text, owner, end = "", [], None  # owner: character -> board position
    several = any(piece.token is not None for piece in pieces.values())  # an id alone does not say its text
    board = history(trace) if several else None
    for at, token in enumerate(trace.output_ids, start):
        if board and (write := board.last(at)):
            token = write[1]
        if token in ends:
            end = at
            break
        piece = pieces.get(token)
        if piece is None or piece.kind == "special":
            continue
        shown = piece.text if piece.kind == "text" else "?"
        text += shown
        owner += [at] * len(shown)
    spans = [match.span() for match in re.finditer(r"\S+", text)]
    if len(spans) != len(trace.text.split()):
        return None  # joined pieces are not the text, which a tokenizer may do
    if word >= len(spans):
        return None if end is None else (end, end)
    low, high = spans[word]
    same = next(
        (i for i, (a, b) in enumerate(zip(text[low:high], expected, strict=False)) if a != b),
        min(len(expected), high - low - 1),
    )
    return owner[low + same], owner[high - 1]


def written_in(trace: Trace, position: int) -> int | None:
    """The step that wrote what stands at a board position in the end; None where commits were not recorded."""
    last = history(trace).last(position)
    return None if last is None else last[0]
