"""Items that a task's metrics count as wrong, run once more with everything recorded and kept as runs that the page
opens at the step where they went wrong."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from engines import Trace
from explorer.evaluation.lm import DecodingLM
from explorer.figures.compare import first_difference
from explorer.figures.verdict import positions, written_in
from explorer.runs.store import MAX_LABEL, RunStore


class Failed(msgspec.Struct, frozen=True):
    """A failing item that was kept. doc: its number in the task. run: the id of its run. step: how many steps are done
    once it went wrong, counted as the page's links count; how: what that was derived from. same: whether this run gave
    the answer that was marked."""

    task: str
    doc: int
    run: str
    step: int
    how: str
    same: bool

    @property
    def link(self) -> str:
        """Behind the address of the page."""
        return f"/?run={self.run}&step={self.step}"


class Marked(NamedTuple):
    """A failing item as the harness logged it: the answer that its filter took, and the references."""

    doc: int
    context: str
    gen_kwargs: Mapping[str, Any]
    answer: str
    filtered: str
    references: list[str]


def keep_failing(results: Mapping[str, Any], lm: DecodingLM, most: int, store: RunStore) -> list[Failed]:
    """Keep the first `most` failing items of each task. results: of `simple_evaluate(model=lm, ...)` with its samples,
    as its default is. A task whose metrics give no item 0 or 1, or that is scored and not decoded, has none. Raises
    UserError where the store has no room."""
    better = results.get("higher_is_better", {})
    failures = []
    for task, samples in results.get("samples", {}).items():
        for marked in list(failing(samples, better.get(task, {})))[:most]:
            item = lm.item(marked.context, marked.gen_kwargs)
            trace = item.run(lm.model, "full")
            step, how = went_wrong(trace, marked)
            run = store.save(trace, f"{task}, item {marked.doc}: wrong"[:MAX_LABEL])
            same = item.text(trace, lm.model) == marked.answer
            failures.append(Failed(task, marked.doc, run, step, how, same))
    return failures


def failing(samples: Sequence[Mapping[str, Any]], higher_is_better: Mapping[str, Any]) -> Iterator[Marked]:
    """The items to which every metric that says right or wrong (0 or 1, higher is better) gives 0, under every filter,
    in their order."""
    marks: dict[int, list[bool]] = {}
    first: dict[int, Mapping[str, Any]] = {}
    for sample in samples:
        asked = sample["arguments"][0]
        if len(asked) != 2 or not isinstance(asked[1], Mapping):  # it is scored
            continue
        number = sample["doc_id"]
        first.setdefault(number, sample)
        values = [sample[name] for name in sample["metrics"] if higher_is_better.get(name)]
        marks.setdefault(number, []).extend(bool(value) for value in values if value in (0, 1))
    for number, sample in first.items():
        if marks[number] and not any(marks[number]):
            context, gen_kwargs = sample["arguments"][0]
            answer = sample["resps"][0][0]
            filtered = sample["filtered_resps"][0]
            filtered = filtered if isinstance(filtered, str) else answer
            target = sample["target"] if isinstance(sample["target"], (list, tuple)) else [sample["target"]]
            references = [text for text in target if isinstance(text, str) and text.strip()]
            yield Marked(number, context, gen_kwargs, answer, filtered, references)


def went_wrong(trace: Trace, marked: Marked) -> tuple[int, str]:
    """How many steps are done once the answer is wrong, and what that was derived from: the first word in which the
    part of the answer that was marked departs from the reference (from the one that it follows longest), and the step
    that wrote what stands there; the last step where no such word is known."""
    last = len(trace.steps), "the last step, since no word can be named in which it departs from a reference"
    text = marked.answer.strip()  # what the harness saw of the run's text, which may go on behind it
    start = text.rfind(marked.filtered.strip()) if marked.filtered.strip() and trace.text.startswith(text) else -1
    if start < 0 or not marked.references:
        return last
    have = marked.filtered.split()
    apart = {reference: first_difference(have, reference.split()) for reference in marked.references}
    reference, at = max(apart.items(), key=lambda pair: len(have) + 1 if pair[1] is None else pair[1])
    if at is None:
        return last
    before = text[:start]
    word = len(before.split()) - bool(before and not before[-1].isspace()) + at
    wanted = reference.split()[at] if at < len(reference.split()) else ""
    places = positions(trace, word, wanted)
    step = None if places is None else written_in(trace, places[0])
    if step is None:
        return last
    return step + 1, f"the step that wrote word {at + 1} of the marked answer, where it departs from the reference"
