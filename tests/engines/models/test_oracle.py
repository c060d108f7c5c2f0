"""The exact oracle: its distributions are the true ones, k = 1 never fails, and what parallel commits cost is what the
closed forms say."""

import itertools
import math
from collections import Counter
from itertools import islice

import pytest
import torch

from engines.core.errors import UserError
from engines.core.kinds import CausalLM, MaskedLM
from engines.driver.run import run
from engines.models import joint, oracle
from engines.models.oracle import EOS, MASK, TURN, answer_ids, load_oracle, right_answers
from engines.models.tokens import same_vocabulary
from engines.tasks import TASKS, check, recognise
from engines.tasks.words import NAMES
from tests.engines.fakes import chi_square_p, commits

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
    return [
        {WORDS.texts[i]: float(row[i]) for i in row.nonzero()[:, 0].tolist()} for row in MODEL(x)[start:].double().exp()
    ]


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


# --- what it is


def test_it_is_a_masked_model_with_a_record():
    assert isinstance(MODEL, MaskedLM) and not isinstance(MODEL, CausalLM)
    record = MODEL.record
    found = record.name, record.kind, record.parameters, record.dtype, record.device
    assert found == ("oracle", "masked", 0, "float32", "cpu")
    assert record.licence == "Apache-2.0" and len(record.sha256) == 64 and len(record.tokenizer) == 12
    assert MODEL.warm_up() == 0.0 and MODEL.eos_ids == {EOS} and same_vocabulary(WORDS, load_oracle().tokenizer)


@pytest.mark.parametrize("slug", TASK_NAMES)
def test_prompts_and_answers_survive_the_tokenizer(slug):
    for prompt in prompts(slug):
        ids = WORDS.encode_prompt(prompt)
        assert ids[-1] == TURN and WORDS.decode(ids) == prompt and max(ids) < MODEL.vocab_size
        assert recognise(WORDS.decode(ids)) == recognise(prompt)
        for row, answer in zip(answer_ids(prompt).tolist(), right_answers(prompt), strict=True):
            assert WORDS.decode(row) == (f" {answer}" if answer else "")


def test_one_token_for_every_item_and_every_cell():
    assert all(len(WORDS.encode(f" {name}")) == 1 for name in (*NAMES, *"AZaz09"))
    assert answer_ids("sudoku: 1034 3012 2143 4301").shape == (1, 16)
    assert answer_ids("shuffle: 3, 1, 2").shape == (6, 3)


def test_the_first_ids_are_fixed():
    assert WORDS.texts[:8] == ["<pad>", "<mask>", "<eos>", "<turn>", "\n", " ", "!", " !"]
    assert len(set(WORDS.texts)) == len(WORDS.texts) == MODEL.vocab_size
    assert [WORDS.piece(i).kind for i in (0, 1, 2, 3, 4, MODEL.vocab_size, -1)] == ["special"] * 4 + ["text"] + [
        "special"
    ] * 2
    assert WORDS.decode([MASK, WORDS.ids[" Mia"], EOS, 10_000]) == " Mia"


def test_unknown_words_are_spelt_and_still_decoded_rightly():
    params = {"max_new_tokens": 10, "block_length": 10}
    assert run("llada", MODEL, "reverse: Quux, Mia, x-1", params=params).text == "x-1 Mia Quux"
    assert {
        run(
            "threshold", MODEL, "shuffle: Quux, 17", seed=s, params={**params, "threshold": 1.01, "temperature": 1.0}
        ).text
        for s in range(12)
    } == {"Quux 17", "17 Quux"}


# --- the answers are all right ones


@pytest.mark.parametrize(
    "prompt",
    [f"{slug}: Mia Leo Ada" for slug in ("copy", "reverse", "sort", "remove any")]
    + [
        listed("shuffle", 2),
        listed("shuffle", 4),
        "shuffle: Mia Leo Mia",
        "replace any: Zoe in Mia, Leo, Ada",
        "insert any: Mia in Mia, Leo",
    ]
    + ["insert: Zoe at 3 in Mia Leo", "remove: 2 from Mia Leo Ada", "replace: 1 by Zoe in Mia Leo Ada"],
)
def test_the_answers_are_exactly_those_that_the_task_accepts(prompt):
    example, used = recognise(prompt), set(right_answers(prompt))
    vocabulary = sorted({word for answer in used for word in answer.split()} | {"Mia", "Tom"})
    for length in range(6):
        for some in itertools.product(vocabulary, repeat=length):
            assert check(example, " ".join(some)).correct == (" ".join(some) in used)


def test_latin_squares_and_sudokus_are_complete():
    every = ["\n".join(" ".join(cells[i : i + 3]) for i in (0, 3, 6)) for cells in itertools.product("XYZ", repeat=9)]
    assert sorted(right_answers("latin: Y X Z")) == sorted(text for text in every if right("latin: Y X Z", text))
    assert len(right_answers("latin: A B C D")) == 576
    assert recognise(SPARSE) is None
    found = right_answers(SPARSE)
    assert len(found) == 6 and all(fits(SPARSE, grid) for grid in found)
    open_rows = "sudoku: 1234 3412 0000 0000"
    tried = ["1234 3412 " + "".join(c[:4]) + " " + "".join(c[4:]) for c in itertools.product("1234", repeat=8)]
    assert sorted(right_answers(open_rows)) == sorted(text for text in tried if fits(open_rows, text))


def test_answers_weigh_as_the_generator_chooses():
    assert Counter(right_answers("insert any: Mia in Mia, Leo")) == {"Mia Mia Leo": 2, "Mia Leo Mia": 1}
    assert distributions(board("insert any: Mia in Mia, Leo"))[1] == pytest.approx({" Mia": 2 / 3, " Leo": 1 / 3})
    assert Counter(right_answers("shuffle: Mia Mia Leo")) == {"Mia Mia Leo": 2, "Mia Leo Mia": 2, "Leo Mia Mia": 2}


# --- the distributions


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
def test_rows_are_distributions_and_the_mask_is_never_proposed(slug):
    for prompt in prompts(slug):
        for x, visible, room in partial_boards(prompt, 3, seed=1):
            z = MODEL(x)
            assert z.shape == (len(x), MODEL.vocab_size) and z.dtype == torch.float32 and not z.isnan().any()
            assert z[:, MASK].eq(-torch.inf).all()
            torch.testing.assert_close(
                z.double().exp().sum(-1), torch.ones(len(x), dtype=torch.float64), atol=1e-6, rtol=0
            )
            sure = [*range(len(x) - room), *(len(x) - room + i for i in visible)]
            assert torch.equal(z[sure].argmax(-1), x[sure]) and z[sure, x[sure]].eq(0).all()
            z[0, 0] = -torch.inf  # a method may write into them
            assert MODEL(x)[0, x[0]] == 0


def test_a_batch_is_its_boards_one_by_one():
    """Also of different prompts, and whatever is in the cache."""
    x = torch.stack([board("copy: Mia Leo Ada"), board("sort: Mia Leo Ada", p0=" Ada"), board("sort: Zoe Leo Ada")])
    assert torch.equal(MODEL(x), torch.stack([MODEL(row) for row in x]))
    assert MODEL(x).shape == (3, x.shape[1], MODEL.vocab_size)
    answer_ids.cache_clear()
    assert torch.equal(MODEL(x[1:]), torch.stack([MODEL(row) for row in x])[1:])


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


# --- invariant 1: one token per forward never fails


@pytest.mark.parametrize("slug", TASK_NAMES)
@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("llada", {}),
        ("llada", {"remasking": "random", "temperature": 1.0}),
        ("llada", {"block_length": 4, "remasking": "random"}),
        ("threshold", {"threshold": 1.01, "temperature": 1.0}),
        ("threshold", {"block_length": 1, "threshold": 1.01}),
    ],
)
def test_one_token_per_forward_always_succeeds(slug, method, params):
    for seed, prompt in enumerate([*prompts(slug, 3), *([SPARSE] if slug == "sudoku" else [])]):
        room = answer_ids(prompt).shape[1] // 4 * 4 + 4
        trace = run(
            method,
            MODEL,
            prompt,
            params={"max_new_tokens": room, "block_length": room, **params},
            seed=seed,
            detail="light",
        )
        assert [len(c) for c in commits(trace)] == [1] * room
        assert right(prompt, trace.text), (prompt, trace.text)


@pytest.mark.parametrize("method", ["threshold", "factor", "creditdecoding", "adablock"])
@pytest.mark.parametrize("slug", ["copy", "shuffle", "replace any", "latin"])
def test_parallel_methods_run_on_it_unchanged(method, slug):
    """No mask is left, nothing becomes NaN; where there is one right answer no method can spoil it."""
    for seed in range(3):
        prompt = prompts(slug, 3)[seed]
        trace = run(method, MODEL, prompt, params={"max_new_tokens": 20, "temperature": seed / 2}, seed=seed)
        assert trace.totals.masks_left == 0 and MASK not in trace.output_ids
        assert all(math.isfinite(v) for s in trace.steps for one in s.scores for v in one.values.array() if v == v)
        assert slug != "copy" or trace.text == recognise(prompt).answer


# --- invariant 2: one forward


def sampled(prompt, n, samples=10_000, seed=0):
    """How many of `samples` answers drawn from the marginals of the empty board are right, marked by the
    enumeration."""
    rng = torch.Generator().manual_seed(seed)
    p = MODEL(board(prompt, n))[-n:].double().exp()  # [n, V]
    drawn = torch.multinomial(p, samples, replacement=True, generator=rng).T  # [samples, n]
    return int((drawn[:, None] == answer_ids(prompt)[None]).all(-1).any(1).sum())


@pytest.mark.parametrize("n", [2, 3, 4, 5])
@pytest.mark.parametrize(
    ("slug", "chance"), [("shuffle", joint.shuffle_success), ("replace any", joint.replace_any_success)]
)
def test_sampling_in_one_forward_succeeds_as_often_as_derived(slug, chance, n):
    hits, p = sampled(listed(slug, n), n), chance(n)
    assert chi_square_p([hits, 10_000 - hits], [p, 1 - p]) > 0.001
    assert chi_square_p([hits, 10_000 - hits], [p + 0.03, 0.97 - p]) < 0.001  # the test would see three per cent


def test_the_engine_itself_succeeds_as_often():
    """2 of 4 names per forward, sampled, by the real method."""
    prompt, params = (
        listed("shuffle", 4),
        {"max_new_tokens": 4, "block_length": 4, "steps": 2, "remasking": "random", "temperature": 1.0},
    )
    hits = sum(
        right(prompt, run("llada", MODEL, prompt, params=params, seed=seed, detail="none").text) for seed in range(150)
    )
    p = joint.shuffle_success(4, 2)
    assert p == pytest.approx(3 / 4 * 1 / 2) and chi_square_p([hits, 150 - hits], [p, 1 - p]) > 0.001


@pytest.mark.parametrize("n", [3, 5, 7])
def test_one_forward_of_argmax_copies_or_repeats(n):
    params = {"max_new_tokens": 8, "block_length": 8, "steps": 1}
    copied = run("llada", MODEL, listed("replace any", n), params=params)
    assert copied.totals.forwards == 1
    assert copied.text.split() == NAMES[:n]
    assert not right(copied.header.prompt, copied.text)
    tied = run("llada", MODEL, listed("shuffle", n), params=params)
    assert len(set(tied.text.split())) == 1 and not right(tied.header.prompt, tied.text)
    assert run("llada", MODEL, listed("copy", n), params=params).text.split() == NAMES[:n]


def test_the_bound_of_a_board_counts_from_its_start():
    x = board(listed("shuffle", 4), p0=f" {NAMES[0]}")
    start = x.tolist().index(TURN) + 1
    assert MODEL.joint_bound(x, range(start + 1, start + 4)) == pytest.approx(joint.shuffle_correlation(3))
    assert MODEL.joint_bound(x, range(len(x))) == pytest.approx(
        joint.shuffle_correlation(3)
    )  # prompt, visible and padding cost nothing
    assert MODEL.joint_bound(x, [start + 1]) == MODEL.joint_bound(x, []) == 0
    assert MODEL.joint_bound(board(listed("copy", 4)), range(start, start + 4)) == 0


# --- what is refused


@pytest.mark.parametrize(
    ("prompt", "said"),
    [
        (listed("shuffle", 8), "8 items were given to shuffle; give at most 7"),
        ("What is the capital of France?", "it knows copy, reverse"),
        ("add: 12 + 30", "nothing that the oracle can answer"),
        ("remove: 4 from Mia Leo", "nothing that the oracle can answer"),
        ("latin: A B", "nothing that the oracle can answer"),
        ("sudoku: 1134 0000 0000 0000", "no 4x4 sudoku with a solution"),
        ("sudoku: 12", "no 4x4 sudoku with a solution"),
        ("copy: Zürich Mia", "no token for 'ü'"),
    ],
)
def test_prompts_that_it_cannot_answer_are_refused_before_the_run(prompt, said):
    with pytest.raises(UserError, match=said):
        run("llada", MODEL, prompt)


def test_boards_that_do_not_fit_are_refused():
    with pytest.raises(
        UserError, match="the answer has 5 tokens and the board has room for 4; set max_new_tokens to 5 or more"
    ):
        run("threshold", MODEL, listed("shuffle", 5), params={"max_new_tokens": 4})
    with pytest.raises(UserError, match="cfg_scale=0"):
        run("llada", MODEL, "copy: Mia Leo", params={"cfg_scale": 1.0})
    hidden = board("copy: Mia Leo")
    hidden[2] = MASK  # a part of the prompt
    with pytest.raises(UserError, match="finds none on this board"):
        MODEL(hidden)
    with pytest.raises(UserError, match="end with <turn>"):
        run("llada", MODEL, WORDS.encode("copy: Mia Leo"))
    assert run("llada", MODEL, WORDS.encode_prompt("copy: Mia Leo")).text == "Mia Leo"


def test_an_answer_may_fill_the_board_or_be_empty():
    assert run("threshold", MODEL, listed("copy", 5), params={"max_new_tokens": 5}).text.split() == NAMES[:5]
    empty = run("threshold", MODEL, "remove: 1 from Mia", params={"max_new_tokens": 3})
    assert empty.text == "" and empty.output_ids == [EOS] * 3


@pytest.mark.parametrize("wish", [{"device": "cuda"}, {"dtype": "bfloat16"}, {"mask_id": 3}, {"revision": "main"}])
def test_it_is_loaded_only_as_it_is(wish):
    with pytest.raises(UserError, match="leave"):
        load_oracle(**wish)
    assert load_oracle(dtype=torch.float32, mask_id=None).record == load_oracle(dtype="auto").record == MODEL.record


def test_generated_prompts_of_every_size_are_known():
    for slug in TASK_NAMES:
        for example in islice(TASKS[slug].generate("train", 5), 15):
            if slug != "shuffle" or len(example.answer.split()) <= 7:
                assert example.answer in right_answers(example.prompt)
