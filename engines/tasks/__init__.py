"""Small tasks with exact checks: what the tiny models are trained on and every run on them can be marked against."""

import re

from engines.tasks.asking import ASKING
from engines.tasks.base import Example, Group, Split, Task, Verdict, split_of
from engines.tasks.chains import CHAINS
from engines.tasks.dereferences import Dereference, Dereferences, dereferences
from engines.tasks.language import LANGUAGE
from engines.tasks.lists import LISTS
from engines.tasks.pictures import (
    PICTURES,
    dark_on_light,
    numbered_scene,
    picture_asked,
    picture_prompt,
    picture_size,
    scene_words,
)
from engines.tasks.programs import PROGRAMS
from engines.tasks.puzzles import PUZZLES
from engines.tasks.reading import READING
from engines.tasks.stories import STORIES
from engines.tasks.sums import SUMS, difference_with_steps, sum_with_steps

TASKS: dict[str, Task] = {
    task.slug: task for task in (*LISTS, *SUMS, *PUZZLES, *LANGUAGE, *READING, *PROGRAMS, *STORIES)
}

APART = {task.slug: task for task in (ASKING, CHAINS)}  # the models of the other tasks are not trained on these
LONGEST = 4_000  # characters of a prompt that is looked at; the tasks ask a tenth of it, and some answers are quadratic


def example_of(slug: str) -> str:
    """A short prompt of a task as its models are asked; "" where there is no such task."""
    if slug in PICTURES:
        return PICTURES[slug][1]
    task = APART.get(slug) or TASKS.get(slug)
    if task is None:
        return ""
    prompt = next(task.generate("train", size=min(task.sizes[0] + 2, task.sizes[1]))).prompt
    return prompt.removeprefix(f"{slug}: ") if task is CHAINS else prompt


def _parts(prompt: str) -> tuple[str, str]:
    """(slug, text) of a prompt "slug: text", however its first word is typed."""
    verb, _, text = prompt.strip().partition(":")
    return re.sub(r"\s+", " ", verb).strip().lower(), text.strip()


def recognise(prompt: str) -> Example | None:
    """The task that a typed prompt asks for, with a right answer; None if it is none of ours (then nothing is
    marked)."""
    if len(prompt) > LONGEST:
        return None
    if (digit := CHAINS.read(prompt.strip())) is not None:
        return Example(CHAINS.slug, prompt, digit)
    slug, text = _parts(prompt)
    task = ASKING if slug == ASKING.slug else TASKS.get(slug)
    answer = task.read(text) if task and text else None
    return None if answer is None else Example(slug, prompt, answer)


def task_of(example: Example) -> Task:
    """The task that an example belongs to."""
    return APART.get(example.task) or TASKS[example.task]


def check(example: Example, output: str) -> Verdict:
    """Mark an output exactly, by the rule of the example's task. White space between words is forgiven except in
    Python."""
    place = task_of(example).wrong(_parts(example.prompt)[1], example.answer, output)
    return Verdict(place is None, place, example.answer)
