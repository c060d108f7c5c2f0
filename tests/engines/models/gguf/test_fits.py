"""The table of what fits into which memory, in the documents, is what its formula gives."""

from pathlib import Path

import pytest

DOCUMENT = Path(__file__).resolve().parents[4] / "assets" / "docs" / "models.md"
BITS = {"F16": 16.0005, "Q8_0": 8.5008, "Q6_K": 6.5633, "Q4_K_M": 4.8944}  # of Llama 3.1 8B: llama.cpp, tools/quantize
MEMORY, SHARE, TOKENS = (8, 16, 32), 0.75, 4096
MODELS = {  # parameters / 10^9, layers, heads of keys and values, width of a head: of the published configs
    "Qwen3-0.6B": (0.596, 28, 8, 128), "Qwen3-1.7B": (1.72, 28, 8, 128), "Qwen3-4B": (4.02, 36, 8, 128),
    "Qwen3-8B": (8.19, 36, 8, 128), "LLaDA-8B (no cache)": (8.02, 0, 0, 0), "Qwen3-14B": (14.77, 40, 8, 128),
    "Qwen3-30B-A3B": (30.53, 48, 4, 128), "Qwen3-32B": (32.76, 64, 8, 128),
}  # fmt: skip


def cell(memory, parameters, layers, heads, width):
    """The most bits that fit, with the GB that they take."""
    cache = layers * 2 * heads * width * 2 * TOKENS / 1e9
    needed = {word: parameters * bits / 8 + cache for word, bits in BITS.items()}
    return next((f"{word}, {size:.1f} GB" for word, size in needed.items() if size <= SHARE * memory), "does not fit")


def line(model):
    cells = [cell(memory, *MODELS[model]) for memory in MEMORY]
    return f"| {' | '.join([f'`{model}`'.replace(' (no cache)`', '` (no cache)'), *cells])} |"


@pytest.mark.parametrize("model", MODELS)
def test_each_line_is_computed(model):
    assert line(model) in DOCUMENT.read_text(encoding="utf-8").splitlines()


def test_so_are_the_figures_beside_the_table():
    text = " ".join(DOCUMENT.read_text(encoding="utf-8").split())
    assert all(f"{word} {bits}" in text for word, bits in BITS.items())
    _, layers, heads, width = MODELS["Qwen3-8B"]
    assert f"32,768 tokens takes {layers * 2 * heads * width * 2 * 32_768 / 1e9:.1f} GB of cache in Qwen3-8B" in text
    assert f"{126_464 * 4 / 1e6:.1f} MB a position" in text, "LLaDA's tokens, in float32"
