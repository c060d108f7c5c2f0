"""What large runs cost: recording, bytes and the browser, for a canvas of 256 positions with a vocabulary of 262,144
over 48 steps, and for an answer of 4,096 tokens.

    python -m tests.large_traces [--pairs 12] [--json [RECORD]]

Both networks are tiny and random: what is measured is everything around one. Steps with everything recorded and without
take turns; told is the median ratio of such pairs with its 95 % interval. Browser time is the processor time of all
processes of the Chromium that opens the exported page; the aims are those of tests/player/test_budgets_browser.py.
Takes about four minutes. --json writes the record that the page shows under *Docs*."""

import argparse
import copy
import datetime
import json
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import msgspec
import torch

import engines
from engines import Trace, median_interval
from explorer import ASSETS
from explorer.export.html import export_html
from explorer.papers.tables import Cell, Measured
from tests.conftest import FLAGS
from tests.player.test_budgets_browser import LOAD
from tests.tiers import browser_binary

GOLDEN = Path(__file__).parent / "golden" / "diffusion2026" / "diffusion_gemma" / "checkpoint" / "config.json"
RECORD = ASSETS / "measured" / "length.json"
VOCABULARY, CANVAS, STEPS, TOKENS = 262_144, 256, 48, 4096
AIM = 8  # milliseconds of browser time for a scrubbed step
SCRUBBED = 40  # steps of each place that is scrubbed
SCRUB = """([from, steps]) => new Promise((done) => { let at = from;
  const slider = document.querySelector(".dx-toolbar input[type=range]");
  const frame = () => { if (at >= from + steps) return done(); slider.value = ++at;
    slider.dispatchEvent(new Event("input")); requestAnimationFrame(frame); };
  frame(); })"""


@dataclass
class Recorded:
    """What a run took. ratios: seconds of a step with everything recorded over those of the same step without;
    recording: seconds of each step that recording took; trace: the one with everything."""

    name: str
    ratios: list[float]
    recording: list[float]
    step: float
    trace: Trace


@dataclass
class Browsed:
    """What a trace took in the browser. painted: milliseconds from the data to the picture; opening, scrubbed: of
    browser time, of the whole and of a step at the beginning, the middle and the end; heap: MB of JavaScript."""

    painted: float
    opening: float
    scrubbed: list[float]
    heap: float


def canvas_model(folder: Path) -> Any:
    """A random DiffusionGemma with the published canvas and vocabulary."""
    from transformers import DiffusionGemmaConfig, DiffusionGemmaForBlockDiffusion

    raw = json.loads(GOLDEN.read_text())
    raw["canvas_length"] = CANVAS
    raw["text_config"] |= {"vocab_size": VOCABULARY, "max_position_embeddings": 2048, "sliding_window": 64}
    torch.manual_seed(0)
    from engines.models.configs.canvases import canvas_config

    DiffusionGemmaForBlockDiffusion(DiffusionGemmaConfig(**canvas_config(raw, "random"))).save_pretrained(folder)
    (folder / "config.json").write_text(json.dumps(raw))
    return engines.load_model(folder, dtype="float32")


def text_model(folder: Path) -> Any:
    """A random causal network of one layer that writes no end mark."""
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    sizes = {"vocab_size": 512, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1}
    heads = {"num_attention_heads": 2, "num_key_value_heads": 1, "max_position_embeddings": 8192}
    marks = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
    LlamaForCausalLM(LlamaConfig(**sizes, **heads, **marks)).save_pretrained(folder)
    endless = copy.copy(engines.load_model(folder, dtype="float32"))
    endless.eos_ids = frozenset({endless.vocab_size})
    return endless


def recorded(name: str, slug: str, model: Any, params: dict[str, Any], pairs: int) -> Recorded:
    """Run it with everything recorded, and the first `pairs` steps in turns without."""
    prompt = [2, *torch.randint(100, 400, (40,), generator=torch.Generator().manual_seed(1)).tolist()]
    plain, full = (engines.stream(slug, model, prompt, params=params, detail=detail) for detail in ("none", "full"))
    next(plain), next(full)  # reads the prompt

    def seconds(run: Any) -> float | None:
        began = time.perf_counter()
        there = next(run, None) is not None
        return time.perf_counter() - began if there else None

    ratios, recording, steps, before = list[float](), list[float](), list[float](), 0.0
    without = seconds(plain)
    while (took := seconds(full)) is not None:
        if without:
            ratios.append(took / without)
        steps.append(took)
        if len(steps) <= pairs:  # asking decodes the text, which is no matter of recording
            now = full.end().record_seconds
            recording.append(now - before)
            before = now
        without = seconds(plain) if len(ratios) < pairs else None
    plain.close()
    return Recorded(name, ratios, recording[1:], median(steps), full.trace())


def browsed(traces: Sequence[Trace], folder: Path) -> Iterator[Browsed]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=browser_binary(), args=FLAGS.split())
        session = chromium.new_browser_cdp_session()

        def spent() -> float:
            told = session.send("SystemInfo.getProcessInfo")["processInfo"]
            return 1000 * sum(float(process["cpuTime"]) for process in told)

        for number, trace in enumerate(traces):
            file = folder / f"{number}.html"
            file.write_text(export_html([trace], "Large"), "utf-8")
            page = chromium.new_page(viewport={"width": 1200, "height": 900})
            page.goto(file.as_uri())
            page.wait_for_function("window.handles?.length === 1")
            page.wait_for_timeout(500)
            before = spent()
            painted = page.evaluate(LOAD, trace.to_json())
            opening, scrubbed = spent() - before, []
            last = len(trace.steps) - 1
            many = min(SCRUBBED, last // 3)
            for start in (0, (last - many) // 2, last - many):
                page.evaluate(SCRUB, [start, 1])
                before = spent()
                page.evaluate(SCRUB, [start, many])
                scrubbed.append((spent() - before) / many)
            own = page.context.new_cdp_session(page)
            own.send("HeapProfiler.collectGarbage")
            heap = own.send("Runtime.getHeapUsage")["usedSize"] / 1e6
            page.close()
            yield Browsed(painted, opening, scrubbed, heap)
        chromium.close()


COLUMNS = [
    "run",
    "a step with everything recorded over one without (95 %)",
    "recording, ms per step",
    "step, ms",
    "trace, kB",
    "painted after, ms",
    "browser time to open, ms",
    "of a scrubbed step, ms: begin / middle / end",
    "JavaScript heap, MB",
]


def table(runs: Sequence[Recorded], seen: Sequence[Browsed], command: str) -> Measured:
    rows: list[list[Cell]] = []
    for one, page in zip(runs, seen, strict=True):
        ends = median_interval(one.ratios)
        ratio = [round(x, 3) for x in (median(one.ratios), *((ends.low, ends.high) if ends else ()))]
        row: list[Cell] = [one.name, ratio if ends else ratio[0], round(1000 * median(one.recording), 2)]
        row += [round(1000 * one.step, 1), round(len(one.trace.to_json()) / 1000), round(page.painted)]
        scrubbed = " / ".join(f"{cost:.1f}" for cost in page.scrubbed)
        rows.append([*row, round(page.opening), scrubbed, round(page.heap, 1)])
    notes = [
        "Medians; steps without and with recording take turns. Aims on an idle machine: painted within 300 ms, "
        f"{AIM} ms of browser time for a scrubbed step; a trace of at most 8,000 kB can be opened."
    ]
    if over := [one.name for one, page in zip(runs, seen, strict=True) if max(page.scrubbed) > AIM]:
        notes.append(f"A scrubbed step takes more than its aim: {'; '.join(over)}.")
    machine, date = runs[0].trace.header.machine, datetime.datetime.now(datetime.UTC).date().isoformat()
    about = "tiny random networks, so that nothing but what surrounds a network is measured"
    return Measured("Large runs: recording and the browser", command, machine, date, COLUMNS, rows, about, notes)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=12, help="steps that run without recording, too (default 12)")
    parser.add_argument("--json", nargs="?", const=str(RECORD), help="write the record")
    args = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        canvas, text = {"max_new_tokens": CANVAS, "max_denoising_steps": STEPS}, {"max_new_tokens": TOKENS}
        name = f"a canvas of {CANVAS}, vocabulary {VOCABULARY:,}, {STEPS} steps"
        runs = [recorded(name, "entropy-bound", canvas_model(folder / "canvas"), canvas, args.pairs)]
        model = text_model(folder / "text")
        runs.append(recorded(f"greedy, {TOKENS:,} tokens", "greedy", model, text, 64 * args.pairs))
        for one in runs:
            print(f"{one.name}: {len(one.trace.steps)} steps, {len(one.trace.to_json()):,} bytes", flush=True)
        seen = list(browsed([one.trace for one in runs], folder))
    found = table(runs, seen, "python -m tests.large_traces --json")
    print(msgspec.json.format(msgspec.json.encode(found)).decode())
    if args.json:
        Path(args.json).write_bytes(msgspec.json.format(msgspec.json.encode([found]), indent=1) + b"\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
