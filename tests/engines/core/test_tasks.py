"""The tasks: the answers are right by an independent reading, the splits are disjoint, and every right answer passes its check."""

import random
from itertools import islice

import pytest

from engines.tasks import TASKS, Example, check, recognise, split_of, sum_with_steps

SPLITS = ("train", "validation", "held-out")
EXAMPLES = [(slug, split) for slug in TASKS for split in SPLITS]


@pytest.mark.parametrize(("slug", "split"), EXAMPLES)
def test_examples_are_right_and_repeatable(slug, split):
    made = list(islice(TASKS[slug].generate(split, seed=3), 20))
    assert made == list(islice(TASKS[slug].generate(split, seed=3), 20)) != list(islice(TASKS[slug].generate(split, seed=4), 20))
    for example in made:
        assert split_of(example.prompt) == split and check(example, example.answer).correct
        read = recognise(example.prompt)
        assert read.task == slug and check(read, example.answer).correct
        if slug == "add":
            a, b = (int(n) for n in example.prompt.removeprefix("add:").split("+"))
            assert example.answer.split()[-1] == str(a + b)
        else:
            items = example.prompt.split(":")[1].replace(",", " ").split()
            got, low, high = example.answer.split(), *TASKS[slug].sizes
            expected = {"copy": items, "reverse": items[::-1], "sort": sorted(items), "shuffle": got}[slug]
            assert got == expected and sorted(got) == sorted(items) and low <= len(items) <= high


def test_the_splits_share_no_prompt():
    prompts = {split: {e.prompt for slug in TASKS for e in islice(TASKS[slug].generate(split), 60)} for split in SPLITS}
    assert not (prompts["train"] & prompts["held-out"] or prompts["train"] & prompts["validation"] or prompts["validation"] & prompts["held-out"])
    assert split_of("sort: Ada, Bob") == split_of(" SORT:  ada bob ")


@pytest.mark.parametrize(("slug", "split"), EXAMPLES)
def test_every_size_gives_an_example_or_says_that_there_is_none(slug, split):
    low, high = TASKS[slug].sizes
    for size in range(low, high + 1):
        try:
            assert next(TASKS[slug].generate(split, size=size)).task == slug
        except ValueError as error:
            assert size == 1 and "choose another size" in str(error)
    for size in (low - 1, high + 1):
        with pytest.raises(ValueError, match="outside"):
            next(TASKS[slug].generate(split, size=size))


def test_sums_step_by_step():
    rng = random.Random(0)
    for _ in range(200):
        a, b = rng.randrange(10**6), rng.randrange(10**6)
        *columns, answer = sum_with_steps(a, b).splitlines()
        assert answer == f"answer {a + b}"
        carry, digits = 0, ""
        for line in columns:
            left, total = line.split("=")
            x, y, c = (int(n) for n in left.split("+"))
            assert c == carry and x + y + c == int(total) and x < 10 > y
            carry, digits = int(total) // 10, str(int(total) % 10) + digits
        assert int((str(carry) if carry else "") + digits) == a + b


@pytest.mark.parametrize(
    ("task", "answer", "output", "first_wrong"),
    [
        ("copy", "Ada Bob", "Ada Bob", None),
        ("copy", "Ada Bob", " Ada\nBob ", None),
        ("copy", "Ada Bob", "Ada", 1),
        ("copy", "Ada Bob", "Ada Bob Cara", 2),
        ("copy", "Ada Bob", "ada Bob", 0),
        ("copy", "Ada Bob", "", 0),
        ("shuffle", "Ada Bob", "Bob Ada", None),
        ("shuffle", "Ada Bob", "Ada Ada", 1),
        ("shuffle", "Ada Ada", "Ada Ada", None),
        ("shuffle", "Ada Bob", "Bob", 1),
        ("shuffle", "Ada Bob", "Ada Bob Ada", 2),
    ],
)
def test_marks(task, answer, output, first_wrong):
    verdict = check(Example(task, "", answer), output)
    assert (verdict.correct, verdict.first_wrong) == (first_wrong is None, first_wrong)


@pytest.mark.parametrize(
    "prompt", ["", "hello", "sort", "sort:", "sort: ,,", "add: 1", "add: 1 + x", "add: 1234567 + 1", "dance: Ada", ":", "add: -1 + 2", "a" * 10_000]
)
def test_what_is_no_task_is_not_marked(prompt):
    assert recognise(prompt) is None


def test_tasks_are_recognised_however_they_are_typed():
    assert recognise("  SORT :  Mia,Ada ").answer == "Ada Mia"
    assert recognise("add: 5+6").answer.endswith("answer 11")
