"""Published drafters: every checkpoint of the golden data against its cases, slips that those cases catch, and what is
refused before anything is computed."""

import copy
import json
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from safetensors.torch import load_file, save_file

import engines
import tests.golden.checkers.drafters as checkers
from engines.models.drafters import files, load_drafter
from tests.engines.conftest import GOLDEN

DRAFTERS = GOLDEN / "drafters"
FORMATS = {
    "dflash": "dflash-block", "eagle12-legacy": "eagle-2", "eagle3-legacy": "eagle-3",
    "eagle3-speculators": "eagle-3", "hydra": "hydra-heads", "medusa": "medusa-heads", "mtp": "mtp-layer",
    "peagle": "parallel-eagle",
}  # fmt: skip


def data_of(folder):
    return json.loads((DRAFTERS / folder / "cases.json").read_text("utf-8"))


def target_of(folder):
    return engines.load_model(DRAFTERS / folder / "verifier", dtype="float32")


@pytest.fixture(scope="module")
def reports():
    """What the verification says of all drafters: file of cases -> report."""
    return {report.file: report for report in engines.verify(DRAFTERS)}


def test_json_files_beside_checkpoints_hold_no_cases(reports):
    assert {*reports} == {f"{folder}/cases.json" for folder in FORMATS}


@pytest.mark.parametrize("folder", FORMATS)
def test_every_checkpoint_passes_its_cases(folder, reports):
    report = reports[f"{folder}/cases.json"]
    assert (report.state, report.covered, report.mismatch, report.left_out) == ("passed", report.cases, "", "")
    assert report.cases == len(data_of(folder)["drafters"])


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
        run = SimpleNamespace(
            embed=lambda tokens, of=drafter: of.table[list(tokens)], call=lambda n, compute: compute()
        )
        found.append(drafter.block(run, [5, 9], states, drafter.pasts(), 3))
        assert drafter.layers == 2
    assert torch.equal(found[0], found[1]) and torch.equal(found[0], found[2])


def test_data_of_an_unknown_kind_fail_and_are_not_passed_over(tmp_path):
    folder = shutil.copytree(DRAFTERS / "medusa", tmp_path / "medusa")
    data = data_of("medusa")
    data["drafters"][0]["cases"][0]["a_new_kind"] = []
    (folder / "cases.json").write_text(json.dumps(data), "utf-8")
    (report,) = engines.verify(tmp_path)
    assert report.state == "failed" and "a_new_kind" in report.mismatch


def _reads(shift):
    def slip(drafter):
        drafter.reads = tuple(i + shift for i in drafter.reads)

    return slip


def _set(**values):
    def slip(drafter):
        for name, value in values.items():
            setattr(drafter, name, value(drafter) if callable(value) else value)

    return slip


def _base(drafter):
    from engines.models.drafters.network import Rotation

    drafter.rotation = Rotation(
        type(drafter.stack[0].sizes)(**{**vars(drafter.stack[0].sizes), "theta": 123.0}), torch.device("cpu")
    )


SLIPS = {
    "layer ids one too many": ("eagle3-speculators", 0, _reads(1)),
    "layer ids one too few": ("eagle3-speculators", 0, _reads(-1)),
    "norm_before_residual ignored": ("eagle3-speculators", 1, _set(residual_normed=False)),
    "norm_output ignored": ("eagle3-speculators", 2, _set(output_normed=False)),
    "norms of the states ignored": ("eagle3-speculators", 2, _set(fc_norms=[])),
    "norm before fc ignored": ("eagle3-speculators", 3, _set(input_norm=None)),
    "another base of the rotations": ("eagle3-legacy", 1, _base),
    "d2t taken as an id": ("eagle3-legacy", 0, _set(vocabulary=lambda d: d.vocabulary - torch.arange(d.columns))),
    "no norm before the head": ("eagle3-legacy", 0, _set(spoken=lambda d: lambda out: out)),
    "the target's embeddings": ("eagle3-speculators", 0, _set(table=None)),
    "no bias": ("eagle12-legacy", 0, _set(bias=None)),
    "a state before the final norm": ("mtp", 0, _set(reads=(-1,))),
    "inputs of layers for outputs": ("dflash", 0, _reads(-1)),
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


# what is refused


def changed(tmp_path, folder="eagle3-speculators", drafter="drafter", tensors=None, config=None):
    """A copy of a safetensors checkpoint with other tensors (None removes one) and other values in its config."""
    into = shutil.copytree(DRAFTERS / folder / drafter, tmp_path / "drafter")
    held = load_file(into / "model.safetensors")
    for name, tensor in (tensors or {}).items():
        held.pop(name, None)
        if tensor is not None:
            held[name] = tensor
    save_file(held, into / "model.safetensors")
    said = json.loads((into / "config.json").read_text("utf-8"))
    for path, value in (config or {}).items():
        *above, key = path.split(".")
        place = said
        for one in above:
            place = place[one]
        place[key] = value
    (into / "config.json").write_text(json.dumps(said), "utf-8")
    return into


def load_ids():
    """The tokens of the draft vocabulary, as a conversion wrote them into d2t."""
    held = load_file(DRAFTERS / "eagle3-speculators" / "drafter" / "model.safetensors")
    return held["d2t"] + torch.arange(44)


NAN = torch.full((32,), float("nan"))
BAD = {
    "d2t without t2d": ({"tensors": {"t2d": None}}, "has d2t and no t2d"),
    "t2d without d2t": ({"tensors": {"d2t": None}}, "has t2d and no d2t"),
    "offsets that lead nowhere": (
        {"tensors": {"d2t": torch.arange(44) + 10}},
        r"d2t of .* leads to the tokens|name different tokens",
    ),
    "ids in the place of offsets": ({"tensors": {"d2t": load_ids()}}, "holds the tokens themselves"),
    "another tokenizer": ({"tensors": {"embed_tokens.weight": torch.zeros(50, 32)}}, r"is \[50, 32\] and should be"),
    "no numbers": ({"tensors": {"norm.weight": NAN}}, "values that are no numbers"),
    "a tensor that is missing": ({"tensors": {"layers.0.mlp.up_proj.weight": None}}, "lacks the tensor"),
    "a tensor too many": ({"tensors": {"layers.0.mlp.extra.weight": torch.zeros(2)}}, "does not compute with"),
    "heads that the config invents": ({"config": {"transformer_layer_config.head_dim": 12}}, "no whole numbers"),
    "no heads at all": ({"config": {"transformer_layer_config.num_attention_heads": 0}}, "num_attention_heads=0"),
    "layers that are not there": ({"config": {"eagle_aux_hidden_state_layer_ids": [1, 3, 99]}}, "reads the layers"),
    "one layer named twice": ({"config": {"eagle_aux_hidden_state_layer_ids": [2, 3, 3]}}, "three different layers"),
    "a flag without its tensor": ({"config": {"norm_before_fc": True}}, "says norm_before_fc=True"),
    "another activation": ({"config": {"transformer_layer_config.hidden_act": "gelu"}}, "hidden_act='gelu'"),
    "rotations that are unknown": (
        {"config": {"transformer_layer_config.rope_parameters": {"rope_type": "spiral", "rope_theta": 1e4}}},
        "cannot be made",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_checkpoints_are_refused_in_one_sentence(name, tmp_path):
    change, words = BAD[name]
    with pytest.raises(engines.UserError, match=words) as refusal:
        load_drafter(changed(tmp_path, **change), target_of("eagle3-speculators"))
    assert "\n" not in str(refusal.value) and len(str(refusal.value)) < 400


def test_a_target_with_too_few_layers_is_refused(tmp_path):
    """Without layer ids a drafter reads 2, n // 2 and n - 3, which three different layers are from seven on."""
    with pytest.raises(engines.UserError, match="at least seven"):
        load_drafter(DRAFTERS / "eagle3-legacy" / "drafter", target_of("medusa"))


def test_a_shard_that_is_missing_is_named(tmp_path):
    into = shutil.copytree(DRAFTERS / "eagle3-speculators" / "drafter-fcnorm", tmp_path / "drafter")
    (into / "model-00002-of-00003.safetensors").unlink()
    with pytest.raises(engines.UserError, match=r"model-00002-of-00003\.safetensors .* is missing"):
        load_drafter(into, target_of("eagle3-speculators"))


class Runs:
    """A pickle that would call something."""

    def __reduce__(self):
        return Path.touch, (Path("it-ran"),)


@pytest.mark.parametrize("held", [{"weight": Runs()}, [1, 2], {"weight": "text"}])
def test_an_archive_may_hold_tensors_and_nothing_else(held, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    into = shutil.copytree(DRAFTERS / "medusa" / "drafter", tmp_path / "drafter")
    torch.save(held, into / "medusa_lm_head.pt")
    with pytest.raises(engines.UserError, match=r"archive of tensors alone|in place of tensors"):
        load_drafter(into, target_of("medusa"))
    assert not Path("it-ran").exists()


def test_a_file_that_is_no_archive_is_refused(tmp_path):
    into = shutil.copytree(DRAFTERS / "medusa" / "drafter", tmp_path / "drafter")
    (into / "medusa_lm_head.pt").write_bytes(b"no archive")
    with pytest.raises(engines.UserError, match="not an archive of tensors alone"):
        load_drafter(into, target_of("medusa"))


def test_an_archive_is_measured_before_it_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "LARGEST_ARCHIVE", 1000)
    monkeypatch.setattr(torch, "load", lambda *_, **__: pytest.fail("it was read"))
    fresh = shutil.copytree(DRAFTERS / "medusa" / "drafter", tmp_path / "drafter")
    with pytest.raises(engines.UserError, match="archives of at most 1,000 are read"):
        load_drafter(fresh, target_of("medusa"))


@pytest.mark.parametrize("variable", ["EXPLORER_PUBLIC", "SPACE_ID"])
def test_a_public_host_reads_no_archive(variable, monkeypatch):
    monkeypatch.setenv(variable, "1")
    with pytest.raises(engines.UserError, match="which a public host does not read"):
        load_drafter(DRAFTERS / "medusa" / "drafter", target_of("medusa"))


def test_what_is_no_drafter_is_told_by_its_tensors():
    with pytest.raises(engines.UserError, match="no drafter of a known format"):
        load_drafter(DRAFTERS / "medusa" / "verifier", target_of("medusa"))


def test_a_model_without_layers_to_read_takes_no_drafter(dlm):
    with pytest.raises(engines.UserError, match="cannot be run layer by layer"):
        load_drafter(DRAFTERS / "medusa" / "drafter", dlm)


def test_a_drafter_for_another_published_target_is_refused_with_both_names(tmp_path):
    into = changed(tmp_path, config={"speculators_config.verifier.name_or_path": "meta-llama/Llama-3.1-8B-Instruct"})
    target = copy.copy(target_of("eagle3-speculators"))
    target.record = copy.copy(target.record)
    target.record.name = "Qwen/Qwen3-8B"
    with pytest.raises(engines.UserError, match=r"meta-llama/Llama-3.1-8B-Instruct.*Qwen/Qwen3-8B.*--force"):
        load_drafter(into, target)
    taken = load_drafter(into, target, force=True)
    assert "taken all the same" in taken.notes[0]
    target.record.name = "meta-llama/Llama-3.1-8B-Instruct"
    target.record.sha256 = "0" * 64
    assert not load_drafter(into, target).notes


def test_a_drafter_that_was_taken_by_force_is_refused_without(tmp_path):
    """What is in memory does not hide what is asked again."""
    into = changed(tmp_path, config={"speculators_config.verifier.name_or_path": "me/other"})
    target = copy.copy(target_of("eagle3-speculators"))
    target.record = copy.copy(target.record)
    target.record.name = "you/this"
    load_drafter(into, target, force=True)
    with pytest.raises(engines.UserError, match="--force"):
        load_drafter(into, target)


def test_a_config_that_was_mended_is_read_again(tmp_path):
    into = changed(tmp_path)
    target = target_of("eagle3-speculators")
    first = load_drafter(into, target)
    said = json.loads((into / "config.json").read_text("utf-8"))
    (into / "config.json").write_text(json.dumps({**said, "norm_before_residual": True}), "utf-8")
    again = load_drafter(into, target)
    assert (first.residual_normed, again.residual_normed) == (False, True)


def test_an_archive_is_read_once_for_a_target(monkeypatch):
    target = target_of("medusa")
    first = load_drafter(DRAFTERS / "medusa" / "drafter", target)
    monkeypatch.setattr(files, "read_archive", lambda _: pytest.fail("it was read again"))
    assert load_drafter(DRAFTERS / "medusa" / "drafter", target) is first
