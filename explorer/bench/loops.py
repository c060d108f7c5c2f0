"""The loops that write one answer in turns: runs of ours, and transformers' `generate`, which is held between turns."""

import threading
import time
from collections.abc import Sequence
from typing import Any, Literal

import engines
from engines import UserError

REFERENCE = "transformers' generate"
PATIENCE = 600.0  # seconds in which a turn of the reference ends, or it never will


class Engine:
    """A run of ours."""

    def __init__(self, slug: str, model: Any, ids: Sequence[int], length: int, detail: Literal["none", "full"]) -> None:
        self.name = slug if detail == "none" else f"{slug}, everything recorded"
        self._keeps, self._written = detail == "full", 0
        self._run = engines.stream(slug, model, list(ids), params={"max_new_tokens": length}, detail=detail)
        self.header = self._run.header

    def advance(self, goal: int) -> tuple[float, int]:
        """Go on until `goal` tokens are written; returns (seconds, tokens written since the last call)."""
        began, before = time.perf_counter(), self._written
        while self._written < goal and next(self._run, None) is not None:
            self._written = self._run.answer_length
        return time.perf_counter() - began, self._written - before

    def recorded(self, sized: bool) -> tuple[float, int | None]:
        """(seconds spent recording so far, bytes of the trace so far if they are asked for); not timed."""
        size = len(self._run.trace().to_json()) if sized and self._keeps else None
        return self._run.end().record_seconds, size

    def tokens(self) -> list[int]:
        """What was written."""
        return self._run.end().output_ids

    def close(self) -> None:
        """Stop."""
        self._run.close()


class Reference:
    """transformers' `generate` in a thread of its own, held at its streamer between two turns."""

    name = REFERENCE

    def __init__(self, network: Any, ids: Sequence[int], length: int) -> None:
        import torch  # first used here: the page's start imports neither it nor transformers

        self._ids: list[int] = []
        self._goal, self._prompt, self._closed = 0, True, False
        self._go, self._there = threading.Event(), threading.Event()
        self._failure: BaseException | None = None
        options: dict[str, Any] = {
            "max_new_tokens": length,
            "do_sample": False,
            "eos_token_id": [network.config.get_text_config().vocab_size],  # none, so that nothing ends it
            "pad_token_id": 0,
            "repetition_penalty": 1.0,
        }
        given = torch.tensor([list(ids)], device=network.get_input_embeddings().weight.device)
        self._thread = threading.Thread(
            target=self._generate, args=(network, given, options, torch.get_num_threads()), daemon=True
        )
        self._thread.start()

    def _generate(self, network: Any, given: Any, options: dict[str, Any], threads: int) -> None:
        import torch

        torch.set_num_threads(threads)  # each thread of Python has its own number
        self._go.wait()
        try:
            if not self._closed:
                mask = torch.ones_like(given)
                network.generate(given, attention_mask=mask, streamer=self, **options)
        except _Closed:
            pass
        except BaseException as error:  # told where the turn is waited for
            self._failure = error
        self._there.set()

    def put(self, value: Any) -> None:
        """What `generate` gives its streamer: the prompt, then every token."""
        if self._prompt:
            self._prompt = False
            return
        self._ids += value.reshape(-1).tolist()
        if len(self._ids) >= self._goal:
            self._go.clear()
            self._there.set()
            self._go.wait()
        if self._closed:
            raise _Closed

    def end(self) -> None:
        """`generate` is over."""

    def advance(self, goal: int) -> tuple[float, int]:
        """As of `Engine`. Raises UserError where `generate` fails or does not come to an end."""
        before, self._goal = len(self._ids), goal
        self._there.clear()
        began = time.perf_counter()
        self._go.set()
        ended = self._there.wait(PATIENCE)
        seconds = time.perf_counter() - began
        if self._failure is not None or not ended:
            why = f"{type(self._failure).__name__}: {self._failure}" if self._failure else f"over {PATIENCE:g} s a turn"
            raise UserError(f"transformers' generate failed on this model ({why}); leave --length out.")
        return seconds, len(self._ids) - before

    def recorded(self, sized: bool) -> tuple[float, int | None]:
        """As of `Engine`: it records nothing."""
        return 0.0, None

    def tokens(self) -> list[int]:
        """As of `Engine`."""
        return list(self._ids)

    def close(self) -> None:
        """Stop."""
        self._closed = True
        self._go.set()
        self._thread.join(PATIENCE)


class _Closed(Exception):
    """Ends `generate` from within its streamer."""
