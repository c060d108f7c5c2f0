"""Canvas loops of others on the public checkpoint, and our engines on the same cases."""

import copy
import json
from pathlib import Path
from types import SimpleNamespace

import torch
import transformers
from diffusers import BlockRefinementScheduler, DiffusionGemmaPipeline, DiscreteDDIMScheduler, EntropyBoundScheduler
from transformers.models.diffusion_gemma.generation_diffusion_gemma import EntropyBoundSamplerConfig

import engines
from engines.core.golden_cases import differ
from engines.driver.run import Run
from tests.golden.checkers.diffusion_gemma import METHODS, _params

FOLDER = Path(__file__).parents[2] / "golden" / "diffusion2026" / "diffusion_gemma"
CASES = {case["id"]: case for case in json.loads((FOLDER / "cases.json").read_text())["cases"]}
GENERATE = [name for name, case in CASES.items() if "scheduler" not in case["params"]]
SCHEDULERS = {
    "block_refinement": BlockRefinementScheduler,
    "discrete_ddim": DiscreteDDIMScheduler,
    "entropy_bound": EntropyBoundScheduler,
}
OUR_RULE = {"line", "quiet", "steps", "stop", "stable"}  # of a record: what a schedule says, and no forward shows
HIDDEN = {"after", "accepted", "renoised"}  # of a last step: what its likeliest tokens took the place of


def network():
    return transformers.DiffusionGemmaForBlockDiffusion.from_pretrained(
        FOLDER / "checkpoint", dtype=torch.float32
    ).eval()


def loaded(eos):
    model = copy.copy(engines.load_model(FOLDER / "checkpoint", dtype="float32"))
    model.eos_ids = frozenset(eos if isinstance(eos, list) else [eos])
    return model


def ours(case):
    """The steps of our engine."""
    params = case["params"]
    model = loaded(params.get("eos_token_id", 1))
    decode = METHODS[params.get("scheduler", "generate")]
    return list(Run(decode, {"model": model}, case["prompt"], params=_params(params), seed=case["rng_seed"]))


def generate(model, case):
    """transformers' `generate`."""
    p = {"eos_token_id": 1, **case["params"]}
    p["sampler_config"] = EntropyBoundSamplerConfig(p.pop("entropy_bound"))
    torch.manual_seed(case["rng_seed"])
    return model.generate(input_ids=torch.tensor([case["prompt"]]), pad_token_id=0, **p)


def pipeline(model, case, generator):
    """diffusers' pipeline with the scheduler of the case."""
    p = dict(case["params"])
    scheduler = SCHEDULERS[p.pop("scheduler")](**p.pop("scheduler_config"))
    pipe = DiffusionGemmaPipeline(model, scheduler, None)
    ready = {"input_ids": torch.tensor([case["prompt"]])}
    pipe.processor = SimpleNamespace(eos_token_id=1, apply_chat_template=lambda *_, **__: ready)
    pipe.set_progress_bar_config(disable=True)
    return pipe(prompt="", generator=generator, output_type="seq", **p)


def compared(mine, theirs, without=()):
    """The first field of a record of ours that a watched one says otherwise, or not at all."""
    skipped = OUR_RULE | set(without) | ({"held"} if not mine.get("held") else set())
    return differ("", theirs, {name: value for name, value in mine.items() if name not in skipped}, 1e-3)
