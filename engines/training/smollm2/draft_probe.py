"""The probe of the draft: how well it follows the target along held-out answers, without decoding."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from engines.training.smollm2.draft_rows import Example, answer_logits


@dataclass
class Probe:
    """Held-out answers with the target's distribution over the draft vocabulary at each of their positions: p
    [positions, v], first choice [positions] or -1."""

    rows: list[Example]
    p: Tensor
    first: Tensor
    groups: list[str]

    def measure(self, network: nn.Module) -> dict[str, Any]:
        """Greedy acceptance, 1 - TVD and perplexity along the target's own text, all and by class. No decoding: every
        position sees the true past."""
        network.eval()
        with torch.inference_mode():
            logits = torch.cat([answer_logits(network, self.rows[i : i + 8]) for i in range(0, len(self.rows), 8)])
            q = logits.softmax(-1)
            same, overlap = (
                (logits.argmax(-1) == self.first).double(),
                torch.minimum(q, self.p.float()).sum(-1).double(),
            )
            answer = torch.cat([row.answer for row in self.rows])
            loss = nn.functional.cross_entropy(logits, answer, ignore_index=-1).item()
        owner = [name for row, name in zip(self.rows, self.groups, strict=True) for _ in row.answer]
        by = {
            name: round(same[torch.tensor([o == name for o in owner])].mean().item(), 4) for name in sorted(set(owner))
        }
        return {
            "ar_greedy": round(same.mean().item(), 4),
            "one_minus_tvd": round(overlap.mean().item(), 4),
            "ppl": round(math.exp(loss), 2),
            "by_class": by,
        }


@torch.inference_mode()
def make_probe(target: Any, rows: list[Example], groups: list[str], draft_ids: Tensor) -> Probe:
    """The target's distribution at every answer position of held-out rows. Uncovered tokens keep their share of it, so
    1 - TVD counts them as lost."""
    place = torch.full((target.config.vocab_size,), -1)
    place[draft_ids] = torch.arange(len(draft_ids))
    distributions, firsts = [], []
    for row in rows:
        hidden = (
            target.model(input_ids=torch.tensor([row.ids[:-1]])).last_hidden_state[0, row.prompt - 1 :].contiguous()
        )
        p = target.lm_head(hidden).float().softmax(-1)
        distributions.append(p[:, draft_ids].half())
        firsts.append(place[p.argmax(-1)])
    return Probe(rows, torch.cat(distributions), torch.cat(firsts), groups)
