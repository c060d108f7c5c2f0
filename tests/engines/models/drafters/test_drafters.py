"""Published drafters: checkpoints of the golden data, slips that their cases catch, and what is refused."""

import copy
import json
import shutil
from math import inf
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from safetensors.torch import load_file, save_file

import engines
import tests.golden.checkers.drafters as checkers
from engines.models.adapters.layered import RAW
from engines.models.drafters import files, load_drafter
from tests.engines.conftest import GOLDEN
from tests.engines.refusals import refuses

DRAFTERS = GOLDEN / "drafters"
FORMATS = {
    "dflash": "dflash-block", "eagle12-legacy": "eagle-2", "eagle3-legacy": "eagle-3", "eagle3-speculators": "eagle-3",
    "hydra": "hydra-heads", "medusa": "medusa-heads", "mtp": "mtp-layer", "peagle": "parallel-eagle",
}  # fmt: skip


def data_of(folder):
    return json.loads((DRAFTERS / folder / "cases.json").read_text("utf-8"))


def target_of(folder):
    return engines.load_model(DRAFTERS / folder / "verifier", dtype="float32")


def test_every_checkpoint_passes_its_cases(tmp_path):
    reports = engines.verify(DRAFTERS)
    assert {report.file for report in reports} == {f"{folder}/cases.json" for folder in FORMATS}
    for report in reports:
        assert (report.state, report.covered, report.mismatch, report.left_out) == ("passed", report.cases, "", "")
        assert report.cases == len(data_of(report.file.partition("/")[0])["drafters"])
    folder, data = shutil.copytree(DRAFTERS / "medusa", tmp_path / "medusa"), data_of("medusa")
    data["drafters"][0]["cases"][0]["a_new_kind"] = []
    (folder / "cases.json").write_text(json.dumps(data), "utf-8")
    (report,) = engines.verify(tmp_path)
    assert report.state == "failed" and "a_new_kind" in report.mismatch, "data of an unknown kind are not passed over"


@pytest.mark.parametrize("folder", FORMATS)
def test_the_format_is_told_by_what_is_in_the_files(folder, tmp_path):
    copied = shutil.copytree(DRAFTERS / folder / "drafter", tmp_path / "any name at all")
    assert load_drafter(copied, target_of(folder)).format == FORMATS[folder]


def test_a_drafter_is_the_same_under_the_names_that_its_trainers_give(tmp_path):
    """Two layers: as speculators writes them, the first as SafeAILab calls it, and all behind a wrapper's `model.`."""
    folder = DRAFTERS / "peagle" / "drafter"
    held = load_file(folder / "model.safetensors")
    d = held["layers.0.hidden_norm.weight"].shape[0]
    for name in [one for one in held if one.startswith("layers.0.") and "hidden_norm" not in one]:
        tensor = held[name]
        first = any(f".{one}_proj" in name for one in "qkv")
        held[name.replace("layers.0.", "layers.1.")] = (tensor[:, :d] if first else tensor).clone()
    found = []
    for i, (old, new) in enumerate([("", ""), ("layers.0.", "midlayer."), ("", "model.")]):
        made = tmp_path / str(i)
        shutil.copytree(folder, made)
        renamed = {new + name.removeprefix(old) if name.startswith(old) else name: held[name] for name in held}
        save_file(renamed, made / "model.safetensors")
        drafter = load_drafter(made, target_of("peagle"))
        states = torch.linspace(-1, 1, 2 * 3 * drafter.width).view(2, -1)
        embed = lambda tokens, of=drafter: of.table[list(tokens)]  # noqa: E731
        run = SimpleNamespace(embed=embed, call=lambda n, compute: compute())
        found.append(drafter.block(run, [5, 9], states, drafter.pasts(), 3))
        assert drafter.layers == 2
    assert torch.equal(found[0], found[1]) and torch.equal(found[0], found[2])


def _set(**values):
    def slip(drafter):
        for name, value in values.items():
            setattr(drafter, name, value(drafter) if callable(value) else value)

    return slip


SLIPS = {
    "layer ids one too many": ("eagle3-speculators", 0, _set(reads=lambda d: tuple(i + 1 for i in d.reads))),
    "norm_before_residual ignored": ("eagle3-speculators", 1, _set(residual_normed=False)),
    "d2t taken as an id": ("eagle3-legacy", 0, _set(vocabulary=lambda d: d.vocabulary - torch.arange(d.columns))),
    "no norm before the head": ("eagle3-legacy", 0, _set(spoken=lambda d: lambda out: out)),
    "no bias": ("eagle12-legacy", 0, _set(bias=None)),
    "no learned state": ("peagle", 0, _set(mask_hidden=lambda d: torch.zeros_like(d.mask_hidden))),
    "heads in another order": ("medusa", 0, _set(blocks=lambda d: d.blocks[::-1])),
    "no prefix layer": ("hydra", 0, _set(prefix=False)),
}


@pytest.mark.parametrize("name", SLIPS)
def test_a_known_slip_is_seen_by_the_cases(name):
    folder, number, slip = SLIPS[name]
    one = data_of(folder)["drafters"][number]
    target = target_of(folder)
    drafter = copy.copy(load_drafter(DRAFTERS / folder / one["dir"], target))
    assert checkers.Check(target, drafter, one["cases"][0]).mismatch("as it is") is None
    slip(drafter)
    assert checkers.Check(target, drafter, one["cases"][0]).mismatch("with the slip")


def changed(tmp_path, tensors=(), config=()):
    """A copy of a safetensors checkpoint with other tensors (None removes one) and other values in its config."""
    into = shutil.copytree(DRAFTERS / "eagle3-speculators" / "drafter", tmp_path / "drafter")
    held = load_file(into / "model.safetensors") | dict(tensors)
    save_file({name: tensor for name, tensor in held.items() if tensor is not None}, into / "model.safetensors")
    said = json.loads((into / "config.json").read_text("utf-8"))
    for path, value in dict(config).items():
        *above, key = path.split(".")
        place = said
        for one in above:
            place = place[one]
        place[key] = value
    (into / "config.json").write_text(json.dumps(said), "utf-8")
    return into


D2T = load_file(DRAFTERS / "eagle3-speculators" / "drafter" / "model.safetensors")["d2t"]
BAD_TENSORS = {
    "has d2t and no t2d": {"t2d": None},
    "has t2d and no d2t": {"d2t": None},
    r"d2t of .* leads to the tokens|name different tokens": {"d2t": torch.arange(44) + 10},
    "holds the tokens themselves": {"d2t": D2T + torch.arange(44)},  # in the place of offsets
    r"is \[50, 32\] and should be": {"embed_tokens.weight": torch.zeros(50, 32)},
    "values that are not numbers": {"norm.weight": torch.full((32,), float("nan"))},
    "lacks the tensor": {"layers.0.mlp.up_proj.weight": None},
    "does not compute with": {"layers.0.mlp.extra.weight": torch.zeros(2)},
}
LINEAR = {"rope_type": "linear"}
SPIRAL = {"rope_type": "spiral", "rope_theta": 1e4}
BAD_CONFIG = {
    "not multiples": {"transformer_layer_config.head_dim": 12},
    "num_attention_heads=0": {"transformer_layer_config.num_attention_heads": 0},
    "reads the layers": {"eagle_aux_hidden_state_layer_ids": [1, 3, 99]},
    "three different layers": {"eagle_aux_hidden_state_layer_ids": [2, 3, 3]},
    "hidden_act='gelu'": {"transformer_layer_config.hidden_act": "gelu"},
    "cannot be made": {"transformer_layer_config.rope_parameters": SPIRAL},
    "frequencies are no numbers": {"transformer_layer_config.rope_parameters": {**SPIRAL, **LINEAR, "factor": 0}},
    "gives a layer 'chunked_attention'": {"transformer_layer_config.layer_types": ["chunked_attention"]},
    "sliding_attention and sliding_window=None": {
        "transformer_layer_config.layer_types": ["sliding_attention"],
        "transformer_layer_config.sliding_window": None,
    },
    "says norm_output both true and false": {"eagle_config": {"return_hidden_post_norm": True}},
    "says norm_before_fc=True": {"norm_before_fc": None, "eagle_config": {"norm_before_fc": True}},
    "says eagle_config='x' ": {"eagle_config": "x"},
    "says transformer_layer_config='x'": {"transformer_layer_config": "x"},
    **{
        rf"says {key}={value!r} \(expected": {f"transformer_layer_config.{key}": value}
        for key, value in {
            "rms_norm_eps": "small",
            "rope_theta": inf,
            "rope_scaling": 8,
            "max_position_embeddings": 1.5,
            "layer_types": 1,
            "head_dim": -1,
            "sliding_window": "x",
            "hidden_act": None,
            "num_attention_heads": True,
        }.items()
    },
}


@pytest.mark.parametrize("words", [*BAD_TENSORS, *BAD_CONFIG])
def test_bad_checkpoints_are_refused_in_one_sentence(words, tmp_path):
    into = changed(tmp_path, BAD_TENSORS.get(words, ()), BAD_CONFIG.get(words, ()))
    with pytest.raises(engines.UserError, match=words) as refusal:
        load_drafter(into, target_of("eagle3-speculators"))
    assert "\n" not in str(refusal.value) and len(str(refusal.value)) < 400


@pytest.mark.parametrize(
    ("ids", "in_eagle_config", "reads"),
    [
        (None, [1, 2, 3], (2, 3, 4)),  # SpecForge's own: outputs of 1, n // 2 - 1, n - 4
        (None, [1, 3, 6], (2, 4, RAW)),
        (None, [2, 3, 4], (2, 3, 4)),
        (None, [0, 3, 4], (0, 3, 4)),
        ([], [1, 2, 3], (2, 3, 4)),
        ([1, 3, 4], None, (1, 3, 4)),  # speculators'
        ([1, 3, 4], [2, 3, 5], (1, 3, 4)),
    ],
)
def test_ids_that_begin_with_1_in_eagle_config_count_outputs(ids, in_eagle_config, reads, tmp_path):
    """sgl-project/sglang#25454."""
    inside = {"eagle_aux_hidden_state_layer_ids": in_eagle_config}
    into = changed(tmp_path, config={"eagle_aux_hidden_state_layer_ids": ids, "eagle_config": inside})
    assert load_drafter(into, target_of("eagle3-speculators")).reads == reads


@pytest.mark.parametrize(
    ("config", "residual_normed", "output_normed"),
    [
        ({"eagle_config": {"norm_output": True}, "norm_output": None}, False, True),
        ({"eagle_config": {"return_hidden_post_norm": True}, "norm_output": None}, False, True),
        ({"eagle_config": {"norm_before_residual": True}, "norm_before_residual": None}, True, False),
        ({"eagle_config": {"norm_before_residual": False, "use_aux_hidden_state": True}}, False, False),
        ({"norm_output": "true", "norm_before_residual": "false"}, False, True),
        ({"norm_output": 1}, False, True),
    ],
)
def test_flags_count_wherever_they_stand(config, residual_normed, output_normed, tmp_path):
    made = load_drafter(changed(tmp_path, config=config), target_of("eagle3-speculators"))
    assert (made.residual_normed, made.output_normed) == (residual_normed, output_normed)


WINDOW = 3


@pytest.mark.parametrize("folder", ["eagle3-speculators", "peagle", "eagle3-legacy", "eagle12-legacy", "mtp"])
def test_a_layer_with_a_window_sees_so_many_positions(folder, tmp_path):
    """Behind a text, in a tree, and after a crop, as transformers' masks have it: itself and WINDOW - 1 before it."""
    into = shutil.copytree(DRAFTERS / folder / "drafter", tmp_path / "drafter")
    said = json.loads((into / "config.json").read_text("utf-8"))
    own = said.get("transformer_layer_config", said)
    own |= {"layer_types": ["sliding_attention"] * 4, "sliding_window": WINDOW}
    (into / "config.json").write_text(json.dumps(said), "utf-8")
    target = target_of(folder)
    slides, whole = load_drafter(into, target), load_drafter(DRAFTERS / folder / "drafter", target)
    g = torch.Generator().manual_seed(0)
    d = whole.fc.shape[0]

    def same(at, sees, columns):
        e, s = torch.randn(2, len(at), d, generator=g)
        banded = sees & (columns > at[:, None] - WINDOW)
        out = slides.rows(e, s, pasts[0], at, sees)
        assert torch.equal(out, whole.rows(e, s, pasts[1], at, banded))
        return not torch.equal(banded, sees)

    pasts = slides.pasts(), whole.pasts()
    at = torch.arange(6)
    assert same(at, at[:, None] >= at, at), "the window matters"
    tree = torch.tensor([6, 6, 7, 7, 8])
    sees = torch.cat([torch.ones(5, 6, dtype=torch.bool), torch.eye(5, dtype=torch.bool)], 1)
    sees[2, 6] = sees[3, 7] = sees[4, 7] = sees[4, 9] = True
    assert same(tree, sees, torch.cat([at, tree]))
    for past in pasts:
        past.crop(6)
    more = torch.arange(6, 8)
    assert same(more, torch.arange(8) <= more[:, None], torch.arange(8))


def test_qwens_later_layers_slide_where_no_types_are_given(tmp_path):
    changes = {"layer_types": None, "use_sliding_window": True, "sliding_window": WINDOW}
    target = target_of("eagle3-speculators")
    for layers, window in ((0, WINDOW), (1, 0)):
        inner = {f"transformer_layer_config.{key}": value for key, value in changes.items()}
        into = changed(tmp_path / str(layers), config={**inner, "transformer_layer_config.max_window_layers": layers})
        assert load_drafter(into, target).stack[0].window == window
    into = shutil.copytree(DRAFTERS / "dflash" / "drafter", tmp_path / "dflash")
    said = json.loads((into / "config.json").read_text("utf-8"))
    (into / "config.json").write_text(json.dumps({**said, **changes, "max_window_layers": 1}), "utf-8")
    refuses(engines.UserError, "has sliding layers", load_drafter, into, target_of("dflash"))


@pytest.mark.parametrize(
    ("drafter", "target", "words"),
    [
        ("eagle3-legacy/drafter", "medusa", "at least seven"),  # it reads layers 2, n // 2 and n - 3
        ("medusa/verifier", "medusa", "not a drafter of a known format"),
        ("medusa/drafter", None, "cannot be run layer by layer"),
    ],
)
def test_a_target_that_does_not_fit_is_refused(drafter, target, words, dlm):
    refuses(engines.UserError, words, load_drafter, DRAFTERS / drafter, target_of(target) if target else dlm)


class Runs:
    """A pickle that would call something."""

    def __reduce__(self):
        return Path.touch, (Path("it-ran"),)


@pytest.mark.parametrize("held", [{"weight": Runs()}, [1, 2], {"weight": "text"}, None])
def test_an_archive_may_hold_tensors_and_nothing_else(held, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    into = shutil.copytree(DRAFTERS / "medusa" / "drafter", tmp_path / "drafter")
    if held is None:
        (into / "medusa_lm_head.pt").write_bytes(b"no archive")
    else:
        torch.save(held, into / "medusa_lm_head.pt")
    refuses(engines.UserError, r"archive of tensors alone|in place of tensors", load_drafter, into, target_of("medusa"))
    assert not Path("it-ran").exists()


def test_an_archive_is_measured_before_it_is_read_and_a_missing_shard_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "LARGEST_ARCHIVE", 1000)
    monkeypatch.setattr(torch, "load", lambda *_, **__: pytest.fail("it was read"))
    fresh = shutil.copytree(DRAFTERS / "medusa" / "drafter", tmp_path / "drafter")
    refuses(engines.UserError, "archives of at most 1,000 are read", load_drafter, fresh, target_of("medusa"))
    into = shutil.copytree(DRAFTERS / "eagle3-speculators" / "drafter-fcnorm", tmp_path / "shards")
    (into / "model-00002-of-00003.safetensors").unlink()
    with pytest.raises(engines.UserError, match=r"model-00002-of-00003\.safetensors .* is missing"):
        load_drafter(into, target_of("eagle3-speculators"))


@pytest.mark.parametrize("variable", ["EXPLORER_PUBLIC", "SPACE_ID"])
def test_a_public_host_reads_no_archive(variable, monkeypatch):
    monkeypatch.setenv(variable, "1")
    with pytest.raises(engines.UserError, match="which a public host does not read"):
        load_drafter(DRAFTERS / "medusa" / "drafter", target_of("medusa"))


def test_a_drafter_for_another_published_target_is_refused_with_both_names(tmp_path):
    into = changed(tmp_path, config={"speculators_config.verifier.name_or_path": "meta-llama/Llama-3.1-8B-Instruct"})
    target = copy.copy(target_of("eagle3-speculators"))
    target.record = copy.copy(target.record)
    target.record.name = "Qwen/Qwen3-8B"
    assert "taken all the same" in load_drafter(into, target, force=True).notes[0]
    with pytest.raises(engines.UserError, match=r"meta-llama/Llama-3.1-8B-Instruct.*Qwen/Qwen3-8B.*--force"):
        load_drafter(into, target)  # what is in memory does not hide what is asked again
    target.record.name, target.record.sha256 = "meta-llama/Llama-3.1-8B-Instruct", "0" * 64
    first = load_drafter(into, target)
    assert not first.notes and load_drafter(into, target) is first, "it is read once for a target"
    said = json.loads((into / "config.json").read_text("utf-8"))
    (into / "config.json").write_text(json.dumps({**said, "norm_before_residual": True}), "utf-8")
    again = load_drafter(into, target)
    assert (first.residual_normed, again.residual_normed) == (False, True), "and again when its config was mended"
