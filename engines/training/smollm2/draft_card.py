"""The card of the draft model: what its drafts are worth, measured by decoding with them, and its part of
assets/models/README.md."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from engines.core.kinds import CausalLM
from engines.models.files.hub import count_parameters
from engines.models.files.smollm2 import DRAFT
from engines.training.core.card import read_card

GAMMA = 4
TIMED = 20


@dataclass
class Count:
    """Chain speculation with gamma = 4: rounds, tokens they gave, and at each place of the chain how often a draft
    stood there and stayed."""

    rounds: int = 0
    tokens: int = 0
    reached: list[int] = field(default_factory=lambda: [0] * GAMMA)
    stayed: list[int] = field(default_factory=lambda: [0] * GAMMA)
    drafted: int = 0
    answers: list[list[int]] = field(default_factory=list)

    def add(self, other: Count) -> None:
        """Sum, in place."""
        self.rounds, self.tokens, self.drafted = (
            self.rounds + other.rounds,
            self.tokens + other.tokens,
            self.drafted + other.drafted,
        )
        self.reached = [a + b for a, b in zip(self.reached, other.reached, strict=True)]
        self.stayed = [a + b for a, b in zip(self.stayed, other.stayed, strict=True)]
        self.answers += other.answers

    def summary(self) -> dict[str, Any]:
        """Rates: tokens per forward of the target, accepted over drafted, and place by place among the drafts whose
        predecessors all stayed."""
        places = [round(a / b, 3) if b else None for a, b in zip(self.stayed, self.reached, strict=True)]
        return {
            "rounds": self.rounds,
            "tokens_per_forward": round(self.tokens / max(1, self.rounds), 3),
            "acceptance_rate": round(sum(self.stayed) / max(1, self.drafted), 3),
            "accepted_by_place": places,
        }


def chain(target: CausalLM, draft: CausalLM, prompt: Sequence[int], new_tokens: int) -> Count:
    """Greedy speculative decoding of one answer: draft four, check five rows in one forward, keep what the target would
    have written."""
    count, answer = Count(), list[int]()
    room = len(prompt) + new_tokens + 2 * GAMMA + 2
    cache, own = target.new_cache(room), draft.new_cache(room)
    target.extend(prompt[:-1], cache, last_only=True)
    ids = list(prompt)
    while len(answer) < new_tokens and not (answer and answer[-1] in target.eos_ids):
        drafts = list[int]()
        while len(drafts) < GAMMA:
            known = ids + drafts
            drafts.append(int(draft.extend(known[own.length :], own, last_only=True).logits[-1].argmax()))
        wanted = target.extend([ids[-1], *drafts], cache).logits.argmax(-1).tolist()
        kept = next((i for i in range(GAMMA) if drafts[i] != wanted[i]), GAMMA)
        emitted = [*drafts[:kept], wanted[kept]]
        end = next((i + 1 for i, token in enumerate(emitted) if token in target.eos_ids), len(emitted))
        emitted = emitted[:end]
        ids, answer = ids + emitted, answer + emitted
        cache.crop(min(cache.length, len(ids) - 1))
        own.crop(min(own.length, len(ids) - 1))
        count.rounds, count.tokens, count.drafted = count.rounds + 1, count.tokens + len(emitted), count.drafted + GAMMA
        for place in range(min(kept + 1, GAMMA)):
            count.reached[place] += 1
            count.stayed[place] += place < kept
    count.answers.append(answer[:new_tokens])
    return count


def row_seconds(model: CausalLM, past: int = 128) -> float:
    """Median processor time of one forward of one row behind `past` others: what a step costs where nothing else
    runs."""
    cache = model.new_cache(past + 1)
    model.extend([5] * past, cache, last_only=True)
    times = []
    for _ in range(TIMED):
        began = time.process_time()
        model.extend([5], cache)
        times.append(time.process_time() - began)
        cache.crop(past)
    return sorted(times)[TIMED // 2]


def measure(folder: Path, prompts: Sequence[dict[str, str]], new_tokens: int) -> dict[str, Any]:
    """Decode the held-out prompts with the draft in `folder`: what came of it, for its card."""
    from engines.models.loading.zoo import load_model

    target, draft = load_model(str(read_card(folder)["draft_of"]), kind="causal"), load_model(folder, kind="causal")
    whole, by = Count(), dict[str, Count]()
    for prompt in prompts:
        found = chain(target, draft, target.tokenizer.encode_prompt(prompt["prompt"]), new_tokens)  # type: ignore[arg-type]
        by.setdefault(prompt["class"], Count()).add(found)
        whole.add(found)
    times = {"draft": row_seconds(draft), "target": row_seconds(target)}  # type: ignore[arg-type]
    return {
        "parameters": count_parameters(folder),
        "bytes": (folder / "model.safetensors").stat().st_size,
        "decoding": {
            "prompts": f"{len(prompts)} of assets/tasks/spec_prompts.json, {new_tokens} tokens each at most, "
            f"temperature 0, gamma {GAMMA}, target in "
            f"{target.record.dtype}, draft in {draft.record.dtype}",
            "all": whole.summary(),
            "by_class": {name: count.summary() for name, count in by.items()},
        },
        "cpu_ms_per_row": {role: round(1000 * seconds, 2) for role, seconds in times.items()}
        | {"threads": torch.get_num_threads()},
    }


def draft_section(models: Path) -> list[str]:
    """The draft's part of README.md, or nothing where its card is not there or was not finished."""
    card = read_card(models / DRAFT)
    if "decoding" not in card:
        return []
    decoded, ms, data = card["decoding"], card["cpu_ms_per_row"], card["data"]
    start, end = card["curve"][0], card["curve"][-1]
    told = (
        f"A draft for SmolLM2-135M-Instruct with its tokenizer, embedding and output rows; {card['parameters']:,} "
        "numbers of its own "
        f"({card['bytes'] / 1e6:.1f} MB, {card.get('stored', {}).get('as', 'bfloat16')}), "
        f"{card['settings']['vocabulary']:,} tokens that it can propose "
        f"({data['covered']:.1%} of the answers it was "
        f"trained on). Made by `{card['command']}` from {data['answer_tokens']:,} answer tokens of the target in "
        f"{card['steps']} steps, "
        f"{card['minutes']} minutes ({card['cpu_minutes']} of processor time). It needs SmolLM2 on the machine. "
        "Licence: Apache-2.0."
    )
    curve = [
        [p["stage"], p["step"], f"{p['tokens_seen']:,}", f"{p['ar_greedy']:.1%}", f"{p['one_minus_tvd']:.1%}", p["ppl"]]
        for p in card["curve"]
    ]
    rows = [
        [name, c["rounds"], c["tokens_per_forward"], f"{c['acceptance_rate']:.1%}", *_places(c)]
        for name, c in _with_all(decoded)
    ]
    return [
        "",
        f"## {DRAFT}",
        "",
        told,
        "",
        f"Decoded: {decoded['prompts']}. One row costs {ms['draft']} ms of processor time, the target's "
        f"{ms['target']} ms.",
        "",
        *_lines(
            ["class", "rounds", "tokens per forward", "accepted / drafted", *(f"place {i + 1}" for i in range(GAMMA))],
            rows,
        ),
        "",
        f"Training: share of held-out answer tokens where both rank the same token first, {start['ar_greedy']:.1%} "
        f"before and {end['ar_greedy']:.1%} after.",
        "",
        *_lines(["stage", "step", "tokens seen", "same first token", "1 - TVD", "perplexity"], curve),
        *_ablations(card.get("ablations")),
    ]


def _ablations(found: dict[str, Any] | None) -> list[str]:
    """What each part of the training is worth, or nothing where it was not measured."""
    if not found:
        return []
    rows = [
        [
            r["name"],
            f"{r['answers']:,}",
            f"{r['answer_tokens']:,}",
            f"{r['ar_greedy']:.1%}",
            f"{r['one_minus_tvd']:.1%}",
            r["ppl"],
            r["cpu_minutes"],
        ]
        for r in found["rows"]
    ]
    probed = found["rows"][0]["probed"]
    return [
        "",
        f"What each part is worth: short trainings of {found['steps']} steps each, alike but for what the name says, "
        f"probed on the same {probed:,} held-out "
        f"answer tokens (a difference below {200 * (0.25 / probed) ** 0.5:.1f} points may be chance), seed "
        f"{found['seed']}: `{found['command']}`.",
        "",
        *_lines(
            [
                "variant",
                "answers",
                "answer tokens trained on",
                "same first token",
                "1 - TVD",
                "perplexity",
                "CPU minutes",
            ],
            rows,
        ),
    ]


def _with_all(decoded: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    return [*decoded["by_class"].items(), ("all", decoded["all"])]


def _places(count: dict[str, Any]) -> list[str]:
    return ["-" if share is None else f"{share:.1%}" for share in count["accepted_by_place"]]


def _lines(head: list[str], rows: list[list[Any]]) -> list[str]:
    return [f"| {' | '.join(map(str, row))} |" for row in (head, ["---"] * len(head), *rows)]
