"""What our loops cost against the official ones on the same weights: transformers' `generate` and diffusers' pipelines.

    python -m tests.official_loops [--rounds 9] [--threads 1] [--clock processor] [--json FILE] [--only NAME]

Random weights whose forward takes 20 ms or more on two cores. Each round runs the official loop, ours without recording
and ours with all of it, in turn and in the order that the round before ended with, so that a machine that grows slower
meets all three; the ratios are those of a round, and the median of them is told, with the quarters beside it. Both
loops begin with the same seed; how many of their tokens are equal is told (random weights are chaotic: a temperature
that is rounded otherwise changes what they write after some steps). Lines: ours / official at most 1.05, full / none at
most 1.10. LLaDA2Pipeline feeds the whole window each time; ours stores finished blocks (the same distribution)."""

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import transformers
from diffusers import (
    BlockRefinementScheduler,
    DiffusionGemmaPipeline,
    DiscreteDDIMScheduler,
    EntropyBoundScheduler,
    LLaDA2Pipeline,
)
from transformers.modeling_outputs import CausalLMOutput
from transformers.models.diffusion_gemma.generation_diffusion_gemma import EntropyBoundSamplerConfig

from engines.core.method import Method
from engines.core.trace import ModelRecord
from engines.driver.run import Run
from engines.methods.diffusion import block_refinement, discrete_ddim, entropy_bound, llada21
from engines.models.adapters.block import HFBlockMaskedLM, block_mask
from engines.models.adapters.canvas import HFCanvasLM
from engines.models.tokens import IdTokenizer

CLOCKS = {"wall": time.perf_counter, "processor": time.process_time}  # the latter where others use the machine, too
LINES = {"ours / official": 1.05, "full / none": 1.10}
CONFIG = Path(__file__).parent / "golden" / "diffusion2026" / "diffusion_gemma" / "checkpoint" / "config.json"
V, L, STEPS = 2048, 128, 8
PROMPT = [5 + i for i in range(32)]
MASK, BLOCK = V - 1, 32


@dataclass
class Pair:
    """An official loop, and ours. Both return what they wrote behind the prompt; ours takes the detail."""

    name: str
    official: Callable[[], list[int]]
    ours: Callable[[str], list[int]]


def canvas_model() -> HFCanvasLM:
    """A DiffusionGemma of random weights."""
    raw = json.loads(CONFIG.read_text("utf-8"))
    sizes = {"hidden_size": 256, "intermediate_size": 512, "moe_intermediate_size": 128, "head_dim": 32}
    more = {"num_hidden_layers": 6, "layer_types": ["sliding_attention", "full_attention"] * 3, "sliding_window": 64}
    raw["text_config"] |= {"vocab_size": V, "global_head_dim": 64, "num_attention_heads": 8, **sizes, **more}
    torch.manual_seed(0)
    config = transformers.AutoConfig.for_model(**raw | {"canvas_length": L})
    model = transformers.DiffusionGemmaForBlockDiffusion(config).eval()
    return HFCanvasLM(model, IdTokenizer(V), record("canvas"), frozenset({1}))


def block_model() -> HFBlockMaskedLM:
    """A block model of random weights, sure enough to differ from step to step."""
    torch.manual_seed(0)
    sizes = {"vocab_size": V, "hidden_size": 384, "intermediate_size": 1024, "num_hidden_layers": 6, "head_dim": 64}
    config = transformers.Qwen3Config(**sizes, num_attention_heads=6, num_key_value_heads=6)
    model = transformers.Qwen3ForCausalLM(config).eval()
    return HFBlockMaskedLM(model, IdTokenizer(V), record("block"), MASK, BLOCK, shift=False)


def record(kind: str) -> ModelRecord:
    """Of random weights."""
    return ModelRecord("target", "random", kind, device="cpu", dtype="float32", threads=torch.get_num_threads())


def ours(method: Method, model: Any, params: dict[str, Any]) -> Callable[[str], list[int]]:
    """Our loop, as `engines.run` makes it."""

    def run(detail: str) -> list[int]:
        made = Run(method, {method.info.role: model}, PROMPT, params=params, seed=0, detail=detail)
        for _ in made:
            pass
        return list(made.end().output_ids)

    return run


class Ready:
    """A processor that has the ids."""

    eos_token_id = V  # none that can be written

    def apply_chat_template(self, *_: Any, **__: Any) -> dict[str, Any]:
        """The prompt."""
        return {"input_ids": torch.tensor([PROMPT])}


class Blocks(torch.nn.Module):
    """A module for the pipeline that makes the block mask itself."""

    device, dtype = torch.device("cpu"), torch.float32

    def __init__(self, model: HFBlockMaskedLM) -> None:
        super().__init__()
        self.inner: Any = model.model

    def forward(self, input_ids: Any, attention_mask: Any = None, position_ids: Any = None) -> CausalLMOutput:
        """Logits of the whole window."""
        n = input_ids.shape[1]
        mask = block_mask(range(n), n, BLOCK, torch.float32, torch.device("cpu"))
        logits = self.inner(input_ids, attention_mask=mask, position_ids=position_ids, use_cache=False).logits
        logits[..., MASK] = -torch.inf
        return CausalLMOutput(logits=logits)


def pairs() -> list[Pair]:
    """What is compared."""
    model, made = canvas_model(), list[Pair]()
    model.eos_ids = frozenset({V})
    base = {"max_new_tokens": L, "max_denoising_steps": STEPS, "confidence_threshold": 1e-6}

    def generate() -> list[int]:
        torch.manual_seed(0)
        out = model.model.generate(
            input_ids=torch.tensor([PROMPT]),
            sampler_config=EntropyBoundSamplerConfig(0.1),
            eos_token_id=V,
            pad_token_id=0,
            **base,
        )
        return list(out.sequences[0].tolist())[len(PROMPT) :]

    made.append(Pair("generate, entropy bound", generate, ours(entropy_bound.decode, model, base)))
    for name, scheduler, method, more in (
        ("pipeline, entropy bound", EntropyBoundScheduler(), entropy_bound.decode, {"answer": "canvas"}),
        ("pipeline, block refinement", BlockRefinementScheduler(), block_refinement.decode, {}),
        ("pipeline, discrete DDIM", DiscreteDDIMScheduler(), discrete_ddim.decode, {}),
    ):
        made.append(Pair(name, pipeline(model, scheduler), ours(method, model, base | more)))
    blocks = block_model()
    params = {"max_new_tokens": 64, "steps": 16, "threshold": 0.9, "editing_threshold": 0.5, "max_post_steps": 17}
    made.append(Pair("LLaDA2Pipeline", llada2(blocks), ours(llada21.decode, blocks, params)))
    return made


def pipeline(model: HFCanvasLM, scheduler: Any) -> Callable[[], list[int]]:
    """diffusers' loop over canvases."""
    pipe = DiffusionGemmaPipeline(model.model, scheduler, None)
    pipe.processor = Ready()
    pipe.set_progress_bar_config(disable=True)

    def run() -> list[int]:
        rng = torch.Generator().manual_seed(0)
        given = {"gen_length": L, "num_inference_steps": STEPS, "confidence_threshold": 1e-6, "generator": rng}
        return list(pipe(prompt="", output_type="seq", **given).sequences[0].tolist())

    return run


def llada2(model: HFBlockMaskedLM) -> Callable[[], list[int]]:
    """diffusers' loop over blocks, which feeds the whole window every time."""
    pipe = LLaDA2Pipeline(Blocks(model), BlockRefinementScheduler(), None)
    pipe.set_progress_bar_config(disable=True)
    given = {"gen_length": 64, "block_length": BLOCK, "num_inference_steps": 16, "threshold": 0.9}
    more = {"mask_token_id": MASK, "eos_token_id": V, "output_type": "seq", "editing_threshold": 0.5}

    def run() -> list[int]:
        return list(pipe(input_ids=torch.tensor([PROMPT]), **given, **more).sequences[0].tolist())

    return run


def measured(pair: Pair, rounds: int, clock: Callable[[], float]) -> dict[str, Any]:
    """The ratios of one pair."""
    ways = {"official": pair.official, "none": lambda: pair.ours("none"), "full": lambda: pair.ours("full")}
    texts = {name: run() for name, run in ways.items()}  # and nothing is cold afterwards
    assert texts["none"] == texts["full"]
    order, found = list(ways), list[dict[str, float]]()
    for _ in range(rounds):
        took = {}
        for name in order:
            began = clock()
            ways[name]()
            took[name] = clock() - began
        found.append(took)
        order.reverse()
    return {
        "loop": pair.name,
        "equal tokens": [sum(map(int.__eq__, texts["official"], texts["none"])), len(texts["official"])],
        "seconds": {name: round(statistics.median(one[name] for one in found), 4) for name in ways},
        "ours / official": quarters([one["none"] / one["official"] for one in found]),
        "full / none": quarters([one["full"] / one["none"] for one in found]),
    }


def quarters(ratios: list[float]) -> list[float]:
    """The median, with the first and third quarter."""
    low, middle, high = statistics.quantiles(ratios, n=4)
    return [round(middle, 3), round(low, 3), round(high, 3)]


def main() -> int:
    """Measure, print, and say whether all stays within its line."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--rounds", type=int, default=9)
    asked.add_argument("--threads", type=int, default=1)
    asked.add_argument("--clock", choices=CLOCKS, default="wall")
    asked.add_argument("--json", type=Path)
    asked.add_argument("--only", default="", help="loops whose name holds this")
    told = asked.parse_args()
    torch.set_num_threads(told.threads)
    found = [measured(pair, told.rounds, CLOCKS[told.clock]) for pair in pairs() if told.only in pair.name]
    for one in found:
        figures = ", ".join(f"{name} {one[name][0]:.3f} ({one[name][1]:.3f} to {one[name][2]:.3f})" for name in LINES)
        equal, of = one["equal tokens"]
        print(f"{one['loop']:28} {figures}; seconds {one['seconds']}; {equal} of {of} tokens equal")
    if told.json:
        told.json.write_text(json.dumps(found, indent=1) + "\n", "utf-8")
    return int(any(one[name][0] > line for one in found for name, line in LINES.items()))


if __name__ == "__main__":
    sys.exit(main())
