"""How certain masked models are: batched decoding block by block under a line on the entropy, and what it gives before
and after a distillation.

Written for whole batches of prompts on canvases of exactly the task's length, with nothing recorded; a test holds it
against the engine's rule."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import torch
from torch import Tensor

from engines.core.sampling import entropy
from engines.tasks import TASKS, check
from engines.training.core.data import Pair, encode
from engines.training.tiny.marks import ROWS, canvas_length, held_out
from engines.training.tiny.networks import Network

TAU = 0.5  # the paper's line, in nats, for vocabularies of 126,000 and more
TAUS = (0.05, 0.15, 0.3, TAU, 1.0)
Cost = Literal["entropy", "doubt"]  # nats, or 1 - the probability of the proposal


def proposals(network: Network, x: Tensor, ends: Tensor, wanted: Tensor, mask_id: int) -> Tensor:
    """Logits [k, V] of the wanted places of boards x [R, L], of which each ends at ends [R] and is not seen beyond; the
    mask is never proposed."""
    seen = (torch.arange(x.shape[1], device=x.device) < ends[:, None])[:, None, None]
    mask = seen.expand(-1, 1, x.shape[1], -1)
    states = network.model(input_ids=x, attention_mask=mask, use_cache=False).last_hidden_state
    z = network.lm_head(states[:, :-1][wanted[:, 1:]]).float()  # row i of the network predicts token i + 1
    z[:, mask_id] = -torch.inf
    return z


def current_block(masked: Tensor, starts: Tensor, size: int | Tensor) -> Tensor:
    """Those of the masks [R, L] in the first block of each board that has any. starts [R]: of the canvases; size: of
    the blocks, [R, 1] if they differ."""
    blocks = (torch.arange(masked.shape[1], device=masked.device) - starts[:, None]) // size
    return masked & (blocks == blocks.gather(1, masked.int().argmax(1, keepdim=True)))


@torch.inference_mode()
def fill(
    network: Network,
    tokenizer: Any,
    pairs: Sequence[Pair],
    length: int,
    block: int,
    line: float,
    cost: Cost = "entropy",
) -> tuple[list[list[int]], list[int]]:
    """Fill `length` masks behind every prompt, block by block: the cheapest mask of the block and all at or below the
    line (< 0: one per forward).

    Returns per prompt the ids and the forwards.
    """
    mask_id, network = tokenizer.mask_token_id, network.eval()
    starts = torch.tensor([len(prompt) for prompt, _ in pairs])
    ends = starts + length
    x = torch.full((len(pairs), int(ends.max())), mask_id)
    places = torch.arange(x.shape[1])
    for i, (prompt, _) in enumerate(pairs):
        x[i, : len(prompt)] = torch.tensor(prompt)
    x[places >= ends[:, None]] = tokenizer.eos_token_id
    counts = torch.zeros_like(starts)
    x, starts, ends = (t.to(network.device) for t in (x, starts, ends))
    while len(rows := (x == mask_id).any(1).nonzero().flatten()):
        inside = current_block(x[rows] == mask_id, starts[rows], block)
        z = proposals(network, x[rows], ends[rows], inside, mask_id)
        costs = torch.full(inside.shape, torch.inf, device=x.device)
        costs[inside] = entropy(z) if cost == "entropy" else 1 - z.softmax(-1).amax(-1)
        commit = (costs <= line) | torch.zeros_like(inside).scatter(1, costs.argmin(1, keepdim=True), True)
        tokens = torch.zeros_like(x[rows])
        tokens[inside] = z.argmax(-1)
        x[rows] = torch.where(commit, tokens, x[rows])
        counts[rows.cpu()] += 1
    return [row[s:e].tolist() for row, s, e in zip(x, starts, ends, strict=True)], counts.tolist()


def exact_and_forwards(
    network: Network, tokenizer: Any, task: str, block: int, n: int, line: float, cost: Cost = "entropy"
) -> tuple[float, float]:
    """(share answered exactly, mean forwards) of n held-out prompts of a task."""
    examples = held_out(task, n)
    pairs, end = encode(tokenizer, examples), tokenizer.eos_token_id
    right = forwards = 0
    for start in range(0, n, ROWS):
        outputs, counts = fill(
            network, tokenizer, pairs[start : start + ROWS], canvas_length(task, tokenizer), block, line, cost
        )
        forwards += sum(counts)
        for example, output in zip(examples[start:], outputs, strict=False):
            right += check(example, tokenizer.decode(output[: output.index(end)] if end in output else output)).correct
    return right / n, forwards / n


@torch.inference_mode()
def first_forwards(network: Network, tokenizer: Any, task: str, block: int, n: int) -> tuple[Tensor, Tensor]:
    """(entropy, whether the proposal is the reference's) of all masks at the first forward of every block that holds a
    part of the reference answer.

    The boards are the same for every network: n held-out prompts, the whole blocks of the reference before the block,
    masks from there on."""
    network, length, end, mask_id = (
        network.eval(),
        canvas_length(task, tokenizer),
        tokenizer.eos_token_id,
        tokenizer.mask_token_id,
    )
    pairs = [(prompt, answer[:length]) for prompt, answer in encode(tokenizer, held_out(task, n))]
    boards = [
        (prompt, answer + [end] * (length - len(answer)), done)
        for prompt, answer in pairs
        for done in range(0, len(answer), block)
    ]
    entropies, right = [], []
    for start in range(0, len(boards), ROWS):
        part = boards[start : start + ROWS]
        ends = torch.tensor([len(prompt) + length for prompt, _, _ in part])
        y = torch.full((len(part), int(ends.max())), end)
        active = torch.zeros_like(y, dtype=torch.bool)
        x = y.clone()
        for i, (prompt, answer, done) in enumerate(part):
            a = len(prompt) + done
            y[i, : ends[i]] = torch.tensor(prompt + answer)
            x[i, : ends[i]] = torch.where(torch.arange(int(ends[i])) < a, y[i, : ends[i]], mask_id)
            active[i, a : min(a + block, int(ends[i]))] = True
        x, y, ends, active = (t.to(network.device) for t in (x, y, ends, active))
        z = proposals(network, x, ends, active, mask_id)
        entropies.append(entropy(z).cpu())
        right.append((z.argmax(-1) == y[active]).cpu())
    return torch.cat(entropies), torch.cat(right)


def figures(base: Network, distilled: Network, tokenizer: Any, block: int, n: int) -> dict[str, Any]:
    """Both networks on the same n held-out prompts per task: at every line exact match and forwards, and their
    certainty at first forwards."""
    lengths = {task: canvas_length(task, tokenizer) for task in TASKS}
    answers = {task: sum(len(answer) for _, answer in encode(tokenizer, held_out(task, n))) / n for task in TASKS}
    runs: dict[str, Any] = {
        "one per forward, base": {
            task: exact_and_forwards(base, tokenizer, task, block, n, -1.0, "doubt") for task in TASKS
        }
    }
    for tau in TAUS:
        for name, network in (("base", base), ("distilled", distilled)):
            runs[f"{tau:g}, {name}"] = {
                task: exact_and_forwards(network, tokenizer, task, block, n, tau) for task in TASKS
            }
    return {
        "prompts_per_task": n,
        "runs": {
            name: {
                "exact": round(sum(e for e, _ in run.values()) / len(run), 4),
                "forwards": round(sum(f for _, f in run.values()) / len(run), 2),
                "of_one_per_forward": round(sum(f for _, f in run.values()) / sum(lengths.values()), 4),
                "of_the_answers_tokens": round(sum(f for _, f in run.values()) / sum(answers.values()), 4),
                "by_task": {task: [round(e, 4), round(f, 2)] for task, (e, f) in run.items()},
            }
            for name, run in runs.items()
        },
        "first_forwards": {
            name: _certainty(network, tokenizer, block, n)
            for name, network in (("base", base), ("distilled", distilled))
        },
    }


def _certainty(network: Network, tokenizer: Any, block: int, n: int) -> dict[str, Any]:
    """Mean entropy of all masks at first forwards, and per line which share of them lies at or below it and how many of
    those are the reference's.

    Only tasks with one right answer: in the others a proposal that is not the reference's may be right.
    """
    parts = {task: first_forwards(network, tokenizer, task, block, n) for task in TASKS}
    H = torch.cat([h for h, _ in parts.values()])
    h, right = (torch.cat([part[i] for task, part in parts.items() if not TASKS[task].many]) for i in range(2))
    by_line = {
        f"{tau:g}": {"accepted": round(float((h <= tau).float().mean()), 4), "right": _share(right[h <= tau])}
        for tau in TAUS
    }
    return {
        "mean_entropy": round(float(H.mean()), 4),
        "mean_entropy_by_task": {t: round(float(p.mean()), 4) for t, (p, _) in parts.items()},
        "lines": by_line,
    }


def _share(right: Tensor) -> float | None:
    return round(float(right.float().mean()), 4) if len(right) else None
