"""Learn2PD: a filter decides what is committed, EoTP where the board ends; its oracle; and how filters are found. On
tables of logits."""

import json

import pytest
import torch
from safetensors.torch import save_file

import engines
from engines.core.masks import mask_positions
from engines.core.trace import ModelRecord, check_consistency
from engines.methods.diffusion.learn2pd.board import end_of_text, is_best
from engines.models.filters import BlockFilter, filter_of, from_state, read_filter
from tests.engines.fakes import Remembering, TableMasked, board, commits, lane

SEEDS, P, G, B = range(2), 2, 24, 8
ORACLE = "learn2pd-oracle"
EOS = 3


def by_threshold(theta, b=B, large=1000.0):
    """A hand-made filter: large where c > theta, very negative elsewhere (relu keeps c; the line stands in the
    second layer)."""
    eye = torch.eye(b)
    return {
        "linear1.weight": eye,
        "linear1.bias": torch.zeros(b),
        "linear2.weight": large * eye,
        "linear2.bias": torch.full((b,), -large * theta),
    }


@pytest.fixture
def made(tmp_path):
    """Writes a filter and gives its path."""

    def make(state):
        path = tmp_path / f"filter{len(list(tmp_path.iterdir()))}.safetensors"
        save_file(state, path)
        return str(path)

    return make


def decode(seed=0, model=None, slug="learn2pd", edits=(), eos_ids=(EOS,), **params):
    table = model or TableMasked(seed=seed, eos_ids=eos_ids)
    own = {"learn2pd": {"eotp": False}, ORACLE: {"eotp": False, "decides": "oracle"}}
    given = {"max_new_tokens": G, "block_length": B, **own.get(slug, {}), **params}
    return engines.run(slug, table, [1, 2], params=given, edits=edits)


def forwards(trace):
    return trace.totals.forwards_by_role["model"]


@pytest.mark.parametrize("seed", SEEDS)
def test_a_line_of_one_is_the_schedule_alone(seed):
    ours, base = decode(seed, accept_thres=1.0), decode(seed, slug="llada")
    assert commits(ours) == commits(base) and ours.output_ids == base.output_ids
    assert {cause for s in ours.steps for cause in s.commits.causes} == {"top1"}


@pytest.mark.parametrize("seed", SEEDS)
def test_a_line_below_zero_is_one_forward_per_block(seed, made):
    trace = decode(seed, accept_thres=-0.01, filter=made(by_threshold(0.5)))
    assert forwards(trace) == G // B
    assert [sorted(one) for one in commits(trace)] == [list(range(P + i * B, P + (i + 1) * B)) for i in range(G // B)]


@pytest.mark.parametrize("theta", [0.3, 0.6, 0.8])
@pytest.mark.parametrize("seed", SEEDS)
def test_a_hand_made_filter_is_a_threshold(seed, theta, made):
    ours, plain = (
        decode(seed, accept_thres=0.5, filter=made(by_threshold(theta))),
        decode(seed, slug="threshold", threshold=theta),
    )
    assert commits(ours) == commits(plain)
    assert forwards(plain) < G or theta > 0.5  # it is not the schedule by chance


def cuts(trace):
    """(step, position) of every cut."""
    return [
        (s.index, q)
        for s in trace.steps
        if s.commits
        for q, t in zip(s.commits.positions, s.commits.tokens, strict=True)
        if t < 0
    ]


@pytest.mark.parametrize("seed", SEEDS)
def test_the_cut_keeps_a_proposed_end_mark_last(seed, made):
    table = TableMasked(seed=seed, eos_ids=(EOS,))
    trace = decode(model=table, eotp=True, accept_thres=0.9, filter=made(by_threshold(0.6)))
    check_consistency(trace)
    assert board(trace) == trace.output_ids and engines.Trace.from_json(trace.to_json()) == trace
    ends = [q for _, q in cuts(trace)]
    assert ends and ends == sorted(ends, reverse=True) and len(trace.output_ids) == ends[-1] - P
    x = torch.tensor([1, 2] + [table.mask_id] * G)
    for step in trace.steps:  # replayed beside the recording
        proposals, length, masked = table(x).argmax(-1), len(x), x == table.mask_id
        assert step.tokens_fed == length
        for q, token in zip(step.commits.positions, step.commits.tokens, strict=True):
            if token < 0:
                assert proposals[q - 1] == EOS and masked[q - 1]
                assert [(s.start, s.end) for s in step.spans if s.kind == "cut"] == [(q, length)]
                assert step.facts["cut"] == length - q and "after it" in step.note
                x = x[:q]
            else:
                x[q] = token
    assert x[P:].tolist() == trace.output_ids


@pytest.mark.parametrize("kind", ["prefix", "dual"])
@pytest.mark.parametrize("shift", [False, True])
def test_with_a_cache_only_the_blocks_own_end_marks_cut(kind, shift, made):
    """Replayed on whole boards: `Remembering` looks one step far, so what is old says nothing else."""
    inside = behind = 0
    path = made(by_threshold(0.6))
    for seed in range(4):
        table = Remembering(shift, seed=seed, eos_ids=(EOS,))
        trace = decode(model=table, eotp=True, accept_thres=0.9, filter=path, cache=kind)
        check_consistency(trace)
        assert board(trace) == trace.output_ids and trace.totals.masks_left == 0
        x = torch.tensor([1, 2] + [table.mask_id] * G)
        for i, (step, written) in enumerate(zip(trace.steps, commits(trace), strict=True)):
            a, b = next((s.start, s.end) for s in step.spans if s.kind == "block")
            new = i == 0 or a != next(s.start for s in trace.steps[i - 1].spans if s.kind == "block")
            assert step.tokens_fed == (len(x) if new else (b if kind == "dual" else len(x)) - (a - shift))
            p, x0 = table(x).softmax(-1).max(-1)
            masked = x == table.mask_id
            behind += bool(((x0 == EOS) & masked)[b:].any())
            ends = {q: float(p[q]) for q in range(a, b) if masked[q] and x0[q] == EOS}
            accepted = [q for q in ends if ends[q] > 0.6]
            end = accepted[0] if accepted else max(ends, key=ends.get) if ends else len(x) - 1
            ready = {q for q in range(a, b) if masked[q] and p[q] > 0.6} | {
                max((q for q in range(a, b) if masked[q]), key=lambda q: float(p[q]))
            }
            assert written == {q: int(x0[q]) for q in ready if q <= end} | ({end + 1: -1} if end + 1 < len(x) else {})
            inside += end + 1 < b
            x[sorted(ready)] = x0[sorted(ready)]
            x = x[: end + 1]
        assert x[P:].tolist() == trace.output_ids
    assert inside and behind  # boards were cut inside a block, and end marks behind one did not cut


def test_which_end_mark_cuts():
    masks, conf = torch.tensor([4, 6, 7, 9]), torch.tensor([0.9, 0.2, 0.8, 0.8])
    E, none = torch.tensor([False, True, True, True]), torch.tensor([], dtype=torch.long)
    assert end_of_text(masks, conf, E, none, 0.0) == (7, pytest.approx(0.8))  # the most confident, the first of equals
    assert end_of_text(masks, conf, E, torch.tensor([4, 6, 9]), 0.0) == (6, pytest.approx(0.2))  # the first accepted
    assert end_of_text(masks, conf, E, torch.tensor([4, 6, 9]), 1.0) == (
        6,
        pytest.approx(0.2),
    )  # the bar is for what is only proposed
    assert end_of_text(masks, conf, E, none, 0.85) is None
    assert end_of_text(masks, conf, ~E & False, none, 0.0) is None


@pytest.mark.parametrize("n", [1, 5, 7])
def test_a_short_block_is_filled_up_with_zeros(n):
    made = {
        name: torch.randn(shape, generator=torch.Generator().manual_seed(n))
        for name, shape in zip(by_threshold(0), [(B, B), (B,)] * 2, strict=True)
    }
    g, c = from_state(made, "random"), torch.rand(n, generator=torch.Generator().manual_seed(1))
    layers = torch.nn.Linear(B, B), torch.nn.Linear(B, B)
    for layer, name in zip(layers, ("linear1", "linear2"), strict=True):
        layer.load_state_dict({"weight": made[f"{name}.weight"], "bias": made[f"{name}.bias"]})
    with torch.no_grad():
        whole = layers[1](layers[0](torch.cat([c, torch.zeros(B - n)])).relu()).sigmoid()
    assert torch.allclose(g(c), whole[:n]) and torch.allclose(g(torch.stack([c, c]))[1], whole[:n])


@pytest.mark.parametrize("seed", SEEDS)
def test_the_oracle_reproduces_the_reference(seed):
    trace, base = decode(seed, slug=ORACLE), decode(seed, slug="llada")
    assert trace.output_ids == base.output_ids
    roles = trace.totals.forwards_by_role
    assert roles["reference"] == G and roles["model"] <= 2 * G
    assert all(not s.commits for s in trace.steps[:G]) and all("reference" not in s.forwards for s in trace.steps[G:])
    assert {cause for s in trace.steps[G:] if s.commits for cause in s.commits.causes} <= {"oracle", "reference"}


@pytest.mark.parametrize("seed", SEEDS)
def test_showing_the_oracle_changes_nothing(seed, made):
    own = {"accept_thres": 0.9, "filter": made(by_threshold(0.4)), "eotp": True}
    shown, plain = decode(seed, slug=ORACLE, decides="filter", **own), decode(seed, **own)
    assert commits(shown)[G:] == commits(plain) and shown.output_ids == plain.output_ids
    assert forwards(shown) == forwards(plain) == shown.totals.forwards - G
    y = decode(seed, slug="llada").output_ids
    table = TableMasked(seed=seed, eos_ids=(EOS,))
    first = decode(seed, slug=ORACLE, **{**own, "eotp": False, "decides": "filter"}).steps[
        G
    ]  # uncut, so that the facts can be counted in the commits
    proposals = table(torch.tensor([1, 2] + [table.mask_id] * G)).argmax(-1)
    assert lane(first, "oracle") == {q: float(proposals[q] == y[q - P]) for q in range(P, P + B)}
    assert first.facts["oracle"] == sum(lane(first, "oracle").values())
    hits = [t == y[q - P] for q, t in zip(first.commits.positions, first.commits.tokens, strict=True)]
    assert first.facts["missed"] == first.facts["oracle"] - sum(hits) and first.facts["wrong"] == len(hits) - sum(hits)


def test_the_lanes_are_what_the_filter_read_and_said(made):
    state = by_threshold(0.5, large=4.0)
    trace, g = decode(accept_thres=0.6, filter=made(state)), from_state(state, "mine")
    step = trace.steps[2]
    block = next(s for s in step.spans if s.kind == "block")
    read, said = ([lane(step, name)[q] for q in range(block.start, block.end)] for name in ("confidence", "filter"))
    assert g(torch.tensor(read)).tolist() == pytest.approx(said, abs=0.02)
    assert next(one for one in step.scores if one.name == "filter").threshold == 0.6
    for q, cause in zip(step.commits.positions, step.commits.causes, strict=True):
        assert cause == ("filter" if lane(step, "filter")[q] > 0.6 else "top1")


def test_the_best_is_a_mask():
    assert is_best(torch.tensor([1.0, 0.2, 0.4]), torch.tensor([False, True, True])).tolist() == [False, False, True]


def test_an_edit_behind_the_cut_is_refused_and_the_run_goes_on():
    table = TableMasked(seed=1, eos_ids=(EOS,))
    one = engines.stream(
        "learn2pd", table, [1, 2], params={"max_new_tokens": G, "block_length": B, "accept_thres": 1.0}
    )
    step = next(one)
    while not any(t < 0 for t in step.commits.tokens):
        step = next(one)
    end = next(q for q, t in zip(step.commits.positions, step.commits.tokens, strict=True) if t < 0)
    with pytest.raises(engines.UserError, match=f"has positions {P} to {end - 1}"):
        one.send(engines.Edit(force={end: 5}))
    list(one)
    assert one.trace().end.reason == "complete" and not len(
        mask_positions(torch.tensor(one.trace().output_ids), table.mask_id)
    )


@pytest.mark.parametrize("step", [G // 2, G, G + 1])
def test_what_is_forbidden_is_in_no_reference_and_not_copied(step):
    """While the reference is decoded, behind it, and after the first forward of the oracle."""
    for seed in SEEDS:
        plain = decode(seed, slug=ORACLE)
        for place in range(0, G, 3):
            held = plain.output_ids[place]
            fork = decode(seed, slug=ORACLE, edits=[(step - 1, engines.Edit(forbid={P + place: [held]}))])
            late = [s.commits for s in fork.steps[step:] if s.commits]
            assert all((P + place, held) not in zip(one.positions, one.tokens, strict=True) for one in late)
            assert fork.end.reason == "complete" and board(fork) == fork.output_ids


@pytest.mark.parametrize(
    ("params", "sentence"),
    [
        ({}, "there is no filter for table.*python -m engines.training filter table.*accept_thres=1"),
        ({"filter": "no/such/file.safetensors"}, "is not a filter: give a safetensors file"),
        ({"filter": "/etc/passwd"}, "is not a filter"),
        ({"filter": "layer_2_flan.pth"}, "pickle.*--convert"),
    ],
)
def test_errors_say_what_to_do(params, sentence):
    with pytest.raises(engines.UserError, match=sentence):
        decode(**params)


def test_a_block_longer_than_the_filter_is_refused(made):
    with pytest.raises(engines.UserError, match="block_length=12 is longer than the 8 inputs"):
        decode(block_length=12, filter=made(by_threshold(0.5)))


@pytest.mark.parametrize(
    "broken",
    [{"linear1.bias": torch.zeros(B + 1)}, {"linear2.weight": torch.full((B, B), torch.nan)}, {"more": torch.zeros(1)}],
)
def test_other_tensors_are_no_filter(broken, made):
    with pytest.raises(engines.UserError, match="is not a filter"):
        read_filter(made({**by_threshold(0.5), **broken}))


@pytest.fixture
def shelf(tmp_path, monkeypatch):
    """Assets of its own with a filter for a model `mine`, whose weights have the sum "abc"."""
    folder = tmp_path / "models" / "mine-filter"
    folder.mkdir(parents=True)
    monkeypatch.setenv("DECODING_EXPLORER_ASSETS", str(tmp_path))
    save_file(by_threshold(0.5), folder / "model.safetensors")
    digest = read_filter(str(folder / "model.safetensors")).sha256
    (folder / "card.json").write_text(json.dumps({"model_sha256": "abc", "sha256": digest}))
    return folder


def record(name="mine", digest="abc"):
    return ModelRecord(role="model", name=name, kind="masked", sha256=digest)


def test_a_filter_stands_beside_its_model(shelf):
    found = filter_of(record())
    assert isinstance(found, BlockFilter) and found.size == B
    assert filter_of(record("someone/mine")).sha256 == found.sha256
    assert "mine-filter" not in [m.name for m in engines.list_models()]


def test_a_filter_of_other_weights_is_refused(shelf):
    with pytest.raises(engines.UserError, match=r"other weights \(abc.*than mine has \(def.*training filter mine"):
        filter_of(record(digest="def"))
    save_file(by_threshold(0.6), shelf / "model.safetensors")
    with pytest.raises(engines.UserError, match="not the file that its card describes"):
        filter_of(record())
    with pytest.raises(engines.UserError, match="there is no filter for"):
        filter_of(record("../../etc"))


@pytest.mark.parametrize(("oracle", "decides"), [("commit", "oracle"), ("show", "filter"), ("off", None)])
def test_runs_from_when_the_oracle_was_a_parameter_go_on(oracle, decides):
    table, slug = TableMasked(seed=1, eos_ids=(EOS,)), ORACLE if decides else "learn2pd"
    given = {"max_new_tokens": G, "block_length": B, "accept_thres": 1.0, "eotp": True}
    now = engines.run(slug, table, [1, 2], params={**given, **({"decides": decides} if decides else {})})
    old = engines.Trace.from_json(now.to_json())
    old.header.method = "learn2pd"
    old.header.params = {name: value for name, value in now.header.params.items() if name != "decides"}
    old.header.params["oracle"] = oracle
    again = engines.run("learn2pd", table, [1, 2], params=old.header.params, seed=old.header.seed)
    assert again.header.method == slug and again.header.params == now.header.params
    fork = engines.fork(old, 3, model=table)
    assert fork.output_ids == again.output_ids == old.output_ids and fork.header.origin.diverged is None
