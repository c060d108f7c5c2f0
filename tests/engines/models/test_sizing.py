"""What a checkpoint needs, told from its config alone and held against what is loaded; and what is refused."""

import json
import shutil

import pytest
import torch

import engines
from engines.core import devices
from engines.core.errors import UserError
from engines.models import sizing, zoo
from engines.models.sizing import NoRoom, check_room, size_of_folder
from tests.engines.conftest import GOLDEN

MIXTURES = GOLDEN / "diffusion2026"
FAMILIES = ["llada2", "nemotron_labs_diffusion", "diffusion_gemma"]
MINI = {  # LLaDA2.0-mini, by the sizes that its config has
    **{"model_type": "llada2_moe", "vocab_size": 157184, "hidden_size": 2048, "intermediate_size": 5120},
    **{"num_hidden_layers": 20, "num_attention_heads": 16, "num_key_value_heads": 4, "head_dim": 128},
    **{"num_experts": 256, "num_shared_experts": 1, "num_experts_per_tok": 8, "n_group": 8, "topk_group": 4},
    **{"routed_scaling_factor": 2.5, "moe_intermediate_size": 512, "first_k_dense_replace": 1, "dtype": "bfloat16"},
    **{"partial_rotary_factor": 0.5, "max_position_embeddings": 32768, "rms_norm_eps": 1e-6, "hidden_act": "silu"},
}


def config_only(tmp_path, config):
    (tmp_path / "config.json").write_text(json.dumps(config))
    return tmp_path


@pytest.fixture
def mini(tmp_path):
    """The folder of a 16B mixture that has a config and nothing else."""
    return config_only(tmp_path, MINI)


def held(network):
    """Parameters and bytes of a network that is in memory."""
    tensors = [*network.parameters(), *network.buffers()]
    return sum(p.numel() for p in network.parameters()), sum(t.numel() * t.element_size() for t in tensors)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_config_alone_tells_what_is_loaded(family, tmp_path):
    checkpoint = MIXTURES / family / "checkpoint"
    shutil.copy(checkpoint / "config.json", tmp_path)
    network = engines.load_model(checkpoint, dtype="float32").model
    size = size_of_folder(tmp_path, family, "float32")
    assert (size.parameters, size.weights) == held(network) and size.dtype == "float32"


@pytest.mark.parametrize("name", ["tiny-ar-l", "tiny-dlm", "tiny-encdec", "tiny-pldr", "tiny-vlm"])
def test_so_does_that_of_a_model_that_ships(name):
    size, network = engines.size_of(name), engines.load_model(name).model
    assert (size.parameters, size.weights) == held(network)


def test_a_mixture_of_16b(mini):
    whole, eight, four = (size_of_folder(mini, "mini", quantization=one) for one in (None, "8bit", "4bit"))
    assert whole.parameters == eight.parameters == four.parameters == 16_255_638_528
    assert whole.dtype == "bfloat16" and whole.weights == pytest.approx(2 * whole.parameters, rel=1e-6)
    found = sizing.gigabytes(whole.weights), sizing.gigabytes(eight.weights), sizing.gigabytes(four.weights)
    assert found == ("32.5 GB", "17 GB", "10.1 GB")
    assert whole.cache == 20 * 2 * 4 * 128 * 2  # layers, keys and values, heads, width, bytes
    assert str(four) == (
        "mini has 16,255,638,528 parameters: 10.1 GB of weights as 4bit and bfloat16, and about 41 MB of cache for "
        "1,000 tokens"
    )


def test_the_default_type_is_that_of_loading(mini):
    assert engines.size_of("tiny-ar-l").dtype == "float32"
    assert size_of_folder(mini, "mini", "float32").weights == pytest.approx(4 * 16_255_638_528, rel=1e-6)
    with pytest.raises(UserError, match="dtype 'int8' is unknown; choose float32"):
        size_of_folder(mini, "mini", "int8")
    with pytest.raises(UserError, match="quantisation '3bit' is unknown; choose 4bit or 8bit"):
        size_of_folder(mini, "mini", quantization="3bit")


def test_what_cannot_be_told(tmp_path):
    with pytest.raises(UserError, match=r"has no config.json, so it is not a transformers model"):
        size_of_folder(tmp_path, "empty")
    config_only(tmp_path, {"model_type": "whatever"})
    with pytest.raises(UserError, match="model type 'whatever', which would need code from the checkpoint"):
        size_of_folder(tmp_path, "foreign")


@pytest.fixture
def room(monkeypatch):
    """Sets the free bytes of each device, and which cards there are."""

    def put(**free):
        monkeypatch.setattr(sizing, "free_bytes", lambda device: free[device.replace(":", "")])
        monkeypatch.setattr(sizing, "cards", lambda: [f"cuda:{i}" for i in range(8) if f"cuda{i}" in free])

    return put


def refused(size, *given):
    with pytest.raises(NoRoom) as caught:
        check_room(size, *given)
    return str(caught.value)


def test_a_card_of_24_gb(mini, room):
    room(cuda0=25.3e9, cuda=25.3e9, cpu=60e9)
    whole, four = (size_of_folder(mini, "mini", quantization=one) for one in (None, "4bit"))

    def smaller():
        return {one: size_of_folder(mini, "mini", quantization=one).weights for one in ("4bit", "8bit")}

    assert refused(whole, "cuda", None, smaller) == (
        "the weights of 'mini' take 32.5 GB as bfloat16, and 25.3 GB are free on cuda; choose quantisation 4bit "
        "(10.1 GB), quantisation 8bit (17 GB), device_map auto, or a smaller model."
    )
    check_room(four, "cuda")
    check_room(whole, "cpu", "auto")  # 25.3 GB on the card, the rest beside it
    room(cuda0=8e9, cuda=8e9, cpu=20e9)
    assert "take 32.5 GB as bfloat16, and 28 GB are free on cuda:0 + cpu; choose a smaller" in (
        refused(whole, "cpu", "auto")
    )
    assert "take 10.1 GB as 4bit, and 8 GB are free on cuda:0" in refused(four, "cpu", "auto"), (
        "coded layers stay on cards"
    )


def test_a_map_is_counted_device_by_device(mini, room):
    size = size_of_folder(mini, "mini")
    halves = {f"model.layers.{i}": int(i > 9) for i in range(20)}
    map_ = {"model.embed_tokens": 0, "model.norm": 1, "model.rotary_emb": 0, "lm_head": 1} | halves
    room(cuda0=17e9, cuda1=18e9)
    check_room(size, "cpu", map_)
    room(cuda0=17e9, cuda1=16e9)
    assert "take 17 GB as bfloat16, and 16 GB are free on cuda:1" in refused(size, "cpu", map_)
    room(cuda0=17e9, cuda1=1e9)
    check_room(size, "cpu", map_ | dict.fromkeys((name for name, i in map_.items() if i), "disk"))


def test_loading_is_refused_with_the_figure(tmp_path, monkeypatch):
    monkeypatch.setattr(sizing, "LARGE", 1000)
    monkeypatch.setattr("engines.models.loader.LARGE", 1000)
    monkeypatch.setattr(sizing, "free_bytes", lambda device: 200_000)
    with pytest.raises(UserError, match=r"'checkpoint' take 0.302 MB as float32, and 0.2 MB are free on cpu"):
        engines.load_model(MIXTURES / "llada2" / "checkpoint", dtype="float32")
    engines.load_model(MIXTURES / "llada2" / "checkpoint", dtype="bfloat16")


def test_models_that_were_kept_make_room(monkeypatch):
    zoo._loaded.clear()
    engines.load_model("tiny-ar-s")
    monkeypatch.setattr("engines.models.loader.LARGE", 1000)
    monkeypatch.setattr(sizing, "LARGE", 1000)
    monkeypatch.setattr(sizing, "free_bytes", lambda device: 0 if zoo._loaded else 1e9)
    assert engines.load_model("tiny-dlm").record.name == "tiny-dlm" and len(zoo._loaded) == 1


def test_what_auto_stands_for(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert devices.chosen_device("auto") == "cuda" and devices.chosen_device("cpu") == "cpu"
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    assert devices.chosen_device("auto") == "mps"
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    assert devices.chosen_device("auto") == "cpu"
    model = engines.load_model("tiny-ar-s", device="auto")
    assert model is engines.load_model("tiny-ar-s") and engines.is_loaded("tiny-ar-s", "auto")


def test_the_memory_of_a_container(tmp_path, monkeypatch):
    monkeypatch.setattr(devices, "GROUP", tmp_path)
    whole = devices.free_bytes("cpu")
    for name, text in {"memory.max": "3000", "memory.current": "2500", "memory.stat": "inactive_file 100\n"}.items():
        (tmp_path / name).write_text(text)
    assert whole > 10**8 and devices.free_bytes("cpu") == 600
    (tmp_path / "memory.max").write_text("max\n")
    assert devices.free_bytes("cpu") > 10**8
