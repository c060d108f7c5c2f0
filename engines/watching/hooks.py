"""Hooks around the forwards of a torch module: what goes in, what comes out, when; nothing is changed.

A hook never raises: whatever it cannot read becomes a sentence (`Hooks.fault`) and the loop goes on. While torch
compiles, a hook does nothing, so a compiled graph is what it would have been."""

import inspect
import time
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from engines.core.errors import UserError
from engines.core.lazy import Tensor, torch
from engines.core.meter import synchronise
from engines.watching.arguments import (
    Unreadable,
    cache_length,
    cache_of,
    check_rows,
    find_ids,
    given_to_decoder,
    logits_of,
    place_of,
    positions_of,
)

MOST_LABELS = 8  # caches whose branch is remembered


@dataclass
class Call:
    """One forward. ids [B, n] on the CPU, None where embeddings were fed. past: rows in the cache before, 0 without
    one, None where the cache does not tell. cached: whether a cache is among the arguments. positions [B, n] where
    they were given. place: where on the board the rows belong, where the call says it. rows, columns: of the logits, 0
    of a draft's call without any. aside:
    whether this is the other half of guidance, behind a cache of its own; branch: `aside` of the call that used this
    cache before, None for a cache that was not seen. forward: False for one that gives no tokens and is not counted, of
    an encoder. layers: of the module, and depth: that ran; layer_rows: rows
    that they computed, summed; 0 where layers cannot be seen. Times are those of time.perf_counter: `entered` and
    `left` enclose the hooks' own work, `began` and `ended` the forward alone."""

    role: str
    given: dict[str, Any]
    ids: Tensor | None
    past: int | None
    positions: Tensor | None
    place: int | None
    entered: float
    batch: int = 1
    n: int = 0
    cached: bool = False
    branch: bool | None = None
    aside: bool = False
    forward: bool = True
    rows: int = 0
    columns: int = 0
    layers: int = 0
    depth: int = 0
    layer_rows: int = 0
    began: float = 0.0
    ended: float = 0.0
    left: float = 0.0
    facts: dict[str, Any] = field(default_factory=dict)

    @property
    def recorded(self) -> float:
        """Seconds that the hooks took."""
        return max(0.0, (self.began - self.entered) + (self.left - self.ended))


class Hooks:
    """The hooks of one module. before(call, cache) and after(call, logits, cache) read the forward; `fault` is the
    first sentence about what could not be read, after which nothing is read any more. decides: whether it is the module
    whose text or board is read; of one that drafts, a call without ids or logits is counted all the same."""

    def __init__(
        self,
        role: str,
        module: Any,
        before: Callable[[Call, Any], None],
        after: Callable[[Call, Any, Any], None],
        decides: bool = True,
    ) -> None:
        self.role, self.module, self.fault, self.decides = role, module, "", decides
        self._before, self._after = before, after
        self._signature: inspect.Signature | None = None
        self._handles: list[Any] = []
        self._open: Call | None = None
        self._layers = 0
        self._branches: list[tuple[weakref.ref[Any], bool]] = []  # caches, and `aside` of the call that used them last

    def install(self) -> None:
        """Put the hooks on the module. Raises UserError for one that runs its hooks inside a compiled graph."""
        if getattr(self.module, "_compiled_call_impl", None) is not None:
            raise UserError(
                f"the module of role '{self.role}' was compiled in place (module.compile()), and nothing can be seen "
                "inside a compiled call; leave that out, or watch what torch.compile(module) returns."
            )
        inner = getattr(self.module, "_orig_mod", self.module)
        try:
            self._signature = inspect.signature(inner.forward)
        except (TypeError, ValueError):
            self._signature = None
        self._handles = [
            self.module.register_forward_pre_hook(self._pre, with_kwargs=True),
            self.module.register_forward_hook(self._post, with_kwargs=True),
        ]
        layers = layers_in(self.module)
        self._layers = len(layers)
        self._handles += [layer.register_forward_pre_hook(self._layer, with_kwargs=True) for layer in layers]

    def close(self) -> None:
        """The loop has ended."""

    def remove(self) -> None:
        """Take the hooks away again."""
        for handle in self._handles:
            handle.remove()
        self._handles, self._open = [], None

    def _pre(self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if torch.compiler.is_compiling() or self.fault:
            return
        entered = time.perf_counter()
        self._open = None
        call = self._read(lambda: read_call(self.role, self._arguments(args, kwargs), entered, self.decides))
        if call is None:
            return
        held, call.layers = _object(cache_of(call.given)), self._layers
        known = (aside for reference, aside in self._branches if held is not None and reference() is held)
        call.branch = next(known, None)
        self._read(lambda: self._before(call, cache_of(call.given)))
        if call.ids is not None:
            synchronise(next((str(v.device) for v in call.given.values() if torch.is_tensor(v)), "cpu"))
        self._open, call.began = call, time.perf_counter()

    def _post(self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
        call, self._open = self._open, None
        if torch.compiler.is_compiling() or call is None or self.fault:
            return
        logits = self._read(lambda: logits_of(output, call.ids, self.decides))
        if logits is not None or not (self.decides or self.fault):
            if logits is not None:
                synchronise(str(logits.device))
                call.rows, call.columns, logits = int(logits.shape[-2]), int(logits.shape[-1]), logits.detach()
            call.ended = time.perf_counter()
            if self.decides:
                self._read(lambda: check_rows(call.given, call.rows))
            made = getattr(output, "past_key_values", None)
            held = cache_of(call.given)
            if not self.fault:
                self._read(lambda: self._after(call, logits, held if made is None else made))
            for cache in (held, made):
                self._remember(cache, call.aside)
        call.given = {}  # nothing of the loop is kept alive
        call.left = time.perf_counter()

    def _remember(self, cache: Any, aside: bool) -> None:
        held = _object(cache)
        if held is not None:
            others = [branch for branch in self._branches if branch[0]() is not None and branch[0]() is not held]
            self._branches = [*others[-MOST_LABELS:], (weakref.ref(held), aside)]

    def _layer(self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """One layer of the forward that is open."""
        call: Call | None = self._open
        given: Any = args[0] if args else kwargs.get("hidden_states")
        if call is not None and not torch.compiler.is_compiling() and torch.is_tensor(given) and given.ndim == 3:
            call.depth += 1
            call.layer_rows += given.shape[0] * given.shape[1]

    def _arguments(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        try:
            bound = dict(self._signature.bind_partial(*args, **kwargs).arguments) if self._signature else {}
        except TypeError:
            bound = {}
        named = {str(i): value for i, value in enumerate(args)} if not bound else {}
        arguments = named | bound | kwargs
        for value in [v for k, v in bound.items() if isinstance(v, dict) and k not in kwargs]:
            arguments |= value
        return arguments

    def _read(self, work: Callable[[], Any]) -> Any:
        try:
            with torch.no_grad():
                return work()
        except Unreadable as error:
            self.fault = str(error)
        except Exception as error:  # watching must never end the loop that is watched
            self.fault = f"a call of the model could not be read ({type(error).__name__}: {str(error)[:160]})."
        return None


def read_call(role: str, given: Mapping[str, Any], entered: float, decides: bool = True) -> Call:
    """What a forward was given. decides: whether it must be token ids, or embeddings."""
    ids = find_ids(given)
    embeds: Any = given_to_decoder(given, "inputs_embeds")
    if ids is None and embeds is None and not decides:  # states of the target
        embeds = next((v for v in given.values() if torch.is_tensor(v) and v.ndim == 3), torch.zeros(1, 1, 1))
    if ids is None and embeds is None:
        raise Unreadable(
            f"a call of role '{role}' holds no token ids; watch the module that is called with them (the language "
            "model, not a layer of it)."
        )
    shape = (ids if ids is not None else embeds[..., 0]).shape
    batch, n = (1, int(shape[0])) if len(shape) == 1 else (int(shape[0]), int(shape[1]))
    flat = None if ids is None else ids.detach().reshape(batch, n).cpu()
    return Call(
        role, dict(given), flat, cache_length(cache_of(given)), positions_of(given, batch, n), place_of(given, n),
        entered, batch, n, cache_of(given) is not None,
    )  # fmt: skip


def _object(cache: Any) -> Any:
    """What a cache can be known again by without keeping it alive: itself, or what tuples and lists hold last."""
    while isinstance(cache, (tuple, list)) and cache:
        cache = cache[-1]
    return cache if hasattr(cache, "__weakref__") or torch.is_tensor(cache) else None


def layers_in(module: Any) -> list[Any]:
    """The transformer layers of a module, by the number that its config says; none of a compiled one, whose graph they
    are in."""
    wanted = layer_count(getattr(module, "config", None))
    if hasattr(module, "_orig_mod") or not wanted:
        return []
    lists = (
        submodule
        for submodule in module.modules()
        if isinstance(submodule, torch.nn.ModuleList) and len(submodule) == wanted
    )
    layers = list(next(lists, []))
    return [] if any(getattr(layer, "_compiled_call_impl", None) is not None for layer in layers) else layers


def layer_count(config: Any) -> int:
    """Transformer layers by a module's config, 0 where it does not say."""
    text = config.get_text_config() if hasattr(config, "get_text_config") else config
    for name in ("num_hidden_layers", "n_layers", "n_layer", "num_layers"):
        if isinstance(count := getattr(text, name, None), int):
            return count
    return 0
