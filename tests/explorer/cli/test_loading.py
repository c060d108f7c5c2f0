"""The options that say how a model is loaded, and what is told before it is."""

import argparse
import json

import pytest

import engines
from engines.core.devices import loaded_with
from engines.models.loading import sizing
from explorer.cli import main, parser
from explorer.cli.loading import loading
from explorer.cli.options import Command
from tests.engines.conftest import GOLDEN
from tests.gguf_files import tiny_llama

MIXTURE = GOLDEN / "diffusion2026" / "llada2" / "checkpoint"
RUN = ["run", "--method", "llada2", "--model", str(MIXTURE), "--prompt-ids", "5 6 7 8", "--param", "max_new_tokens=8"]
LOADERS = ("run", "compare", "bench", "certify", "advise", "diagnose", "sweep", "eval", "models")
LOADERS += ("fork", "verify", "parallelbench")


def options(*given):
    declared = Command()
    declared.loading()
    return loading(declared.parse_args(given))


def test_options_are_those_of_the_loader():
    given = "--device auto --dtype bfloat16 --quantisation 4bit --gpu-layers 0 --row-invariant"
    wanted = {"device": "auto", "dtype": "bfloat16", "quantization": "4bit", "gpu_layers": 0, "row_invariant": True}
    assert options(*given.split()) == wanted and options() == {}
    assert options("--device-map", "auto") == {"device_map": "auto"}
    assert options("--device-map", '{"model": 0, "lm_head": "cpu"}') == {"device_map": {"model": 0, "lm_head": "cpu"}}
    own = {"device": "cuda", "dtype": "bfloat16"}
    assert loaded_with(own, {"device_map": "auto"}) == {"dtype": "bfloat16", "device_map": "auto"}
    assert loaded_with({"device_map": "auto"}, {"device": "cpu"}) == {"device": "cpu"}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("spread", "--device-map spread is not understood; give auto, balanced"),
        ('{"model": 0', "--device-map is not valid JSON"),
        ('{"model": true}', "--device-map gives 'model' no device; a device is a card's number"),
        ("{}", "--device-map is empty; name at least one part"),
    ],
)
def test_a_device_map_that_is_none(given, said):
    with pytest.raises(engines.UserError, match=said):
        options("--device-map", given)


def test_every_command_that_loads_has_them():
    found = next(one for one in parser()._actions if isinstance(one, argparse._SubParsersAction)).choices
    for command in LOADERS:
        there = set(found[command]._option_string_actions)
        assert {"--device", "--dtype", "--quantisation", "--device-map", "--gpu-layers"} <= there, command


def test_a_run_with_coded_weights_spread_by_a_map(capsys, tmp_path):
    file = tmp_path / "run.json"
    assert main([*RUN, "--quantisation", "4bit", "--device-map", '{"": "cpu"}', "--json", str(file)]) == 0
    record = json.loads(file.read_text())["header"]["models"][0]
    assert record["options"] == {"quantization": "4bit", "device_map": {"": "cpu"}} and record["device"] == "cpu"
    assert capsys.readouterr().err == "", "nothing is said of a small one"


def test_what_a_large_model_needs_is_told_before_it_is_loaded(capsys, monkeypatch):
    monkeypatch.setattr(sizing, "LARGE", 100_000)
    assert main(RUN) == 0
    told = capsys.readouterr().err
    assert told.startswith("decoding-explorer: checkpoint has 75,536 parameters: 0.302 MB of weights as float32")
    assert told.endswith("are free on cpu\n") and len(told.splitlines()) == 1
    monkeypatch.setattr("engines.models.loading.loader.LARGE", 1)
    monkeypatch.setattr(sizing, "free_bytes", lambda device: 250_000)
    engines.models.loading.zoo._loaded.clear()
    assert main(RUN) == 2
    refusal = capsys.readouterr().err.splitlines()[-1]
    assert "take 0.302 MB as float32, and 0.25 MB are free on cpu; choose quantisation 4bit" in refusal


def test_the_size_of_a_model_that_is_not_loaded(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr(engines.models.loading.zoo, "_load", lambda *a, **k: pytest.fail("it was loaded"))
    (tmp_path / "config.json").write_bytes((MIXTURE / "config.json").read_bytes())
    assert main(["models", "--size", str(tmp_path), "--dtype", "bfloat16"]) == 0
    assert "has 75,536 parameters: 0.151 MB of weights as bfloat16" in capsys.readouterr().out
    assert main(["models", "--size", str(tmp_path), "--quantisation", "8bit", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["parameters"], found["quantization"], found["dtype"]) == (75_536, "8bit", "float32")
    assert main(["models", "--size", "nobody"]) == 2
    assert "no model 'nobody'" in capsys.readouterr().err


def test_a_fork_loads_its_models_as_it_is_told(tmp_path, capsys):
    first, second = tmp_path / "run.json", tmp_path / "fork.json"
    run = ["run", "--method", "threshold", "--model", "tiny-dlm", "--prompt", "copy: Ada", "--param"]
    assert main([*run, "max_new_tokens=16", "--dtype", "float32", "--device", "cpu", "--json", str(first)]) == 0
    fork = ["fork", str(first), "--step", "1", "--json", str(second)]
    for options, dtype in (([], "float32"), (["--model", "tiny-dlm", "--dtype", "bfloat16"], "bfloat16")):
        assert main([*fork, *options]) in (0, 1)  # 1 where the replay is another one in this type
        assert json.loads(second.read_text())["header"]["models"][0]["dtype"] == dtype
    assert main([*fork, "--device", "cpu", "--device-map", "auto"]) == 2
    assert "--device and --device-map both say where" in capsys.readouterr().err


@pytest.mark.gguf
def test_a_gguf_file_gets_the_layers_that_the_command_names(capsys, tmp_path):
    file, _ = tiny_llama(tmp_path / "tiny.gguf")
    run = ["run", "--method", "greedy", "--model", str(file), "--prompt", "a", "--param", "max_new_tokens=2"]
    assert main([*run, "--gpu-layers", "0"]) == 0
    capsys.readouterr()
    assert main([*RUN, "--gpu-layers", "3"]) == 2
    assert "gpu_layers is an option of GGUF files" in capsys.readouterr().err
    assert main([*run, "--gpu-layers", "-2"]) == 2
    assert "gpu_layers=-2 cannot be; give how many layers run on the card" in capsys.readouterr().err
