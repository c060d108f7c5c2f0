"""What the draft model learns from: SmolLM2's own answers (`python -m engines.training smollm2-draft data`), with the
most probable tokens of every position.

One line of JSON per answer in the user's cache: class, prompt, temperature, ids (of the answer, its end token included
where it came) and, in base64, `top_ids` uint16 [n, 16] and `top_logprobs` float16 [n, 16] at temperature 1, most
probable first. A second start adds to what is there.
Shapes: B rows of a batch, n tokens of an answer, V vocabulary.
"""

from __future__ import annotations

import base64
import json
import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from transformers import AttentionInterface

from engines.core.errors import UserError
from engines.core.machine import computes_bfloat16
from engines.models.files.smollm2 import cache_folder
from engines.models.layers.slots import SlotCache
from engines.training.smollm2.draft_prompts import draw
from engines.training.tiny.stories import stories_file

TOP, NEW_TOKENS, PROMPTS_PER_BATCH, POOL = 16, 112, 22, 6
TEMPERATURES, COPIES = (0.6, 0.8, 1.0), 3  # every prompt is answered greedily and at two of these
MAGPIE = (
    0.2  # share of prompts that the model writes itself (Magpie: nothing but the opening of a user's turn is given)
)
LONGEST_PROMPT = 160


def answers_file() -> Path:
    """Where the answers are kept."""
    return cache_folder().parent / "draft" / "answers.jsonl"


def story_texts() -> list[str]:
    """Short stories to ask about, from the corpus of the tiny models where it was made; otherwise none."""
    if not stories_file().is_file():
        return []
    return [json.loads(line)["text"] for line in stories_file().read_text().splitlines()]


def grouped_attention(
    module: Any, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor, scaling: float, **_: Any
) -> tuple[Tensor, None]:
    """For one new row per sequence, the query heads that share keys as rows of one head: no copies of the keys, a
    quarter of the time on a CPU."""
    batch, heads, n, size = query.shape
    if n == 1:
        query = query.reshape(batch, key.shape[1], -1, size)
    out = nn.functional.scaled_dot_product_attention(
        query, key, value, attn_mask=attention_mask, scale=scaling, enable_gqa=n > 1
    )
    return out.reshape(batch, heads, n, size).transpose(1, 2).contiguous(), None


AttentionInterface.register("grouped", grouped_attention)


class Writer:
    """The target with its tokenizer, writing many answers at once."""

    def __init__(self, model: Any, tokenizer: Any, seed: int) -> None:
        self.model, self.tokenizer = model, tokenizer
        self.random, self.generator = random.Random(seed), torch.Generator().manual_seed(seed)
        self.stories = story_texts()
        self.end = int(tokenizer.eos_token_id)
        self.own: list[str] = []

    def batches(self) -> Iterator[list[dict[str, Any]]]:
        """Endless batches of answers to new prompts, prompts of similar length together."""
        while True:
            pool = [draw(self.random, self.stories) for _ in range(POOL * PROMPTS_PER_BATCH)]
            own = self._magpie(round(len(pool) * MAGPIE))
            pool[: len(own)] = [("magpie", prompt) for prompt in own]
            asked = sorted(
                (len(ids), name, prompt, ids)
                for name, prompt in pool
                if len(ids := self.chat(prompt)) <= LONGEST_PROMPT
            )
            groups = [asked[i : i + PROMPTS_PER_BATCH] for i in range(0, len(asked), PROMPTS_PER_BATCH)]
            for group in self.random.sample(groups, len(groups)):
                yield self._answer(group)

    def _answer(self, asked: list[tuple[int, str, str, list[int]]]) -> list[dict[str, Any]]:
        heats = [t for _ in asked for t in (0.0, *sorted(self.random.sample(TEMPERATURES, COPIES - 1)))]
        answers = self.write([ids for _, _, _, ids in asked], torch.tensor(heats), NEW_TOKENS)
        owners = [(name, prompt) for _, name, prompt, _ in asked for _ in range(COPIES)]
        return [
            {"class": name, "prompt": prompt, "temperature": heat, **answer}
            for (name, prompt), heat, answer in zip(owners, heats, answers, strict=True)
        ]

    def prompts(self) -> Iterator[tuple[str, list[int]]]:
        """Endless prompts with their ids, none of them written by the model itself."""
        while True:
            _, prompt = draw(self.random, self.stories)
            if len(ids := self.chat(prompt)) <= LONGEST_PROMPT:
                yield prompt, ids

    def chat(self, prompt: str) -> list[int]:
        """The ids of a prompt in the chat template."""
        turn = [{"role": "user", "content": prompt}]
        return list(self.tokenizer.apply_chat_template(turn, add_generation_prompt=True, return_dict=False))

    def _magpie(self, count: int) -> list[str]:
        """Up to `count` prompts that the model wrote: whole turns of at least three words, made in bulk."""
        if len(self.own) < count:
            turn = [{"role": "user", "content": "\n"}]
            opening = self.tokenizer.apply_chat_template(turn, tokenize=False).rpartition("\n\n")[0] + "\n"
            answers = self.write(
                [list(self.tokenizer(opening, add_special_tokens=False)["input_ids"])],
                torch.ones(COPIES * PROMPTS_PER_BATCH),
                40,
                keep_top=False,
            )
            texts = [
                self.tokenizer.decode(a["ids"], skip_special_tokens=True).strip()
                for a in answers
                if a["ids"][-1] == self.end
            ]
            self.own += [text for text in texts if len(text.split()) >= 3]
        taken, self.own = self.own[:count], self.own[count:]
        return taken

    @torch.inference_mode()
    def write(
        self, prompts: list[list[int]], heats: Tensor, new_tokens: int, keep_top: bool = True
    ) -> list[dict[str, Any]]:
        """Answers at temperatures `heats` [B]; B is a multiple of the prompts, each is answered B / len(prompts) times.
        Rows that end leave the batch."""
        copies, longest = len(heats) // len(prompts), max(map(len, prompts))
        cache = SlotCache(self.model.config.num_hidden_layers, longest + new_tokens)
        hidden, pad = self._prefill(prompts, longest, cache)
        spread = torch.arange(len(prompts)).repeat_interleave(copies)
        pad, hidden = pad[spread], hidden[spread]
        _select(cache, spread)
        rows = torch.arange(len(heats))
        out: list[dict[str, list[Any]]] = [{"ids": [], "top_ids": [], "top_logprobs": []} for _ in heats]
        for step in range(new_tokens):
            logits = self.model.lm_head(hidden).float()
            tokens, ids, logprobs = self._choose(logits, heats[rows])
            for i, row in enumerate(rows.tolist()):
                out[row]["ids"].append(int(tokens[i]))
                if keep_top:
                    out[row]["top_ids"].append(ids[i].numpy())
                    out[row]["top_logprobs"].append(logprobs[i].numpy())
            going = (tokens != self.end).nonzero()[:, 0]
            if len(going) == 0 or step == new_tokens - 1:
                break
            if len(going) < len(rows):
                rows, tokens, pad = rows[going], tokens[going], pad[going]
                _select(cache, going)
            hidden = self._step(tokens, pad, cache)
        return [
            {"ids": o["ids"], **{key: pack(np.stack(o[key]), key) for key in ("top_ids", "top_logprobs") if keep_top}}
            for o in out
        ]

    def _prefill(self, prompts: list[list[int]], longest: int, cache: SlotCache) -> tuple[Tensor, Tensor]:
        """(hidden [P, d] of the last tokens, left padding [P]) of P prompts, now in the cache."""
        pad = torch.tensor([longest - len(p) for p in prompts])
        ids = torch.tensor([[0] * (longest - len(p)) + p for p in prompts])
        columns = torch.arange(longest)
        sees = (columns[None, :] <= columns[:, None]) & (columns >= pad[:, None])[:, None, :]
        sees |= torch.eye(longest, dtype=torch.bool)  # a padding row sees itself, or its softmax would be undefined
        mask = torch.zeros(sees.shape, dtype=self.model.dtype).masked_fill_(~sees, torch.finfo(self.model.dtype).min)
        places = (columns - pad[:, None]).clamp(min=0)
        out = self.model.model(input_ids=ids, position_ids=places, attention_mask=mask[:, None], past_key_values=cache)
        return out.last_hidden_state[
            :, -1
        ].contiguous(), pad  # a strided slice makes torch's bf16 product two hundred times slower

    def _step(self, tokens: Tensor, pad: Tensor, cache: SlotCache) -> Tensor:
        """Feed one token [B] per row; hidden [B, d]."""
        past = cache.length
        mask = torch.zeros(len(tokens), past + 1, dtype=self.model.dtype)
        mask.masked_fill_(torch.arange(past + 1) < pad[:, None], torch.finfo(mask.dtype).min)
        out = self.model.model(
            input_ids=tokens[:, None],
            position_ids=(past - pad)[:, None],
            attention_mask=mask[:, None, None],
            past_key_values=cache,
        )
        return out.last_hidden_state[:, -1].contiguous()

    def _choose(self, logits: Tensor, heats: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """(tokens [B], top ids [B, 16], their log-probabilities) of logits [B, V]."""
        top, ids = logits.topk(TOP)
        logprobs = top - logits.logsumexp(-1, keepdim=True)
        tokens = ids[:, 0].clone()
        warm = heats > 0
        if (
            warm.any()
        ):  # by the inverse of the cumulated distribution: torch.multinomial takes longer than the forward here
            cumulated = (logits[warm] / heats[warm, None]).softmax(-1).cumsum(-1)
            drawn = torch.rand(len(cumulated), 1, generator=self.generator) * cumulated[:, -1:]
            tokens[warm] = torch.searchsorted(cumulated, drawn)[:, 0].clamp(max=logits.shape[1] - 1)
        return tokens, ids, logprobs


def _select(cache: SlotCache, rows: Tensor) -> None:
    """Keep, or repeat, rows of the batch in a cache."""
    for layer in cache.layers:
        layer.keys, layer.values = layer.keys[rows], layer.values[rows]


def pack(values: np.ndarray, key: str) -> str:
    """An array as base64, in the small type of its key."""
    return base64.b64encode(values.astype(np.uint16 if key == "top_ids" else np.float16).tobytes()).decode()


def unpack(text: str, key: str) -> np.ndarray:
    """The array [n, 16] back."""
    return np.frombuffer(base64.b64decode(text), np.uint16 if key == "top_ids" else np.float16).reshape(-1, TOP)


def load_target() -> tuple[Any, Any]:
    """SmolLM2, in bfloat16 where the processor computes in it, and its tokenizer."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from engines.models.files.smollm2 import ensure

    folder, _ = ensure()
    dtype = torch.bfloat16 if computes_bfloat16() else torch.float32
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype).eval().requires_grad_(False)
    for parameter in model.parameters():
        parameter.data = parameter.data.clone()  # out of the mapped file, whose pages a busy machine drops
    model.set_attn_implementation("grouped")
    return model, AutoTokenizer.from_pretrained(folder)


def generate(minutes: float, seed: int) -> int:
    """Write answers until the minutes are over; adds to what is there. Returns how many tokens were written."""
    model, tokenizer = load_target()
    path = answers_file()
    path.parent.mkdir(parents=True, exist_ok=True)
    there = sum(1 for _ in path.open()) if path.is_file() else 0
    written, began = 0, time.monotonic()
    with path.open("a") as file:
        for answers in Writer(model, tokenizer, seed + there).batches():
            file.write("".join(json.dumps(answer) + "\n" for answer in answers))
            file.flush()
            written += sum(len(answer["ids"]) for answer in answers)
            print(f"{written:,} tokens in {(time.monotonic() - began) / 60:.1f} min", flush=True)
            if time.monotonic() - began > 60 * minutes:
                return written
    raise AssertionError("the batches are endless")


def read_answers(path: Path | None = None) -> list[dict[str, Any]]:
    """The answers with their arrays unpacked. Raises UserError, with what to do, where none were written."""
    path = path or answers_file()
    if not path.is_file():
        raise UserError(
            f"{path} is not there; write the answers first: python -m engines.training smollm2-draft data --minutes 22"
        )
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    return [row | {key: unpack(row[key], key) for key in ("top_ids", "top_logprobs")} for row in rows]
