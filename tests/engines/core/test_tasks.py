"""The tasks: answers agree by two ways, splits are disjoint, checks accept right answers only; chains of operations."""

import ast
import random
import re
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engines.tasks import CHAINS, TASKS, Example, check, difference_with_steps, recognise, split_of, sum_with_steps
from engines.tasks.chains import answer_of, steps_of
from engines.tasks.domains import TINY, WIDE, arithmetic
from engines.tasks.language import SIMPLE, VOCABULARY, slips
from engines.tasks.puzzles import latin_squares, solutions, sudoku_grids
from engines.training.tiny.overthinker import CHARACTERS, trace
from engines.training.tiny.overthinker import example as written_example

SPLITS = ("train", "validation", "held-out")
EXAMPLES = [(slug, split) for slug in TASKS for split in SPLITS]


@pytest.mark.parametrize(("slug", "split"), EXAMPLES)
def test_examples_are_right_and_repeatable_and_of_one_split(slug, split):
    made, again, other = (list(islice(TASKS[slug].generate(split, seed=seed), 12)) for seed in (3, 3, 4))
    assert made == again != other
    for example in made:
        assert split_of(example.prompt) == split and check(example, example.answer).correct
        read = recognise(example.prompt)  # another way to the answer than the generator's
        assert read.task == slug and check(read, example.answer).correct and check(example, read.answer).correct


@pytest.mark.parametrize("slug", TASKS)
def test_spoilt_answers_are_marked_wrong(slug):
    rng = random.Random(5)
    for example in islice(TASKS[slug].generate("train", seed=9), 40):
        words = example.answer.split(" ")
        i = rng.randrange(len(words))
        for spoilt in ([], words[:-1], [*words, "Ada Ada"], [*words[:i], "zebra", *words[i + 1 :]]):
            output = " ".join(spoilt)
            if slug == "problem" and output.strip().splitlines()[-1:] == example.answer.splitlines()[-1:]:
                continue  # only the last line counts
            asked = example.prompt.split(": ")[1].split(", ")
            if slug == "story" and output.endswith(".") and all(w in output for w in asked):
                continue  # a story may hold any other word
            verdict = check(example, output)
            assert not verdict.correct and 0 <= verdict.first_wrong <= len(output.split()), output


@pytest.mark.parametrize("slug", TASKS)
def test_every_size_gives_an_example_or_says_that_there_is_none(slug):
    low, high = TASKS[slug].sizes
    for size in range(low, high + 1):
        for split in SPLITS:
            try:
                assert next(TASKS[slug].generate(split, size=size)).task == slug
            except ValueError as error:
                assert size == 1 and "choose another size" in str(error)
    for size in (low - 1, high + 1):
        with pytest.raises(ValueError, match="outside"):
            next(TASKS[slug].generate("train", size=size))


def test_held_out_prompts_have_the_sizes_that_are_asked_and_training_has_all():
    def names(**of):
        made = islice(TASKS["shuffle"].generate(**of), 200)
        return {len(one.prompt.split(":")[1].replace(",", " ").split()) for one in made}

    assert names(split="held-out") == {2, 3, 4, 5} and names(split="train") == set(range(2, 9))
    assert names(split="held-out", size=8) == {8}


@pytest.mark.parametrize(("steps", "sign"), [(sum_with_steps, 1), (difference_with_steps, -1)])
def test_columns_step_by_step(steps, sign):
    rng = random.Random(0)
    for _ in range(300):
        a, b = sorted((rng.randrange(10**6), rng.randrange(10**6)), reverse=True)
        *columns, answer = steps(a, b).splitlines()
        assert answer == f"answer {a + sign * b}"
        carry, digits = 0, ""
        for line in columns:
            left, total = line.removesuffix(" borrow").split("=")
            x, y, c = (int(n) for n in re.split("[+-]", left))
            column = x + sign * (y + c)
            assert c == carry and x < 10 > y
            assert int(total) == (column if sign == 1 else column % 10) and line.endswith("borrow") == (column < 0)
            carry, digits = int(column > 9 or column < 0), str(column % 10) + digits
        assert int((str(carry) if carry else "") + digits) == a + sign * b


def test_problems_are_computed_as_told():
    example = Example("problem", "", "3 * 9 = 27\n27 - 6 = 21\nanswer 21")
    asked = "problem: Ted has 3 boxes with 9 maps each. Ted gives 6 to Fred. How many maps does Ted have now?"
    assert recognise(asked).answer == example.answer
    assert check(example, "3*9 is 27\nanswer 21").correct and not check(example, "answer 21\n27").correct
    assert check(example, "3 * 9 = 28\nanswer 22").first_wrong == 4
    for made in islice(TASKS["problem"].generate("held-out", seed=2), 60):
        *lines, last = made.answer.splitlines()
        value = ""
        for line in lines:
            left, result = line.split(" = ")
            assert eval(left) == int(result) and line.startswith(value) and 1 <= int(result) <= 99
            value = f"{result} "
        assert last == f"answer {value}".strip() and len(lines) in (2, 3)


def test_puzzles_are_counted_right():
    assert (len(latin_squares(3)), len(latin_squares(4)), len(sudoku_grids())) == (12, 576, 288)
    assert len(solutions("0000 0000 0000 0000")) == 288
    for example in islice(TASKS["sudoku"].generate("held-out", seed=2), 20):
        puzzle = example.prompt.split(": ")[1]
        assert solutions(puzzle) == [example.answer] and 3 <= puzzle.count("0") <= 8
        rows = example.answer.split()
        boxes = [rows[r][c : c + 2] + rows[r + 1][c : c + 2] for r in (0, 2) for c in (0, 2)]
        assert all(sorted(line) == list("1234") for line in [*rows, *map("".join, zip(*rows, strict=True)), *boxes])
    assert recognise("sudoku: 0000 0000 0000 0000") is None  # many solutions: no single answer to mark against


def test_corrections_have_one_right_answer():
    for word in ("garden", "Tom"):
        assert all(abs(len(s) - len(word)) <= 1 and s[0] == word[0] for s in slips(word))
    for asked, answer in {
        "spell: the grden is big.": "the garden is big.",
        "grammar: She walk in the park every day.": "She walks in the park every day.",
        "grammar: Ben has two book.": "Ben has two books.",
        "grammar: They is sad today.": "They are sad today.",
        "read: Mia lives in Rome. Tom has a red kite. What does Tom have?": "Tom has a red kite.",
        "read: Mia lives in Rome. Tom has a red kite. Who lives in Rome?": "Mia lives in Rome.",
        "  SORT :  Mia,Ada ": "Ada Mia",
        "add: 5+6": "5+6+0=11\nanswer 11",
        "Insert  any: Kim in Ada": "Kim Ada",
    }.items():
        assert recognise(asked).answer == answer
    assert {v + end for v in SIMPLE for end in ("", "s", "ed")} <= VOCABULARY


def test_programs_do_what_is_asked():
    values = {"int": 7, "str": "x", "bool": True}
    for example in islice(TASKS["python"].generate("held-out", seed=2), 40):
        space: dict = {}
        declared = example.prompt[example.prompt.rindex(" ", 0, example.prompt.index("(")) + 1 :]
        exec(recognise(f"python: class {declared}").answer, space)
        cls = space[declared.split("(")[0]]
        fields = dict(part.split(": ") for part in declared.split("(")[1].rstrip(")").split(", "))
        exec(example.answer, space)
        obj = cls(**{field: values[kind] for field, kind in fields.items()})
        named = [node.name for node in ast.walk(ast.parse(example.answer)) if isinstance(node, ast.FunctionDef)]
        for name in {*named} - {"__init__"}:
            what, field = name.split("_", 1)
            if what in ("sum", "max", "min"):
                assert space[name]([obj, obj]) == (14 if what == "sum" else 7)
            elif what == "set":
                assert space[name](obj, "new") is None and getattr(obj, field) == "new"
            else:
                assert space[name](obj) == (14 if what == "double" else values[fields[field]])
    relaid = check(Example("python", "", "def f(a: int) -> int:\n    return a"), "def f(a:int)->int: return a")
    assert relaid.correct and not check(Example("python", "", "x = 1"), "x = = 1").correct


@pytest.mark.parametrize(
    ("prompt", "output", "first_wrong"),
    [
        ("copy: Ada Bob", " Ada\nBob ", None),
        ("copy: Ada Bob", "Ada Bob Cara", 2),
        ("copy: Ada Bob", "ada Bob", 0),
        ("shuffle: Ada Bob", "Bob Ada", None),
        ("shuffle: Ada Bob", "Ada Ada", 1),
        ("shuffle: Ada Bob", "Ada Bob Ada", 2),
        ("insert any: Kim in Ada Bob", "Ada Kim Kim", 2),
        ("remove any: Ada Bob Cara", "Cara Ada", 0),
        ("replace any: Kim in Ada Bob", "Ada Bob", 1),
        ("sentence: red dog find ball", "The dog finds the red ball.", None),
        ("story: Mia, boat", "Mia went out. She saw a boat. She was happy.", None),
        ("story: Mia, boat", "Mia went out. She was happy. It rained.", 7),
        ("latin: A B C", "B C A\nA B C\nC A B", None),
        ("latin: A B C", "A B D", 2),
        ("latin: A B C", "A B C B C A C A B A", 9),
    ],
)
def test_marks(prompt, output, first_wrong):
    task, _, asked = prompt.partition(": ")
    verdict = check(Example(task, prompt, asked), output)
    assert (verdict.correct, verdict.first_wrong) == (first_wrong is None, first_wrong)


NO_TASKS = """
hello|sort|sort:|sort: ,,|add: 1|add: 1 + x|add: 1234567 + 1|add: -1 + 2|dance: Ada|:
insert: Kim at 9 in Ada|insert any: Kim|remove: 0 from Ada|remove any:|subtract: 3 - 5|latin: A A B|sudoku: 12
python: class|python: get x of Box(y: int)|python: is y of Box(y: int)|story: Mia|problem: Tom.|sentence: dog
read: ?|read: Tom is 9 years old. Where does Tom live?|grammar: Anything else.|spell: the garden is big.
spell: the xqzzt is big.
"""


@pytest.mark.parametrize("prompt", ["", "a" * 10_000, *NO_TASKS.strip().replace("\n", "|").split("|")])
def test_what_is_no_task_is_not_marked(prompt):
    assert recognise(prompt) is None


CHAIN = st.builds(
    lambda first, rest: f"{first}" + "".join(f"{sign}{digit}" for sign, digit in rest),
    st.integers(0, 9),
    st.lists(st.tuples(st.sampled_from("+-*"), st.integers(0, 9)), min_size=3, max_size=5),
)


@given(CHAIN)
def test_the_answer_is_the_last_digit_from_left_to_right(chain):
    value = chain[0]
    for sign, digit in zip(chain[1::2], chain[2::2], strict=True):
        value = f"({value}{sign}{digit})"
    right = str(eval(value) % 10)
    assert recognise(f" {chain} ") == Example("chain", f" {chain} ", right)
    assert check(Example("chain", chain, right), f"c4+8=2;#{right}").correct
    assert not check(Example("chain", chain, right), "c4+8=2;").correct


@pytest.mark.parametrize("other", ["4+8", "4+8-9*77", "4/8-9*7", "sum: 4+8-9*7", "4+8-9*7?", "", "4+8-9*7+1+1+1"])
def test_what_is_no_chain_is_not_taken_for_one(other):
    found = recognise(other)
    assert found is None or found.task != CHAINS.slug


def test_generated_chains_keep_to_their_split_and_long_traces_are_worse_by_construction():
    for split in ("train", "held-out"):
        made = CHAINS.generate(split, 1)
        for one in (next(made) for _ in range(20)):
            assert split_of(one.prompt) == split
            assert one.answer == str(steps_of(one.prompt.removeprefix("chain: "))[-1][3])
    assert [answer_of(text) for text in ("c1+1=2;#2;w1+1=2;#3", "#", "", "#x#4")] == ["3", "", "", "4"]
    rng, right = random.Random(0), {}
    for _ in range(4000):
        chain, answer = CHAINS.make(rng, 4)
        written = trace(chain, rng)
        assert set(written) <= set(CHARACTERS)
        right.setdefault(min(3, written.count("w")), []).append(answer_of(written) == answer)
    shares = [sum(right[n]) / len(right[n]) for n in range(4)]
    assert shares == sorted(shares, reverse=True) and shares[0] > 0.99 and shares[3] < 0.9
    assert written_example(rng, "1+1+1+1")[0] == "^1+1+1+1?"


def test_texts_of_domains_are_the_same_again_and_held_out_ones_are_others():
    for texts in [*WIDE.values(), *TINY.values()]:
        asked = (("train", 0), ("train", 0), ("train", 1), ("held-out", 0))
        first, again, other, held = (list(islice(texts(split, seed), 2)) for split, seed in asked)
        assert first == again and first not in (other, held) and all(first)
    for line in next(arithmetic("train", 0)).splitlines():
        problem, _, answer = line.partition(" = ")
        assert eval(problem) == int(answer)
