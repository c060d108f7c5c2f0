"""How likely the model itself finds, at temperature 1, what samplers wrote at higher ones: the coherence proxy of the
Top-H paper (figure 3), on a fixed list of prompts with a given seed.

    python -m engines.methods.sampling._coherence [--model smollm2] [--seed 0] [--tokens 40]

It says nothing about how creative a text is: there is no judge here."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from statistics import mean

import engines

PROMPTS = Path(__file__).resolve().parents[3] / "assets" / "tasks" / "beginnings.json"
SAMPLERS: dict[str, tuple[str, dict[str, str]]] = {
    "plain": ("temperature", {}),
    "top-k 50": ("top-k", {}),
    "top-p 0.9": ("top-p", {}),
    "min-p 0.1": ("min-p", {}),
    "top-H paper": ("top-h", {"variant": "paper"}),
    "top-H official": ("top-h", {"variant": "official"}),
    "top-H hf": ("top-h", {"variant": "hf"}),
}
TEMPERATURES = (0.7, 1.0, 1.5, 2.0)


def log_likelihood(trace: engines.Trace) -> float:
    """Mean log-probability of the written tokens at temperature 1, in nats, from the surprise that every step
    records."""
    bits = [float(lane.values.array()[0]) for step in trace.steps for lane in step.scores if lane.name == "surprise"]
    return -mean(bits) * 0.6931471805599453


def main() -> None:
    """Print a table: a row for each sampler, a column for each temperature; means over the prompts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="smollm2")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--tokens", type=int, default=40)
    given = parser.parse_args()
    model, prompts = engines.load_model(given.model), json.loads(PROMPTS.read_text())["prompts"]
    print(
        f"{given.model}, {len(prompts)} prompts, {given.tokens} tokens, seed {given.seed}: nats per token, kept tokens"
    )
    print(f"{'':16s}" + "".join(f"T = {T:<12g}" for T in TEMPERATURES))
    for name, (slug, options) in SAMPLERS.items():
        row = f"{name:16s}"
        for T in TEMPERATURES:
            params = {"max_new_tokens": given.tokens, "temperature": T, **options}
            traces = [engines.run(slug, model, prompt, params=params, seed=given.seed) for prompt in prompts]
            kept = mean(step.facts["kept"] for trace in traces for step in trace.steps)
            row += f"{mean(map(log_likelihood, traces)):6.2f} {kept:7,.0f}   "
        print(row, flush=True)


if __name__ == "__main__":
    main()
