"""What a GGUF file needs, by its header, as for any other model; and what is refused."""

import json

import pytest

import engines
from engines.core.errors import UserError
from engines.models import sizing
from engines.models.sizing import NoRoom, Size, check_gguf
from explorer.cli import main
from tests.gguf_files import tiny_llama, tiny_qwen3, write_gguf


def test_weights_and_cache_are_told_by_path_and_by_folder(tmp_path):
    path, network = tiny_qwen3(tmp_path / "tiny.gguf")
    size, numbers = engines.size_of(path), sum(p.numel() for p in network.parameters())
    assert (size.parameters, size.weights, size.dtype) == (numbers, 4 * numbers, "F32")
    assert size.cache == 2 * 2 * 8 * 2 * 2, "keys and values, heads, width, layers, bytes"
    folder = engines.size_of(tmp_path)
    assert (folder.weights, folder.cache) == (size.weights, size.cache)
    assert (
        str(size)
        == f"{path} has 27,328 parameters: 0.109 MB of weights as F32, and about 0.128 MB of cache for 1,000 tokens"
    )


def test_the_command_tells_it_with_what_is_free(tmp_path, capsys, monkeypatch):
    path, _ = tiny_llama(tmp_path / "tiny.gguf")
    monkeypatch.setattr(sizing, "free_bytes", lambda device: 3e9)
    assert main(["models", "--size", str(path)]) == 0
    told = capsys.readouterr().out
    assert told.startswith(f"{path} has 36,000 parameters: 0.144 MB of weights as F32, and about 0.128 MB of cache for")
    assert told.endswith("1,000 tokens; 3 GB are free on cpu\n") and told.count("\n") == 1
    assert main(["models", "--size", str(path), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["parameters"], found["dtype"], found["weights"], found["cache"]) == (36_000, "F32", 144_000, 128)
    assert main(["models", "--size", str(tmp_path / "none.gguf")]) == 2
    assert f"there is no file '{tmp_path}/none.gguf'; in {tmp_path} there is tiny.gguf." in capsys.readouterr().err


@pytest.mark.parametrize("option", ["dtype", "quantization", "revision", "block_size"])
def test_what_is_settled_in_the_file_is_no_option(option, tmp_path):
    path, _ = tiny_llama(tmp_path / "tiny.gguf")
    with pytest.raises(UserError, match=f"{option} is no option of a GGUF file, whose weights are used as they lie"):
        engines.size_of(path, **{option: "4bit"})


def test_what_cannot_be_decoded_with_has_no_size(tmp_path):
    path, network = tiny_llama(tmp_path / "tiny.gguf")
    write_gguf(network, path, architecture="llama", extra={"general.architecture": "mamba2"})
    with pytest.raises(UserError, match=r"'tiny.gguf' is a recurrent model"):
        engines.size_of(path)


def test_a_model_that_ships_keeps_its_name_beside_a_folder_of_that_name(tmp_path, monkeypatch):
    shipped = engines.size_of("tiny-ar-s")
    (tmp_path / "tiny-ar-s").mkdir()
    tiny_llama(tmp_path / "tiny-ar-s" / "other.gguf")
    monkeypatch.chdir(tmp_path)
    assert engines.size_of("tiny-ar-s").parameters == shipped.parameters


EIGHT = Size("ollama:qwen3:8b", 8_190_735_360, "Q4_K", "", 5_000_000_000, 147_456)


@pytest.mark.parametrize(
    ("free", "said"),
    [
        (
            4e9,
            "'ollama:qwen3:8b' takes 5 GB of weights as Q4_K and 4.83 GB of cache for 32,768 tokens, and 4 GB are free "
            "on cpu; choose a file of fewer bits (Q4_K_M has about 4.8 a weight), or a smaller model.",
        ),
        (
            8e9,
            "'ollama:qwen3:8b' takes 5 GB of weights as Q4_K and 4.83 GB of cache for 32,768 tokens, and 8 GB are free "
            "on cpu; choose a shorter context, a file of fewer bits (Q4_K_M has about 4.8 a weight), or a smaller "
            "model.",
        ),
    ],
)
def test_where_there_is_no_room_the_figures_are_told(free, said, monkeypatch):
    monkeypatch.setattr(sizing, "free_bytes", lambda device: free)
    with pytest.raises(NoRoom) as caught:
        check_gguf(EIGHT, "cpu", 32_768)
    assert str(caught.value) == said
    monkeypatch.setattr(sizing, "free_bytes", lambda device: 10e9)
    check_gguf(EIGHT, "cpu", 32_768)
    monkeypatch.setattr(sizing, "free_bytes", lambda device: None)
    check_gguf(EIGHT, "mps", 32_768)
