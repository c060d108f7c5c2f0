"""The exact oracle: its distributions are the true ones; and the cost of parallel commits, in closed forms."""

import itertools
import math
from collections import Counter
from itertools import islice

import pytest
import torch

from engines.core.errors import UserError
from engines.driver.run import run
from engines.models.adapters import oracle
from engines.models.adapters.oracle import EOS, MASK, TURN, answer_ids, load_oracle, right_answers
from engines.models.measures import joint
from engines.models.measures.joint import HIDDEN
from engines.tasks import TASKS, check, recognise
from engines.tasks.words import NAMES
from tests.engines.fakes import commits
from tests.engines.refusals import refuses

MODEL = load_oracle()
WORDS = MODEL.tokenizer
TASK_NAMES = (*oracle.ONE, *oracle.MANY)
SIZES = {"shuffle": (2, 6)}
SPARSE = "sudoku: 0030 0002 1000 0000"  # several solutions: engines.tasks refuses it


def prompts(slug, count=3, seed=0):
    low, high = SIZES.get(slug, TASKS[slug].sizes)
    return [
        next(TASKS[slug].generate("train", seed + i, low + i * (high - low) // max(1, count - 1))).prompt
        for i in range(count)
    ]


def listed(slug, n):
    return f"{slug}: {'Zoe in ' if slug == 'replace any' else ''}{' '.join(NAMES[:n])}"


def board(prompt, room=24, **written):
    """Prompt and masks, with tokens written at the answer's positions p0, p1, ..."""
    x = torch.tensor([*WORDS.encode_prompt(prompt), *[MASK] * room])
    for place, text in written.items():
        x[len(x) - room + int(place[1:])] = EOS if text == "<eos>" else WORDS.ids[text]
    return x


def distributions(x):
    """What the model says of the answer's positions, [{text: probability}]"""
    start = x.tolist().index(TURN) + 1
    p = MODEL(x)[start:].double().exp()
    return [{WORDS.texts[i]: float(row[i]) for i in row.nonzero()[:, 0].tolist()} for row in p]


def right(prompt, text):
    """Marked by the task itself; a sudoku with several solutions by its rules."""
    example = recognise(prompt)
    return fits(prompt, text) if example is None else check(example, text).correct


def fits(sudoku, text):
    given, cells = "".join(sudoku.partition(":")[2].split()), "".join(text.split())
    groups = [cells[r * 4 : r * 4 + 4] for r in range(4)] + [cells[c::4] for c in range(4)]
    groups += [cells[i : i + 2] + cells[i + 4 : i + 6] for i in (0, 2, 8, 10)]
    return (
        len(cells) == 16
        and all(g in ("0", c) for g, c in zip(given, cells, strict=True))
        and all(set(g) == set("1234") for g in groups)
    )


def test_the_first_ids_are_fixed_and_unknown_words_are_spelt():
    assert WORDS.texts[:8] == ["<pad>", "<mask>", "<eos>", "<turn>", "\n", " ", "!", " !"]
    assert len(set(WORDS.texts)) == len(WORDS.texts) == MODEL.vocab_size and MODEL.eos_ids == {EOS}
    assert WORDS.decode([MASK, WORDS.ids[" Mia"], EOS, 10_000]) == " Mia"
    assert all(len(WORDS.encode(f" {name}")) == 1 for name in (*NAMES, *"AZaz09")), "one token for every item and cell"
    params = {"max_new_tokens": 10, "block_length": 10}
    assert run("llada", MODEL, "reverse: Quux, Mia, x-1", params=params).text == "x-1 Mia Quux"
    params |= {"threshold": 1.01, "temperature": 1.0}
    found = {run("threshold", MODEL, "shuffle: Quux, 17", seed=seed, params=params).text for seed in range(12)}
    assert found == {"Quux 17", "17 Quux"}


@pytest.mark.parametrize(
    "prompt",
    [
        *(f"{slug}: Mia Leo Ada" for slug in ("copy", "reverse", "sort", "remove any")),
        listed("shuffle", 4),
        "shuffle: Mia Leo Mia",
        "replace any: Zoe in Mia, Leo, Ada",
        "insert any: Mia in Mia, Leo",
        "insert: Zoe at 3 in Mia Leo",
        "remove: 2 from Mia Leo Ada",
        "replace: 1 by Zoe in Mia Leo Ada",
    ],
)
def test_the_answers_are_exactly_those_that_the_task_accepts(prompt):
    example, used = recognise(prompt), set(right_answers(prompt))
    vocabulary = sorted({word for answer in used for word in answer.split()} | {"Mia", "Tom"})
    for length in range(6):
        for some in itertools.product(vocabulary, repeat=length):
            assert check(example, " ".join(some)).correct == (" ".join(some) in used)


def test_answers_are_complete_and_weigh_as_the_generator_chooses():
    every = ["\n".join(" ".join(cells[i : i + 3]) for i in (0, 3, 6)) for cells in itertools.product("XYZ", repeat=9)]
    assert sorted(right_answers("latin: Y X Z")) == sorted(text for text in every if right("latin: Y X Z", text))
    assert recognise(SPARSE) is None and len(right_answers(SPARSE)) == 6
    open_rows = "sudoku: 1234 3412 0000 0000"
    tried = ["1234 3412 " + "".join(c[:4]) + " " + "".join(c[4:]) for c in itertools.product("1234", repeat=8)]
    assert sorted(right_answers(open_rows)) == sorted(text for text in tried if fits(open_rows, text))
    assert Counter(right_answers("insert any: Mia in Mia, Leo")) == {"Mia Mia Leo": 2, "Mia Leo Mia": 1}
    assert distributions(board("insert any: Mia in Mia, Leo"))[1] == pytest.approx({" Mia": 2 / 3, " Leo": 1 / 3})


def partial_boards(prompt, count, seed):
    """Right answers with some tokens hidden, as (board, visible {place: text}, room)"""
    rng = torch.Generator().manual_seed(seed)
    answers = answer_ids(prompt)
    for _ in range(count):
        room = answers.shape[1] + int(torch.randint(0, 4, (), generator=rng))
        row = answers[int(torch.randint(len(answers), (), generator=rng))].tolist()
        row += [EOS] * (room - len(row))
        kept = (torch.rand(room, generator=rng) < torch.rand((), generator=rng)).tolist()
        x = board(prompt, room)
        x[-room:] = torch.tensor([t if keep else MASK for t, keep in zip(row, kept, strict=True)])
        yield x, {i: WORDS.texts[row[i]] for i in range(room) if kept[i]}, room


@pytest.mark.parametrize("prompt", [p for slug in TASK_NAMES for p in prompts(slug, 2)] + [SPARSE])
def test_marginals_agree_with_brute_force(prompt):
    """Counted over texts, without tensors: split an answer into its tokens, keep those that fit, count each place."""
    for x, visible, room in partial_boards(prompt, 6, seed=len(prompt)):
        split = [[WORDS.texts[i] for i in WORDS.encode(f" {a}")] if a else [] for a in right_answers(prompt)]
        padded = [tokens + ["<eos>"] * (room - len(tokens)) for tokens in split]
        fitting = [tokens for tokens in padded if all(tokens[i] == text for i, text in visible.items())]
        want = [
            {text: count / len(fitting) for text, count in Counter(column).items()}
            for column in zip(*fitting, strict=True)
        ]
        got = distributions(x)
        assert len(got) == len(want) == room and MODEL.consistent(x)
        for one, other in zip(got, want, strict=True):
            assert one == pytest.approx(other, abs=1e-6)


@pytest.mark.parametrize("slug", TASK_NAMES)
def test_the_mask_is_never_proposed_and_what_is_visible_is_sure(slug):
    for prompt in prompts(slug):
        assert recognise(WORDS.decode(WORDS.encode_prompt(prompt))) == recognise(prompt)
        for x, visible, room in partial_boards(prompt, 3, seed=1):
            z = MODEL(x)
            assert z.dtype == torch.float32 and z[:, MASK].eq(-torch.inf).all()
            sure = [*range(len(x) - room), *(len(x) - room + i for i in visible)]
            assert torch.equal(z[sure].argmax(-1), x[sure]) and z[sure, x[sure]].eq(0).all()
            z[0, 0] = -torch.inf  # a method may write into them
            assert MODEL(x)[0, x[0]] == 0


def test_a_broken_board_gets_the_nearest_answers_and_no_nan():
    prompt = "shuffle: Mia Leo Ada"
    broken = board(prompt, p0=" Mia", p1=" Mia")  # the nearest: Mia at the first or at the second place
    assert not MODEL.consistent(broken) and MODEL.consistent(board(prompt, p0=" Mia"))
    z = MODEL(broken)
    assert not z.isnan().any() and distributions(broken)[2] == pytest.approx({" Leo": 0.5, " Ada": 0.5})
    assert distributions(broken)[0] == pytest.approx({" Mia": 0.5, " Leo": 0.25, " Ada": 0.25})
    foreign = board(prompt, p0=" dog", p1=" Leo", p9=" dog")  # nothing that an answer could hold, there or behind it
    assert not MODEL.consistent(foreign) and distributions(foreign)[2] == pytest.approx({" Mia": 0.5, " Ada": 0.5})
    assert not MODEL.consistent(board(prompt, p9=" dog")) and MODEL.consistent(board(prompt, p9="<eos>"))
    alone = board(prompt, p0=" dog")  # agrees with no answer anywhere: all of them
    assert distributions(alone)[1:] == distributions(board(prompt))[1:]
    x = torch.stack([board("copy: Mia Leo Ada"), board("sort: Mia Leo Ada", p0=" Ada"), board("sort: Zoe Leo Ada")])
    assert torch.equal(MODEL(x), torch.stack([MODEL(row) for row in x]))


@pytest.mark.parametrize("slug", TASK_NAMES)
@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("llada", {}),
        ("llada", {"block_length": 4, "remasking": "random"}),
        ("threshold", {"threshold": 1.01, "temperature": 1.0}),
        ("threshold", {"block_length": 1, "threshold": 1.01}),
    ],
)
def test_one_token_per_forward_always_succeeds(slug, method, params):
    for seed, prompt in enumerate([*prompts(slug, 3), *([SPARSE] if slug == "sudoku" else [])]):
        room = answer_ids(prompt).shape[1] // 4 * 4 + 4
        given = {"max_new_tokens": room, "block_length": room, **params}
        trace = run(method, MODEL, prompt, params=given, seed=seed, detail="light")
        assert [len(c) for c in commits(trace)] == [1] * room
        assert right(prompt, trace.text), (prompt, trace.text)


@pytest.mark.parametrize(
    ("prompt", "params", "said"),
    [
        (listed("shuffle", 8), {}, "8 items were given to shuffle; give at most 7"),
        ("What is the capital of France?", {}, "it knows copy, reverse"),
        ("remove: 4 from Mia Leo", {}, "nothing that the oracle can answer"),
        ("sudoku: 1134 0000 0000 0000", {}, "not a 4x4 sudoku that can be solved"),
        ("copy: Zürich Mia", {}, "no token for 'ü'"),
        (listed("copy", 5), {"max_new_tokens": 4}, "has 5 tokens and the board has room for 4; set max_new_tokens to"),
        ("copy: Mia Leo", {"cfg_scale": 1.0}, "cfg_scale=0"),
        (WORDS.encode("copy: Mia Leo"), {}, "end with <turn>"),
    ],
)
def test_prompts_and_boards_that_it_cannot_answer_are_refused(prompt, params, said):
    refuses(UserError, said, run, "llada", MODEL, prompt, params={"block_length": 4} | params)
    hidden = board("copy: Mia Leo")
    hidden[2] = MASK  # a part of the prompt
    refuses(UserError, "finds none on this board", MODEL, hidden)


def test_an_answer_may_fill_the_board_or_be_empty_and_prompts_of_every_size_are_known():
    assert run("threshold", MODEL, listed("copy", 5), params={"max_new_tokens": 5}).text.split() == NAMES[:5]
    empty = run("threshold", MODEL, "remove: 1 from Mia", params={"max_new_tokens": 3})
    assert empty.text == "" and empty.output_ids == [EOS] * 3
    for slug in TASK_NAMES:
        for example in islice(TASKS[slug].generate("train", 5), 15):
            if slug != "shuffle" or len(example.answer.split()) <= 7:
                assert example.answer in right_answers(example.prompt)


@pytest.mark.parametrize("wish", [{"device": "cuda"}, {"dtype": "bfloat16"}, {"mask_id": 3}, {"revision": "main"}])
def test_it_is_loaded_only_as_it_is(wish):
    refuses(UserError, "leave", load_oracle, **wish)
    assert load_oracle(dtype=torch.float32, mask_id=None).record == load_oracle(dtype="auto").record == MODEL.record


WIDE = 1_000


def nothing(answers):
    return torch.full((answers.shape[1],), HIDDEN)


@pytest.mark.parametrize("n", [2, 3, 4, 5, 6])
def test_closed_forms_equal_enumeration(n):
    for slug, correlation, success in [
        ("copy", joint.copy_correlation(n), 1),
        ("shuffle", n * math.log(n) - math.lgamma(n + 1), joint.shuffle_success(n)),
    ]:
        answers = answer_ids(listed(slug, n))
        assert joint.total_correlation(answers, nothing(answers), range(n)) == pytest.approx(correlation, abs=1e-9)
        p = joint.marginals(answers, nothing(answers), WIDE)
        assert float(p[torch.arange(n), answers.unique(dim=0)].prod(1).sum()) == pytest.approx(success)


@pytest.mark.parametrize(("n", "k"), [(n, k) for n in (2, 3, 4, 5) for k in range(1, n + 1)])
def test_success_with_k_per_forward_equals_enumeration(n, k):
    answers = answer_ids(listed("shuffle", n))
    total = 0.0
    for answer in answers:
        visible, chance = nothing(answers), 1.0
        for first in range(0, n, k):
            part = torch.arange(first, min(first + k, n))
            chance *= float(joint.marginals(answers, visible, WIDE)[part, answer[part]].prod())
            visible[part] = answer[part]
        total += chance
    assert joint.shuffle_success(n, k) == pytest.approx(total)
    refuses(ValueError, f"k={n + 1}", joint.shuffle_success, n, n + 1)


@pytest.mark.parametrize("prompt", [listed("shuffle", 5), listed("replace any", 5), "latin: A B C", SPARSE])
def test_the_expected_cost_is_the_mean_over_what_was_written(prompt):
    answers = answer_ids(prompt)
    n = answers.shape[1]
    sets = [list(range(0, n, 2)), list(range(1, n, 2))]
    want = joint.total_correlation(answers, nothing(answers), sets[0])
    for answer in answers:
        visible = nothing(answers)
        visible[sets[0]] = answer[sets[0]]
        want += joint.total_correlation(answers, visible, sets[1]) / len(answers)
    assert 0 < joint.expected_correlation(answers, sets) == pytest.approx(want, abs=1e-9)
    assert joint.expected_correlation(answers, [[place] for place in range(n)]) == 0
