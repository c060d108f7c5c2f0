"""What the trainings of draft heads on Medusa's text cache share: ridge start, training, marks on held-out prompts, the
part with its card, and what the part saves: tokens per model call, beside the control of the family.

A module says what is trained (a `DraftTraining`), what it is measured against, and makes its command with `command`."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

from engines.core.errors import UserError
from engines.core.machine import trained_on
from engines.core.statistics import bootstrap
from engines.driver.run import run as decode
from engines.models.loading.zoo import load_model
from engines.models.parts import folder_of
from engines.training.core.coding import convert
from engines.training.core.commands import PROGRAM, Command, flags
from engines.training.core.head import HeadTraining
from engines.training.core.loop import Until, checkpoint_file, restore, run
from engines.training.core.parts import install_part
from engines.training.core.text_cache import Teacher, Text, TextCache
from engines.training.core.weights import WEIGHTS, read_weights
from engines.training.heads.medusa import LARGE, RIDGE_ROWS, coverage, options, vocabulary_of
from engines.training.heads.own_text import cache_of

DEFAULTS = {"epochs": 3, "minutes": 8.0, "seed": 0}
RANKS, PROMPTS, FEW, LENGTH = 10, 40, 12, 48  # FEW prompts where the model is large
LARGEST = 7_000_000  # bytes of a part in the repository; a larger one is stored in int8 by row


class DraftTraining(HeadTraining):
    """A drafter that learns from a model's own answers. kind: what the card calls it. begins: what it is before the
    first step. facts: what the card says of it besides. as_int8: whether it is stored in int8 by row, however small it
    is."""

    kind = ""
    begins = "ridge_alone"
    as_int8 = False
    facts: Mapping[str, Any] = {}
    reads: tuple[int, ...] = ()  # states that it reads besides the last ones
    draft_vocabulary = 0  # tokens that it drafts, the most frequent of the answers; 0: all where the model is small

    @classmethod
    def vocabulary(cls, cache: TextCache, model: Any) -> Tensor | None:
        """The ids [v] of what it drafts, None for all tokens."""
        if cls.draft_vocabulary:
            return cache.frequent(cls.draft_vocabulary, model.vocab_size, model.eos_ids)
        return vocabulary_of(cache, model.vocab_size, model.eos_ids)

    def start(self) -> None:
        """Fill what ridge regression can fill."""
        raise NotImplementedError

    def accuracy(self) -> tuple[Tensor, int]:
        """(a [.., RANKS], rows): on held-out prompts, how often guess r of each head is the token that the text
        has."""
        raise NotImplementedError

    def marks(self) -> dict[str, Tensor]:
        """What else the card says of held-out prompts."""
        return {}

    def first_texts(self) -> list[Text]:
        """Those whose rows a ridge regression takes."""
        texts, rows = [], 0
        for text in self.cache.texts(self.layers, seed=self.seed):
            texts.append(text)
            rows += len(text.rows())
            if rows >= RIDGE_ROWS:
                break
        return texts

    def tensors(self) -> dict[str, Tensor]:
        """What the part keeps: weights in bfloat16, buffers as they are."""
        weights = {name: one.detach().bfloat16() for name, one in self.network.named_parameters()}
        return weights | dict(self.network.named_buffers())


class Make(Protocol):
    """A class of such a training."""

    reads: tuple[int, ...]

    def vocabulary(self, cache: TextCache, model: Any) -> Tensor | None:
        """See `DraftTraining`."""

    def __call__(self, name: str, model: Any, cache: TextCache, teacher: Teacher, seed: int) -> DraftTraining:
        """A training that begins."""
        ...


Calls = Callable[[Any, Sequence[list[int]]], Mapping[str, Any]]  # of a model, on prompts


class Counted(NamedTuple):
    """What a run on one prompt took: tokens written, calls of the target, layer-rows of all roles."""

    tokens: int
    calls: int
    work: int


def counted(slug: str, model: Any, prompts: Sequence[list[int]], params: Mapping[str, Any] | None) -> list[Counted]:
    """Each prompt by itself, with up to LENGTH tokens at temperature 0; the call that reads the prompt counts."""
    found, given = list[Counted](), {"max_new_tokens": LENGTH, **(params or {})}
    for prompt in prompts:
        totals = decode(slug, model, prompt, params=given, detail="light").totals
        found.append(Counted(totals.tokens, totals.forwards_by_role["target"], sum(totals.work_by_role.values())))
    return found


def rate(rows: Sequence[Counted]) -> float:
    """Tokens per call of the target, over all prompts together."""
    return sum(row.tokens for row in rows) / max(1, sum(row.calls for row in rows))


def tokens_per_call(
    name: str, slug: str, model: Any, prompts: Sequence[list[int]], params: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Under `name` the tokens written per call of the target, under name_95 their 95 % interval over prompts that are
    drawn again with replacement."""
    rows = counted(slug, model, prompts, params)
    return {name: round(rate(rows), 4), f"{name}_95": [round(end, 2) for end in bootstrap(rows, rate)]}


def cost_per_token(
    slug: str, model: Any, prompts: Sequence[list[int]], params: Mapping[str, Any] | None = None
) -> float:
    """Layer-rows (rows times layers that they went through) for each token written; those that read the prompts
    count."""
    rows = counted(slug, model, prompts, params)
    return round(sum(row.work for row in rows) / max(1, sum(row.tokens for row in rows)), 2)


def rounded(a: Tensor) -> Any:
    """A tensor as nested lists with four decimals."""
    return [rounded(one) for one in a] if a.ndim else round(float(a), 4)


def installed(out: Path, state: Mapping[str, Tensor], card: Mapping[str, Any], as_int8: bool = False) -> bool:
    """Write the part, in int8 where that is asked for or it would be too large; whether it was."""
    install_part(out, state, card)
    if coded := as_int8 or (out / WEIGHTS).stat().st_size > LARGEST:
        convert(out, "int8")
    return coded


def train(
    make: Make,
    calls: Calls,
    model: Any,
    cache: TextCache,
    out: Path,
    *,
    usual: Path,
    resume: bool,
    command: str,
    epochs: int,
    minutes: float,
    seed: int,
) -> Path:
    """Train and measure; writes the part into `out`. Tokens per call are measured where that is the folder in which a
    decoding looks for it, `usual`. Returns `out`."""
    ids = make.vocabulary(cache, model)
    training = make(out.name, model, cache, Teacher(model.model.get_output_embeddings().weight, ids), seed)
    training.command, file = command, checkpoint_file(out.name)
    training.start()
    began = training.accuracy()[0]
    print(training.begins, rounded(began[..., 0]), flush=True)
    if resume and file.is_file():
        restore(training, file)
    run(training, Until(epochs * training.per_epoch // training.texts_per_step, minutes), checkpoint=file)
    (a, rows), progress = training.accuracy(), training.progress
    state = training.tensors() | {"accuracy": a} | ({} if ids is None else {"vocabulary": ids.int()})
    held_out: dict[str, Any] = {
        "rows": rows,
        f"rank_1_{training.begins}": rounded(began[..., 0]),
        "rank_1": rounded(a[..., 0]),
        "top_4": rounded(a[..., :4].sum(-1)),
    }
    card = {
        "name": out.name,
        "kind": training.kind,
        "bases": {"target": model.record.sha256},
        "data": f"{training.per_epoch} answers of {model.record.name} (the text cache), {len(cache.files)} shards",
        "seed": seed,
        **training.facts,
        "parameters": sum(one.numel() for name, one in training.network.named_parameters() if name in state),
        "steps": progress.step,
        "tokens": progress.tokens,
        "minutes": round(progress.seconds / 60, 1),
        "cpu_minutes": round(progress.cpu_seconds / 60, 1),
        "machine": trained_on("cpu"),
        "draft_vocabulary": None if ids is None else {"tokens": len(ids), "covers": round(coverage(cache, ids), 4)},
        "held_out": held_out,
        "licence": "Apache-2.0 (trained here, on what the model wrote)",
        "command": command,
    }
    if installed(out, state, card, training.as_int8):
        stored = read_weights(out)
        kept = {name: stored[name].float() for name in training.network.state_dict() if name in stored}
        training.network.load_state_dict(kept, strict=False)  # a control too large to ship stays as it was
        held_out |= {"rank_1_in_bfloat16": held_out["rank_1"], "rank_1": rounded(training.accuracy()[0][..., 0])}
    held_out |= {name: rounded(one) for name, one in training.marks().items()}
    if out == usual:
        some = islice(cache.texts((), held_out=True), FEW if model.vocab_size > LARGE else PROMPTS)
        asked = [text.tokens[: text.prompt].tolist() for text in some]
        held_out["tokens_per_target_call"] = {
            "asked": f"the first {len(asked)} held-out prompts of the text cache, temperature 0",
            **calls(model, asked),
        }
        installed(out, state, card, training.as_int8)
    print(held_out, flush=True)
    file.unlink(missing_ok=True)
    return out


def _run(name: str, make: Make, calls: Calls, a: Namespace) -> None:
    if a.epochs < 1 or a.minutes <= 0:
        raise UserError(f"--epochs {a.epochs} --minutes {a.minutes:g} trains nothing; give numbers above 0.")
    model: Any = load_model(a.model, kind="layered", dtype="float32")
    given = {key: getattr(a, key) for key in DEFAULTS}
    said = f"{PROGRAM} {name} {model.record.name}" + flags((n, v, DEFAULTS[n]) for n, v in given.items())
    cache, usual = cache_of(model, a.seed, a.cache, make.reads), folder_of(name, model.record.name)
    print(train(make, calls, model, cache, a.out or usual, usual=usual, resume=a.resume, command=said, **given))


def command(name: str, about: str, text: str, make: Make, calls: Calls) -> dict[str, Command]:
    """The command that trains and measures the part `name` of a model."""
    return {name: Command(about, text, lambda parser: options(parser, DEFAULTS), partial(_run, name, make, calls))}


def embeddings(model: Any) -> Tensor:
    """A model's embeddings [V, d] in float32."""
    E: Tensor = model.model.get_input_embeddings().weight.detach().float()
    return E


def scale(E: Tensor) -> float:
    """What brings embeddings to a root mean square of 1."""
    return 1 / float(E.square().mean().sqrt())


def hits(teacher: Teacher, F: Tensor, true: Tensor) -> Tensor:
    """How often guess r at states F [m, d] is the true token [m]: [RANKS]."""
    guesses = teacher.ids[teacher.logits(F).topk(RANKS).indices]
    return (guesses == true[:, None]).sum(0).to(torch.float32)
