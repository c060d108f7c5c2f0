"""Hooks on the two halves of a canvas model: an encoder that reads the prompt and finished canvases, a decoder that
reads the open one.

transformers' `generate` calls `model.forward`, past all hooks of the model itself. So they stand on what that calls:
the inner model, its encoder, and the output head, whose rows are capped here as the model caps them afterwards."""

from __future__ import annotations

import inspect
import time
from typing import TYPE_CHECKING, Any

from engines.core.errors import UserError
from engines.core.lazy import torch
from engines.core.meter import synchronise
from engines.watching.arguments import Unreadable, cache_length
from engines.watching.hooks import Call, Hooks

if TYPE_CHECKING:
    from engines.watching.canvas import CanvasReader


def has_halves(module: Any) -> bool:
    """Whether this is such a model: `model.encoder`, `model.decoder`, `lm_head`, and the length of its canvas."""
    inner = getattr(module, "model", None)
    parts = (getattr(inner, "encoder", None), getattr(inner, "decoder", None), getattr(module, "lm_head", None))
    known = isinstance(getattr(getattr(module, "config", None), "canvas_length", None), int)
    return known and all(isinstance(part, torch.nn.Module) for part in parts)


class CanvasHooks(Hooks):
    """The hooks of one canvas model. `close` is called when the loop has ended."""

    def __init__(self, role: str, module: Any, reader: CanvasReader) -> None:
        super().__init__(role, module, reader.before, reader.after)
        self._reader = reader
        self._encoding: Call | None = None

    def install(self) -> None:
        """Put the hooks on the parts. Raises UserError for another model, and for one that was compiled in place."""
        if not has_halves(self.module):
            raise UserError(
                f"role '{self.role}' has no encoder and decoder of canvases (`model.encoder`, `model.decoder`, "
                "`lm_head`, `config.canvas_length`); watch a DiffusionGemmaForBlockDiffusion, or choose another kind."
            )
        inner, head = self.module.model, self.module.lm_head
        parts = (self.module, inner, inner.encoder, head)
        if any(getattr(part, "_compiled_call_impl", None) is not None for part in parts):
            raise UserError(
                f"a part of role '{self.role}' was compiled in place (module.compile()), and nothing can be seen "
                "inside a compiled call; leave that out."
            )
        self._signature = inspect.signature(inner.forward)
        self._handles = [
            inner.register_forward_pre_hook(self._pre, with_kwargs=True),
            inner.encoder.register_forward_pre_hook(self._pre_encoder, with_kwargs=True),
            inner.encoder.register_forward_hook(self._post_encoder, with_kwargs=True),
            head.register_forward_hook(self._post, with_kwargs=True),
        ]

    def close(self) -> None:
        """The loop has ended."""
        if not self.fault:
            self._read(self._reader.close)

    def _pre_encoder(self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if self._blind():
            return
        entered, ids = time.perf_counter(), args[0] if args else kwargs.get("input_ids")
        past: Any = kwargs.get("past_key_values")
        call = self._read(lambda: self._call(ids, past, entered, "the encoder"))
        if call is not None:
            call.forward = False
            self._read(lambda: self._reader.encoding(call))
        self._encoding = call
        if call is not None:
            call.began = time.perf_counter()

    def _post_encoder(self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
        call, self._encoding = self._encoding, None
        if self._blind() or call is None:
            return
        synchronise(str(next(self.module.parameters()).device))
        call.ended = time.perf_counter()
        self._read(lambda: self._reader.encoded(call))
        call.left = time.perf_counter()

    def _pre(self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if self._blind():
            return
        entered, self._open = time.perf_counter(), None
        given = self._arguments(args, kwargs)
        call = self._read(lambda: self._call(given.get("decoder_input_ids"), None, entered, "the decoder"))
        if call is None:
            return
        call.given = given
        if given.get("input_ids") is None:  # else the encoder comes first, and the canvas behind it
            self._look(call)
        self._open, call.began = call, time.perf_counter()

    def _look(self, call: Call) -> None:
        self._read(lambda: self._reader.before(call, call.given.get("past_key_values")))
        call.facts["looked"] = True

    def _post(self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
        call, self._open = self._open, None
        if self._blind() or call is None:
            return
        synchronise(str(output.device))
        call.ended = time.perf_counter()
        if "looked" not in call.facts:
            self._look(call)
        if not self.fault:
            z, cap = output.detach()[0].to(torch.float32), getattr(self.module, "final_logit_softcapping", None)
            logits = z if not cap else torch.tanh(z / cap) * cap  # as the model makes them of the head's rows [1, L, V]
            self._read(lambda: self._reader.after(call, logits, None))
        call.given = {}  # nothing of the loop is kept alive
        call.left = time.perf_counter()

    def _blind(self) -> bool:
        return torch.compiler.is_compiling() or bool(self.fault)

    def _call(self, ids: Any, cache: Any, entered: float, what: str) -> Call:
        if not torch.is_tensor(ids) or ids.ndim != 2:
            raise Unreadable(f"{what} was called without token ids, so its text cannot be seen.")
        if len(ids) != 1:
            raise Unreadable(
                f"{len(ids)} canvases were decoded at once, and one can be followed; decode the prompts one by one."
            )
        n, held = int(ids.shape[1]), cache is not None
        call = Call(self.role, {}, ids.detach().cpu(), cache_length(cache), None, None, entered, 1, n, held)
        call.facts["device"] = ids.device
        return call
