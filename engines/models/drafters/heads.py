"""Heads on the target's last state, as published: Medusa's (arXiv 2401.10774; FasterDecoding/Medusa) and Hydra's
(arXiv 2402.05109; zankner/Hydra). They keep nothing of the text, but for Hydra++'s prefix layer.

The files count: published Medusa configs say 2 heads where there are 5."""

import re
from typing import Any

import torch
from torch import Tensor, cat
from torch.nn import functional as F

from engines.core.errors import UserError
from engines.models.drafters.base import CountedDrafter, Drafter
from engines.models.drafters.files import Checkpoint, Shapes
from engines.models.drafters.network import Layer, Pasts, Rotation, Sizes, causal
from engines.models.drafters.tensors import Tensors, count

INSIDE = "medusa_head."  # Medusa-1.0: heads in the files of a target that was trained with them
BLOCK = re.compile(r"(\d+)\.(\d+)\.linear\.weight")


class Medusa(Drafter):
    """x + SiLU(W x + b), once or more, then an output head of its own or the target's. All heads read one state; head i
    guesses the token i + 2 places behind it, the target's own head the next one."""

    format, title, layers = "medusa-heads", "Medusa heads", 0

    @staticmethod
    def like(shapes: Shapes) -> bool:
        """Blocks and heads, in one of three forms."""
        firsts = ("0.0.linear.weight", f"{INSIDE}0.0.linear.weight", "blocks.0.layers.0.weight")
        return any(name in shapes for name in firsts)

    def __init__(self, checkpoint: Checkpoint, target: Any, t: Tensors) -> None:
        super().__init__(checkpoint, target, t)
        d, self.reads = self.width, (self.num_layers,)
        inside = any(name.startswith(INSIDE) for name in checkpoint.shapes)
        vllm = "blocks.0.layers.0.weight" in t
        at = INSIDE if inside else "blocks." if vllm else ""
        self.heads = count(checkpoint.shapes, at)
        self.blocks, self.own_heads = [], list[Tensor | None]()
        for i in range(self.heads):
            part = f"{at}{i}.layers." if vllm else f"{at}{i}."
            linear = "" if vllm else "linear."
            blocks = 0
            while f"{part}{blocks}.{linear}weight" in t and (vllm or f"{part}{blocks}.linear.bias" in t):
                blocks += 1
            why = f"the target is {d} wide"
            self.blocks.append(
                [
                    (
                        t.take(f"{part}{j}.{linear}weight", d, d, why=why),
                        t.take(f"{part}{j}.{linear}bias", d, why=why) if f"{part}{j}.{linear}bias" in t else None,
                    )
                    for j in range(blocks)
                ]
            )
            own = f"lm_heads.{i}.weight" if vllm else f"{part}{blocks}.weight"
            self.own_heads.append(t.maybe(own, self.vocab_size, d))
        if 0 < sum(head is not None for head in self.own_heads) < self.heads:
            raise UserError(f"'{checkpoint.name}' has an output head for some of its heads only; download it again.")
        declared = checkpoint.config.get("medusa_num_heads")
        if isinstance(declared, int) and declared != self.heads:
            self.notes.append(f"config.json says {declared} heads, and the file has {self.heads}.")
        if inside:
            t.skip(name for name in checkpoint.shapes if not name.startswith(INSIDE))
        self.k = self.heads

    def guess(self, run: CountedDrafter, h: Tensor, at: int, most: int) -> Tensor:
        """Logits [K, V] of the first `most` heads from the last state h [d]; the first speaks of position `at`."""
        K = min(most, self.heads)
        if all(head is None for head in self.own_heads[:K]):
            features: Tensor = run.call(0, lambda: cat([self._through(i, h[None]) for i in range(K)]))
            return run.logits(features, range(at, at + K))

        def compute() -> Tensor:
            heads = [head for head in self.own_heads[:K] if head is not None]  # one for each of them, or none
            return cat([F.linear(self._through(i, h[None]), head) for i, head in enumerate(heads)])

        return run.forward(compute, range(at, at + K))

    def _through(self, i: int, x: Tensor) -> Tensor:
        for weight, bias in self.blocks[i]:
            x = x + F.silu(F.linear(x, weight, bias))
        return x


class Hydra(Drafter):
    """Head i reads the state and the embeddings of the next token and of i guesses; Hydra++ (prefix-mlp) makes the
    state by one more decoder layer over the target's states of the whole text."""

    format, title = "hydra-heads", "Hydra heads"

    @staticmethod
    def like(shapes: Shapes) -> bool:
        """Its MLPs are among them."""
        return any(name.startswith("hydra_mlp.0.") for name in shapes)

    def __init__(self, checkpoint: Checkpoint, target: Any, t: Tensors) -> None:
        super().__init__(checkpoint, target, t)
        d, config, name = self.width, checkpoint.config, checkpoint.name
        self.reads = (self.num_layers,)
        if not config.get("grounded_heads", True) or config.get("hidden_state_offset", 0):
            raise UserError(
                f"'{name}' has grounded_heads={config.get('grounded_heads')} and hidden_state_offset="
                f"{config.get('hidden_state_offset')}; Hydra with grounded heads on the last state can be computed."
            )
        self.prefix = "prefix_embeding_layer.norm.weight" in t
        arch = config.get("hydra_head_arch", "prefix-mlp" if self.prefix else "mlp")
        if arch not in ("mlp", "prefix-mlp") or (arch == "prefix-mlp") != self.prefix:
            raise UserError(
                f"'{name}' says hydra_head_arch={arch!s:.20}, and its weights {'have' if self.prefix else 'lack'} a "
                "prefix layer; mlp (without) and prefix-mlp (with one) can be computed."
            )
        self.heads = self.k = count(checkpoint.shapes, "hydra_mlp.")
        self.blocks = [self._blocks(t, i, d) for i in range(self.heads)]
        self.own_heads = [self._head(t, i, d) for i in range(self.heads)]
        t.skip(["input_embed_fn.weight", "prefix_embeding_layer.embed_tokens.weight"])  # copies, never read
        if self.prefix:
            base = target.config.to_dict() if hasattr(target.config, "to_dict") else dict(vars(target.config))
            sizes = Sizes.of(base, d, name)
            self.stack = [Layer(t, "prefix_embeding_layer.layers.0.", sizes, d)]
            self.prefix_norm = t.take("prefix_embeding_layer.norm.weight", d)
            self.rotation, self.layers = Rotation(sizes, t.device), 1

    def _blocks(self, t: Tensors, i: int, d: int) -> list[tuple[Tensor, ...]]:
        """The residual blocks of head i: only the first has a map of its own for what it is added to."""
        at = f"hydra_mlp.{i}."
        indices = sorted(
            int(name[len(at) :].partition(".")[0])
            for name in t.checkpoint.shapes
            if name.startswith(at) and name.endswith(".linear.weight")
        )
        blocks: list[tuple[Tensor, ...]] = []
        for j in indices:
            wide = (i + 2) * d if j == indices[0] else d
            why = f"head {i + 1} reads a state and {i + 1} embeddings of a target that is {d} wide"
            tensors = [t.take(f"{at}{j}.linear.weight", d, wide, why=why), t.take(f"{at}{j}.linear.bias", d)]
            if f"{at}{j}.res_connection.weight" in t:
                tensors += [
                    t.take(f"{at}{j}.res_connection.weight", d, wide),
                    t.take(f"{at}{j}.res_connection.bias", d),
                ]
            blocks.append(tuple(tensors))
        return blocks

    def _head(self, t: Tensors, i: int, d: int) -> tuple[Tensor, Tensor | None]:
        at = next((prefix for prefix in (f"hydra_lm_head.{i}.1.", f"hydra_lm_head.{i}.") if f"{prefix}weight" in t), "")
        return t.take(f"{at or f'hydra_lm_head.{i}.'}weight", self.vocab_size, d), t.maybe(f"{at}bias", self.vocab_size)

    def pasts(self) -> Pasts:
        """What the prefix layer keeps of the text: nothing yet."""
        return Pasts(self.layers)

    def state(self, run: CountedDrafter, states: Tensor, pasts: Pasts) -> Tensor:
        """The state [d] that the heads read, from states [n, d] of new text: its last one, or what the prefix layer
        makes of them."""
        if not self.prefix:
            last: Tensor = states[-1]
            return last
        m, n = pasts.length, len(states)

        def compute() -> Tensor:
            at = torch.arange(m, m + n, device=states.device)
            x = self.through(states, pasts, at, causal(n, m, states.device))
            return self.stack[0].norm(x[-1:], self.prefix_norm)[0]

        return run.call(n, compute)

    def guess(self, run: CountedDrafter, i: int, h: Tensor, tokens: list[list[int]], at: int) -> Tensor:
        """Logits [n, V] of head i behind n paths, each the next token and i guesses (`tokens` [n][i + 1]), from the
        state h [d]; they speak of position `at`."""
        n = len(tokens)
        e = run.embed([token for path in tokens for token in path]).view(n, -1)
        x = cat([h.expand(n, -1), e], -1)

        weight, bias = self.own_heads[i]

        def compute() -> Tensor:
            y = x
            for block in self.blocks[i]:
                path = F.linear(y, block[2], block[3]) if len(block) > 2 else y
                y = path + F.silu(F.linear(y, block[0], block[1]))
            return F.linear(y, weight, bias)

        return run.forward(compute, [at] * n)
