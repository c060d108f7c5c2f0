"""Drafts of a model that sees, trained on the same batches so that only their inputs and their pictures differ:
python -m engines.training vision-drafts MODEL (MSD's draft and three controls) and vision-compressor MODEL (ViSpec's).

One decoder layer reads the token behind row t and the target's last state at t, and learns that state at t + 1 by
smooth L1, and by soft cross-entropy of what the target's head says of it, on rows of answers only. The target is
frozen; its states are computed on the way. In every step there is a batch of words and a batch of pictures, and each
draft learns from one of them: `text` never from pictures, `mixed` and `fused` from either in turn, `growing` from words
alone in the first half of its steps and then from ever more pictures, as MSD does.

We depart in: both losses with weight 1 (released: cross-entropy 0.1 and, in ViSpec's first stage, a ranking loss), no
noise on the states, 300 steps; ViSpec's second stage on long answers and on the draft's own outputs is left out."""

from __future__ import annotations

import random
from argparse import ArgumentParser, Namespace
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import smooth_l1_loss

from engines.core.errors import UserError
from engines.core.machine import trained_on
from engines.driver.run import run as decode
from engines.methods.multimodal import msd, vispec
from engines.methods.multimodal._seen import Vision
from engines.models.loading.zoo import load_model
from engines.models.networks.scene_text import SceneTextForCausalLM
from engines.models.networks.vision_draft import VisionDraft
from engines.models.parts import folder_of
from engines.training.core.coding import convert
from engines.training.core.commands import PROGRAM, Command, flags, usual
from engines.training.core.data import IGNORED
from engines.training.core.loop import Loss, Training, Until, attention, checkpoint_file, restore, run
from engines.training.core.parts import install_part
from engines.training.core.text_cache import soft_cross_entropy
from engines.training.core.weights import read_weights
from engines.training.heads.drafters import scale
from engines.training.pictures.grid_scenes import Batch, batch_of, one_cycle

STEPS, BATCH, RATE = 300, 24, 2e-3
FIRST, DECODED = 100, 40  # held-out scenes behind the hundredth, by number
MSD = {
    "growing": ("decoupled", "growing"),
    "mixed": ("decoupled", "half"),
    "fused": ("fused", "half"),
    "text": ("fused", "text"),
}
VISPEC = {"compressed": ("compressed", "half")}


def pictured(diet: str, share: float, chance: float) -> bool:
    """Whether a draft of that diet learns from pictures where so much of its training is done; chance: drawn for the
    step."""
    return chance < {"text": 0.0, "half": 0.5, "growing": max(0.0, 2 * share - 1)}[diet]


class States:
    """What the frozen target makes of a batch: embeddings and last states [B, n, d] of all places, V visual rows, and
    which rows take the loss: those that foresee a state at which an answer's token is said, [B, n - 1]."""

    def __init__(self, target: SceneTextForCausalLM, batch: Batch) -> None:
        with torch.no_grad():
            self.e = batch.embedded(target)
            self.h = target.model(inputs_embeds=self.e, use_cache=False).last_hidden_state
        before = self.e.shape[1] - batch.ids.shape[1]  # places of the picture, <scene> with them
        self.V = max(0, before - 1)
        said = nn.functional.pad(batch.targets[:, 1:] != IGNORED, (before, 0))  # row t: the token t + 1 is learnt
        self.learnt = nn.functional.pad(
            said[:, 1:], (0, 1)
        )  # row t foresees the state at t + 1, which says the token t + 2


class Drafts(nn.Module):
    """Several drafts by name."""

    def __init__(self, plan: dict[str, tuple[str, str]], d: int, s: float, seed: int) -> None:
        super().__init__()
        for name, (way, _) in plan.items():
            torch.manual_seed(seed)  # equal starts
            self.add_module(name, VisionDraft(d, way, s))


class DraftsTraining(Training):
    """Some drafts on the same batches."""

    def __init__(self, name: str, plan: dict[str, tuple[str, str]], target: Any, seed: int, steps: int) -> None:
        super().__init__()
        self.name, self.plan, self.target, self.seed, self.steps = name, plan, target, seed, steps
        self.settings = repr((name, plan, seed, steps, BATCH, RATE))
        self.command = name
        E = target.model.embed_tokens.weight.detach()
        with torch.random.fork_rng(devices=[]):
            self.network = Drafts(plan, E.shape[1], scale(E[6:]), seed)
        self.optimizer = torch.optim.AdamW(self.network.parameters(), lr=RATE, betas=(0.9, 0.95), weight_decay=0.0)

    def batch(self, share: float) -> list[States]:
        """Words and pictures of a step, by its number; scenes that the target was trained on."""
        step = 10**6 + 4 * self.progress.step
        return [States(self.target, batch_of(self.seed, step + kind, BATCH)) for kind in (3, 0)]

    def loss(self, batch: list[States]) -> Loss:
        """The sum over the drafts; each has parameters of its own."""
        share, facts = self.progress.step / self.steps, dict[str, float]()
        chance, total = random.Random(f"{self.seed}/{self.progress.step}").random(), torch.zeros(())
        for name, (_, diet) in self.plan.items():
            value = self.one(self.network.get_submodule(name), batch[pictured(diet, share, chance)])
            facts[name], total = value.item(), total + value
        return Loss(total, sum(one.e.shape[0] * one.e.shape[1] for one in batch), facts=facts)

    def one(self, draft: Any, seen: States) -> Tensor:
        """Smooth L1 and soft cross-entropy of one draft."""
        F = foreseen(draft, seen)[seen.learnt]
        h = seen.h[:, 1:][seen.learnt]
        head = self.target.lm_head
        return smooth_l1_loss(F, h) + soft_cross_entropy(head(F), head(h))

    def rate(self, share: float) -> float:
        """One cycle, by the steps."""
        return one_cycle(RATE, self.progress.step / self.steps)

    def context(self) -> AbstractContextManager[None]:
        """float32."""
        return attention("cpu")


def foreseen(draft: VisionDraft, seen: States) -> Tensor:
    """States [B, n - 1, d] that a draft foresees from the true ones before; zeros at visual rows."""
    rows, at, _ = draft.sequence(seen.e[:, 1:], seen.h[:, :-1], seen.V)
    F = draft.through(rows, at=at)
    missing = seen.e.shape[1] - 1 - F.shape[1]
    return nn.functional.pad(F[:, F.shape[1] - (seen.e.shape[1] - 1 - seen.V) :], (0, 0, seen.V, 0)) if missing else F


@torch.no_grad()
def agreement(training: DraftsTraining, batches: int = 8) -> dict[str, dict[str, float]]:
    """On pictures of held-out scenes: how often a draft's first choice is the target's, from true states; by draft."""
    hits, rows = dict.fromkeys(training.plan, 0), 0
    for i in range(batches):
        seen = States(training.target, batch_of(10**6 + i, 0, BATCH, "held-out"))
        true = training.target.lm_head(seen.h[:, 1:][seen.learnt]).argmax(-1)
        rows += len(true)
        for name in training.plan:
            F = foreseen(training.network.get_submodule(name), seen)[seen.learnt]  # type: ignore[arg-type]
            hits[name] += int((training.target.lm_head(F).argmax(-1) == true).sum())
    return {name: {"rows": rows, "same_first_token": round(hit / rows, 4)} for name, hit in hits.items()}


def counted(slug: str, model: Any, params: dict[str, Any], scenes: int = DECODED) -> dict[str, Any]:
    """What a draft saves on captions of held-out scenes of three objects at temperature 0: drafted tokens accepted per
    check, tokens per forward of the target (the one that reads the prompt counts), and by class of words how many came
    from the draft."""
    accepted = checks = tokens = calls = 0
    classes: dict[str, list[int]] = {}
    for number in range(1, scenes + 1):
        trace = decode(slug, model, f"scene {FIRST + number}", params={"max_new_tokens": 48, **params})
        tokens, calls = tokens + trace.totals.tokens, calls + trace.totals.forwards_by_role["target"]
        for step in trace.steps:
            vision = step.record("vision", Vision)
            if not step.facts["drafted"] or step.commits is None or vision is None:
                continue
            checks, accepted = checks + 1, accepted + int(step.facts["accepted"])
            for cause, kind in zip(step.commits.causes, vision.kinds, strict=True):
                seen = classes.setdefault(kind, [0, 0])
                seen[0], seen[1] = seen[0] + (cause == "accepted"), seen[1] + 1
    return {
        "scenes": scenes,
        "checks": checks,
        "accepted_per_check": round(accepted / checks, 3),
        "tokens_per_forward": round(tokens / calls, 3),
        "from_the_draft": {kind: round(own / every, 3) for kind, (own, every) in sorted(classes.items())},
    }


def saved(model: Any, plan: dict[str, tuple[str, str]]) -> dict[str, Any]:
    """`counted` for each draft of a part that lies where a decoding looks for it, as a chain of four and as a tree."""
    own = {"chain_of_4": {"nodes": 4, "depth": 3, "top_k": 1}, "tree_of_15": {}}
    ways = {name: ("draft", name) for name in plan} if plan is MSD else dict.fromkeys(plan, ("compact", True))
    slug = (msd if plan is MSD else vispec).decode.info.slug
    return {
        name: {shape: counted(slug, model, {key: value, **params}) for shape, params in own.items()}
        for name, (key, value) in ways.items()
    }


def train(part: str, plan: dict[str, tuple[str, str]], a: Namespace) -> Path:
    """Train, and write the part with its card, in int8 by row. Returns its folder."""
    model: Any = load_model(a.model, kind="layered", dtype="float32")
    if not isinstance(model.model, SceneTextForCausalLM):
        raise UserError(
            f"{model.record.name} does not see; these drafts are trained for a model of scenes, such as tiny-vlm."
        )
    steps, out = a.steps or STEPS, a.out or folder_of(part, model.record.name)
    training = DraftsTraining(out.name, plan, model.model, a.seed, steps)
    training.command = f"{PROGRAM} {part} {model.record.name}" + flags([("seed", a.seed, 0), ("steps", steps, STEPS)])
    if a.resume:
        restore(training, checkpoint_file(out.name))
    progress = run(training, Until(steps), checkpoint=checkpoint_file(out.name))
    weights = {name: one.detach().bfloat16() for name, one in training.network.named_parameters()}
    found = agreement(training)
    card: dict[str, Any] = {
        "name": out.name,
        "kind": "drafts of a model that sees",
        "bases": {"target": model.record.sha256},
        "data": "scenes drawn by engines/tasks/grid_scenes.py, with captions, forms, and words in any order",
        "drafts": {name: {"way": way, "learnt_from": diet} for name, (way, diet) in plan.items()},
        "seed": a.seed,
        "parameters": sum(one.numel() for one in training.network.parameters()),
        "steps": progress.step,
        "tokens": progress.tokens,
        "minutes": round(progress.seconds / 60, 1),
        "cpu_minutes": round(progress.cpu_seconds / 60, 1),
        "machine": trained_on("cpu"),
        "held_out": {"in_float32": found},
        "licence": "Apache-2.0 (trained here, on pictures drawn here)",
        "command": training.command,
    }
    install_part(out, weights | dict(training.network.named_buffers()), card)
    convert(out, "int8")
    stored = read_weights(out)
    training.network.load_state_dict({name: stored[name].float() for name in training.network.state_dict()})
    card["held_out"] |= {"as_stored": agreement(training)}
    for measured in (False, True) if out == folder_of(part, model.record.name) else (False,):
        if measured:
            card["held_out"] |= {"captions": saved(model, plan)}
        install_part(out, weights | dict(training.network.named_buffers()), card)
        convert(out, "int8")
    checkpoint_file(out.name).unlink(missing_ok=True)
    print(card["held_out"], flush=True)
    return Path(out)


def _options(parser: ArgumentParser) -> None:
    parser.add_argument("model", help="tiny-vlm")
    usual(parser, "seed", "steps", "resume", "out")


def _run(part: str, plan: dict[str, tuple[str, str]], a: Namespace) -> None:
    print(train(part, plan, a))


def commands() -> dict[str, Command]:
    """One for each paper's drafts."""
    made = {"vision-drafts": ("MODEL's drafts that see, with their controls (MSD)", MSD)}
    made |= {"vision-compressor": ("MODEL's draft with compressed pictures (ViSpec)", VISPEC)}
    return {
        part: Command(about, str(__doc__), _options, partial(_run, part, plan)) for part, (about, plan) in made.items()
    }
