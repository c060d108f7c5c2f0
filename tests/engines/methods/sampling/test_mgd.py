"""Monitor-guided decoding: whatever the model wants, a name behind a known dot exists; and where nothing is known the
decoding is plain."""

import re
import string

import pytest
import torch

import engines
from engines.core.errors import UserError
from engines.core.trace import Piece
from engines.methods.sampling.mgd.monitor import Completions, Monitor, mask
from engines.methods.sampling.mgd.names import Trie, ends_name
from engines.tools import completion
from engines.tools.projects import files_of
from tests.engines.fakes import TableCausal, board

COMPLETIONS = "completions", Completions

BOOK = {"dial", "enroll_payer", "push_row", "tally_cents", "_payers", "_rows"}
PROMPT = "from book import Book\nbook = Book()\nbook."
WORDS = ("push", "_row", "row", "tally_", "cents", "dial", "dial.", "push_row(", "push_rows", "bump", " dial", "book.")
STRINGS = [*(string.ascii_letters + string.digits + "_.()[]=,:#\"' \n"), *WORDS, "."]
EOS = len(STRINGS)


class Letters:
    """Every character that Python needs, some longer strings, one of them twice, and an end mark."""

    def encode_prompt(self, text):
        return [STRINGS.index(letter) for letter in text]

    encode = encode_prompt

    def decode(self, ids):
        return "".join(STRINGS[i] for i in ids if i != EOS)

    def piece(self, token):
        return Piece(token, "<eos>", "special") if token == EOS else Piece(token, STRINGS[token])


def model(seed=0, **options):
    one = TableCausal(vocab_size=EOS + 1, seed=seed, memory=None, eos_ids=(EOS,), **options)
    one.tokenizer = Letters()
    return one


def decode(seed=0, prompt=PROMPT, of=None, **params):
    return engines.run("mgd", of or model(seed), prompt, params={"max_new_tokens": 24, **params})


def known_names(trace):
    """Names behind each dot of a text whose expression the analyser knows, with what it lists there."""
    text = Letters().decode([*trace.header.prompt_ids, *trace.output_ids])
    found = []
    with completion.Analyser(files_of(trace.header.params["project"])) as analyser:
        for match in re.finditer(r"\.(\w*)", text):
            before = text[: match.start(1)]
            if not completion.in_string_or_comment(before):
                names = analyser.members(before, dunder=match[1].startswith("_")).names
                found += [(match[1], names, match.end() == len(text))] if names else []
    return found


@pytest.mark.parametrize("seed", range(4))
def test_every_name_behind_a_known_dot_exists(seed):
    found = known_names(decode(seed, temperature=2.0 * (seed > 0)))
    assert found, "the prompt's dot at least"
    for name, names, cut in found:
        assert name in names or (cut and any(one.startswith(name) for one in names))


def test_a_plain_run_invents_names_here():
    """The invariant above could fail: this model, held to nothing, writes names that do not exist."""
    ends = [one for seed in range(4) for one in known_names(decode(seed, monitor="watch"))]
    assert any(name not in names and not cut for name, names, cut in ends)


def test_off_watching_and_what_is_not_known_write_what_greedy_writes():
    unknown = "def f(q):\n    q."
    for prompt, monitor in ((PROMPT, "off"), (PROMPT, "watch"), (unknown, "guide")):
        plain = engines.run("greedy", model(1), prompt, params={"max_new_tokens": 24})
        trace = decode(1, prompt, monitor=monitor)
        assert trace.output_ids == plain.output_ids
        first = trace.steps[0].record(*COMPLETIONS)
        assert first.state == {"off": "idle", "watch": "asked", "guide": "unknown"}[monitor] and not first.held
        assert trace.steps[0].facts["questions"] == (monitor != "off")


def test_the_mask_is_the_distribution_restricted_and_renormalised():
    L = torch.randn(EOS + 1, generator=torch.Generator().manual_seed(3))
    allowed = Trie(dict(enumerate(STRINGS))).allowed(BOOK)
    p, q = L.softmax(-1), mask(L, allowed).softmax(-1)
    assert torch.allclose(q[allowed], p[allowed] / p[allowed].sum(), atol=1e-6)
    assert q[allowed].sum().item() == pytest.approx(1) and mask(L, []) is L
    L[allowed] = float("-inf")
    assert mask(L, allowed) is L, "where an edit forbids all that is legal the run goes on"


def by_definition(names, tokens):
    """The rule word for word, by trying every token on every name."""
    found = []
    for i, v in enumerate(tokens):
        begins = any(v and c.startswith(v) for c in names)
        ends = any(v.startswith(c) and len(v) > len(c) and ends_name(v[len(c)]) for c in names)
        if begins or ends:
            found.append(i)
    return found


@pytest.mark.parametrize("names", [BOOK, {""}, {"", "s"}, {"row"}, {"a", "ab", "push_row"}, set()])
def test_the_trie_gives_what_the_definition_gives(names):
    tokens = [*STRINGS, "", "row(", "rowx", "row(row", "d", "dia", "dials", "é", "(é"]
    assert Trie(dict(enumerate(tokens))).allowed(names) == by_definition(names, tokens)
    both = {STRINGS.index("."), len(STRINGS) - 1}
    assert len(both) == 2 and both <= set(Trie(dict(enumerate(STRINGS))).allowed([""])), "tokens of one string"


def test_one_question_at_each_dot_and_none_inside_names_strings_and_comments():
    for seed in range(4):
        trace = decode(seed, monitor="watch")
        ids = trace.header.prompt_ids
        for step, at in zip(trace.steps, range(len(ids), len(ids) + len(trace.steps)), strict=True):
            text = Letters().decode([*ids, *trace.output_ids][:at])
            dot = text.endswith(".") and not completion.in_string_or_comment(text)
            assert step.facts["questions"] == dot == any(lane.track == "analyser" for lane in step.intervals)


def test_a_prompt_that_ends_inside_a_name_is_held_to_it():
    text = Letters().decode(decode(2, PROMPT + "ta").output_ids)
    assert re.match(r"lly_cents\W", text)
    astray = decode(2, PROMPT + "zz")
    plain = engines.run("greedy", model(2), PROMPT + "zz", params={"max_new_tokens": 1}).output_ids
    assert astray.output_ids[0] == plain[0], "of a name that does not exist nothing can be held"


def test_the_record_says_what_was_possible_and_what_was_wanted():
    first = decode(0).steps[0].record(*COMPLETIONS)
    assert (first.state, first.total, set(first.names), first.line) == ("asked", len(BOOK), BOOK, 3)
    table = model(0).logits(tuple(Letters().encode_prompt(PROMPT)))[0].softmax(-1)
    allowed = by_definition(BOOK, STRINGS)
    assert first.mass == pytest.approx(float(table[allowed].sum()), abs=1e-6) and first.allowed == len(allowed)
    assert first.refused == [i for i in table.argsort(descending=True).tolist() if i not in allowed][:5]
    ended = [step.record(*COMPLETIONS) for step in decode(0).steps if step.record(*COMPLETIONS).name]
    assert ended and all(one.exists for one in ended)
    watched = [s.record(*COMPLETIONS) for seed in range(4) for s in decode(seed, monitor="watch").steps]
    assert any(one.name and one.exists is False for one in watched)


def test_a_forced_token_inside_a_name_is_followed_by_what_fits():
    original = decode(0)
    at = len(original.header.prompt_ids)
    token = next(i for i in (STRINGS.index("t"), STRINGS.index("e")) if i != original.output_ids[0])
    fork = engines.fork(original, 1, model=model(0), edit=engines.Edit(force={at: token}))
    text = Letters().decode(fork.output_ids)
    assert board(fork) == fork.output_ids and text.startswith(("tally_cents", "enroll_payer"))


def test_the_monitor_closes_its_copy_when_a_run_is_stopped():
    run = engines.stream("mgd", model(0), PROMPT, params={"max_new_tokens": 24})
    next(run)
    monitor = run._generator.gi_frame.f_locals["monitor"]
    assert isinstance(monitor, Monitor) and monitor.analyser.folder.exists()
    run.close()
    assert not monitor.analyser.folder.exists()


def test_what_cannot_be_is_refused_before_the_run():
    for project, sentence in (
        ("# file: a.py\ndef (", "a.py of the project is not Python"),
        ("no such", "neither one that ships"),
    ):
        with pytest.raises(UserError, match=sentence):
            engines.stream("mgd", model(0), PROMPT, params={"project": project})


def test_a_fork_may_switch_the_monitor_on_for_another_project():
    project = "# file: book.py\nclass Book:\n    def zap(self) -> int:\n        return 1\n"
    edit = engines.Edit(params={"monitor": "guide", "project": project})
    fork = engines.fork(decode(0, monitor="off"), 0, model=model(0), edit=edit)
    assert re.match(r"zap\W", Letters().decode(fork.output_ids)) and not fork.end.message
