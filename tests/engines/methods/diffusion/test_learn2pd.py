"""Learn2PD: a filter decides what is committed, EoTP where the board ends; its oracle; and how filters are found. On
tables of logits."""

import json

import pytest
import torch
from safetensors.torch import save_file

import engines
from engines.core.trace import ModelRecord, check_consistency
from engines.models.parts.filters import BlockFilter, filter_of, from_state, read_filter
from tests.engines.fakes import Remembering, TableMasked, board, commits, lane

SEEDS, P, G, B = range(2), 2, 24, 8
ORACLE = "learn2pd-oracle"
EOS = 3


def by_threshold(theta, large=1000.0):
    """A hand-made filter: large where c > theta, very negative elsewhere (relu keeps c; the line stands in the
    second layer)."""
    eye, line = torch.eye(B), torch.full((B,), -large * theta)
    return {
        "linear1.weight": eye,
        "linear1.bias": torch.zeros(B),
        "linear2.weight": large * eye,
        "linear2.bias": line,
    }


@pytest.fixture
def made(tmp_path):
    """Writes a filter and gives its path."""

    def make(state):
        path = tmp_path / f"filter{len(list(tmp_path.iterdir()))}.safetensors"
        save_file(state, path)
        return str(path)

    return make


def decode(seed=0, slug="learn2pd", edits=(), **params):
    own = {"learn2pd": {"eotp": False}, ORACLE: {"eotp": False, "decides": "oracle"}}
    given = {"max_new_tokens": G, "block_length": B, **own.get(slug, {}), **params}
    return engines.run(slug, TableMasked(seed=seed, eos_ids=(EOS,)), [1, 2], params=given, edits=edits)


def forwards(trace):
    return trace.totals.forwards_by_role["model"]


@pytest.mark.parametrize("seed", SEEDS)
def test_a_line_of_one_is_the_schedule_and_one_below_zero_a_forward_per_block(seed, made):
    alone, base = decode(seed, accept_thres=1.0), decode(seed, slug="llada")
    assert commits(alone) == commits(base) and alone.output_ids == base.output_ids
    assert {cause for s in alone.steps for cause in s.commits.causes} == {"top1"}
    whole = decode(seed, accept_thres=-0.01, filter=made(by_threshold(0.5)))
    assert [sorted(one) for one in commits(whole)] == [list(range(P + i * B, P + (i + 1) * B)) for i in range(G // B)]


@pytest.mark.parametrize("kind", ["prefix", "dual"])
@pytest.mark.parametrize("shift", [False, True])
def test_with_a_cache_only_the_blocks_own_end_marks_cut(kind, shift, made):
    """Replayed on whole boards: `Remembering` looks one step far, so what is old says nothing else."""
    inside = behind = 0
    path = made(by_threshold(0.6))
    for seed in range(4):
        table = Remembering(shift, seed=seed, eos_ids=(EOS,))
        given = {"max_new_tokens": G, "block_length": B, "accept_thres": 0.9, "filter": path, "cache": kind}
        trace = engines.run("learn2pd", table, [1, 2], params=given)
        check_consistency(trace)
        assert board(trace) == trace.output_ids and trace.totals.masks_left == 0
        x = torch.tensor([1, 2] + [table.mask_id] * G)
        for step, written in zip(trace.steps, commits(trace), strict=True):
            a, b = next((s.start, s.end) for s in step.spans if s.kind == "block")
            p, x0 = table(x).softmax(-1).max(-1)
            masked = x == table.mask_id
            behind += bool(((x0 == EOS) & masked)[b:].any())
            ends = {q: float(p[q]) for q in range(a, b) if masked[q] and x0[q] == EOS}
            accepted = [q for q in ends if ends[q] > 0.6]
            end = accepted[0] if accepted else max(ends, key=ends.get) if ends else len(x) - 1
            hidden = [q for q in range(a, b) if masked[q]]
            ready = {q for q in hidden if p[q] > 0.6} | {max(hidden, key=lambda q: float(p[q]))}
            cut = {end + 1: -1} if end + 1 < len(x) else {}
            assert written == {q: int(x0[q]) for q in ready if q <= end} | cut
            assert [(s.start, s.end) for s in step.spans if s.kind == "cut"] == [(q, len(x)) for q in cut]
            inside += end + 1 < b
            x[sorted(ready)] = x0[sorted(ready)]
            x = x[: end + 1]
        assert x[P:].tolist() == trace.output_ids
    assert inside and behind  # boards were cut inside a block, and end marks behind one did not cut


@pytest.mark.parametrize("n", [1, 7])
def test_a_short_block_is_filled_up_with_zeros(n):
    shapes = zip(by_threshold(0), [(B, B), (B,)] * 2, strict=True)
    state = {name: torch.randn(shape, generator=torch.Generator().manual_seed(n)) for name, shape in shapes}
    g, c = from_state(state, "random"), torch.rand(n, generator=torch.Generator().manual_seed(1))
    w1, b1, w2, b2 = state.values()
    whole = ((torch.cat([c, torch.zeros(B - n)]) @ w1.T + b1).relu() @ w2.T + b2).sigmoid()
    assert torch.allclose(g(c), whole[:n]) and torch.allclose(g(torch.stack([c, c]))[1], whole[:n])


@pytest.mark.parametrize("seed", SEEDS)
def test_the_oracle_reproduces_the_reference(seed):
    trace, base = decode(seed, slug=ORACLE), decode(seed, slug="llada")
    assert trace.output_ids == base.output_ids
    assert trace.totals.forwards_by_role["reference"] == G and forwards(trace) <= 2 * G
    assert all(not s.commits for s in trace.steps[:G]) and all("reference" not in s.forwards for s in trace.steps[G:])
    assert {cause for s in trace.steps[G:] if s.commits for cause in s.commits.causes} <= {"oracle", "reference"}


@pytest.mark.parametrize("seed", SEEDS)
def test_showing_the_oracle_changes_nothing(seed, made):
    own = {"accept_thres": 0.9, "filter": made(by_threshold(0.4))}
    shown, plain = decode(seed, slug=ORACLE, decides="filter", eotp=True, **own), decode(seed, eotp=True, **own)
    assert commits(shown)[G:] == commits(plain) and shown.output_ids == plain.output_ids
    assert forwards(shown) == forwards(plain) == shown.totals.forwards - G
    y, table = decode(seed, slug="llada").output_ids, TableMasked(seed=seed, eos_ids=(EOS,))
    uncut = decode(seed, slug=ORACLE, decides="filter", **own)  # so that the facts can be counted in the commits
    first = uncut.steps[G]
    proposals = table(torch.tensor([1, 2] + [table.mask_id] * G)).argmax(-1)
    assert lane(first, "oracle") == {q: float(proposals[q] == y[q - P]) for q in range(P, P + B)}
    assert first.facts["oracle"] == sum(lane(first, "oracle").values())
    hits = [t == y[q - P] for q, t in zip(first.commits.positions, first.commits.tokens, strict=True)]
    assert first.facts["missed"] == first.facts["oracle"] - sum(hits) and first.facts["wrong"] == len(hits) - sum(hits)


def test_an_edit_behind_the_cut_is_refused_and_the_run_goes_on():
    given = {"max_new_tokens": G, "block_length": B, "accept_thres": 1.0}
    one = engines.stream("learn2pd", TableMasked(seed=1, eos_ids=(EOS,)), [1, 2], params=given)
    step = next(one)
    while -1 not in step.commits.tokens:
        step = next(one)
    end = step.commits.positions[step.commits.tokens.index(-1)]
    with pytest.raises(engines.UserError, match=f"has positions {P} to {end - 1}"):
        one.send(engines.Edit(force={end: 5}))
    list(one)
    assert one.trace().end.reason == "complete" and one.trace().totals.masks_left == 0


@pytest.mark.parametrize("step", [G // 2, G, G + 1])
def test_what_is_forbidden_is_in_no_reference_and_not_copied(step):
    """While the reference is decoded, behind it, and after the first forward of the oracle."""
    for seed in SEEDS:
        plain = decode(seed, slug=ORACLE)
        for place in range(0, G, 6):
            held = plain.output_ids[place]
            fork = decode(seed, slug=ORACLE, edits=[(step - 1, engines.Edit(forbid={P + place: [held]}))])
            late = [s.commits for s in fork.steps[step:] if s.commits]
            assert all((P + place, held) not in zip(one.positions, one.tokens, strict=True) for one in late)
            assert fork.end.reason == "complete" and board(fork) == fork.output_ids


def test_errors_say_what_to_do(made):
    for params, sentence in (
        ({}, "there is no filter for table.*python -m engines.training filter table.*accept_thres=1"),
        ({"filter": "no/such/file.safetensors"}, "is not a filter: give a safetensors file"),
        ({"filter": "/etc/passwd"}, "is not a filter"),
        ({"filter": "layer_2_flan.pth"}, "pickle.*--convert"),
        ({"filter": made(by_threshold(0.5)), "block_length": 12}, "block_length=12 is longer than the 8 inputs"),
    ):
        with pytest.raises(engines.UserError, match=sentence):
            decode(**params)
    nan, bias = torch.full((B, B), torch.nan), torch.zeros(B + 1)
    for broken in ({"linear1.bias": bias}, {"linear2.weight": nan}, {"more": torch.zeros(1)}):
        with pytest.raises(engines.UserError, match="is not a filter"):
            read_filter(made({**by_threshold(0.5), **broken}))


def test_a_filter_stands_beside_its_model_and_one_of_other_weights_is_refused(tmp_path, monkeypatch):
    def record(name="mine", digest="abc"):
        return ModelRecord(role="model", name=name, kind="masked", sha256=digest)

    path = tmp_path / "models" / "mine-filter" / "model.safetensors"
    path.parent.mkdir(parents=True)
    monkeypatch.setenv("DECODING_EXPLORER_ASSETS", str(tmp_path))
    save_file(by_threshold(0.5), path)
    card = {"model_sha256": "abc", "sha256": read_filter(str(path)).sha256}
    path.with_name("card.json").write_text(json.dumps(card))
    found = filter_of(record())
    assert isinstance(found, BlockFilter) and found.size == B
    assert filter_of(record("someone/mine")).sha256 == found.sha256
    assert "mine-filter" not in [m.name for m in engines.list_models()]
    with pytest.raises(engines.UserError, match=r"other weights \(abc.*than mine has \(def.*training filter mine"):
        filter_of(record(digest="def"))
    save_file(by_threshold(0.6), path)
    with pytest.raises(engines.UserError, match="not the file that its card describes"):
        filter_of(record())
    with pytest.raises(engines.UserError, match="there is no filter for"):
        filter_of(record("../../etc"))
