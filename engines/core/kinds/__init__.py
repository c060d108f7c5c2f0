"""The kinds of models, one file each: what a method may ask of such a model (protocol), the model seen through the
meter (counted view), and the declaration that ties them together. A new kind is a new file here."""

import importlib
import pkgutil
from typing import Any

from engines.core.kinds.base import Counted, Extended, Kind, KVCache, Model, Tokenizer
from engines.core.kinds.block import BlockMaskedLM
from engines.core.kinds.canvas import CanvasLM
from engines.core.kinds.causal import CausalLM
from engines.core.kinds.layered import LayeredLM, Taps
from engines.core.kinds.masked import CachedMaskedLM, MaskedLM
from engines.core.kinds.reader import WordReaderLM
from engines.core.kinds.scene import SceneLM
from engines.core.kinds.seq2seq import Encoded, Mark, Seq2SeqLM
from engines.core.kinds.two_way import TwoWayLM
from engines.core.meter import Meter


def _declared() -> dict[str, Kind]:
    files = (module.name for module in pkgutil.iter_modules(__path__) if module.name != "base")
    kinds = [importlib.import_module(f"{__name__}.{file}").KIND for file in files]
    return {kind.name: kind for kind in kinds}


KINDS: dict[str, Kind] = _declared()


def kinds_of(model: Any) -> frozenset[str]:
    """The kinds that a loaded model satisfies: the one in its record, and those of this one's models with more to ask
    for that it has as well (most causal models are layered ones)."""
    own = model.record.kind
    return frozenset(
        {own, *(kind.name for kind in KINDS.values() if kind.of == own and isinstance(model, kind.protocol))}
    )


def counted(model: Model, role: str, meter: Meter, kind: str | None = None) -> Counted:
    """The model as a method sees it. kind: the one that the method asked for; by default the record's: a
    block-diffusion model also has everything that makes up a `MaskedLM`."""
    return KINDS[kind or model.record.kind].counted(model, role, meter)
