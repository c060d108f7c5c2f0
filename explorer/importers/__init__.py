"""Records of other programs as traces. What a record does not hold is listed in the header's `missing` and shown as
"not recorded", never as zero.

One module per format; each names the documentation that it was written from. Nothing in a record is trusted or
executed."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from engines import Trace, TraceError, read_trace
from explorer.importers import diffusers_frames, llada_log, recorded, sglang, vllm
from explorer.importers.events import decoded

FORMATS = "vLLM, SGLang, diffusers and LLaDA's text log"
TRACE = "trace"


@dataclass(frozen=True)
class Importer:
    """A format: how its records are recognised and read. `looks` and `read` get the decoded JSON, or the text where
    `plain`."""

    name: str
    title: str
    looks: Callable[[Any], bool]
    read: Callable[[Any], Trace]
    plain: bool = False


IMPORTERS = {
    importer.name: importer
    for importer in (
        Importer("vllm", "vLLM, per-request speculative metrics", vllm.looks, vllm.read),
        Importer("sglang", "SGLang, response statistics", sglang.looks, sglang.read),
        Importer(
            "diffusers",
            "diffusers, recorded canvases of a discrete diffusion pipeline",
            diffusers_frames.looks,
            diffusers_frames.read,
        ),
        Importer("llada-log", "LLaDA, text log of its boards", llada_log.looks, llada_log.read, plain=True),
        Importer("answer", "a server's saved answer that names its tokens", recorded.looks, recorded.read, plain=True),
    )
}


def import_trace(text: str, name: str = "auto") -> Trace:
    """The trace in a record. `name`: auto, trace (our own) or a format. Raises TraceError with one sentence that says
    what is wrong."""
    text = text.removeprefix("\ufeff")  # as an editor on Windows writes it
    if name == TRACE:
        return read_trace(text)
    known = ", ".join(("auto", TRACE, *IMPORTERS))
    if name != "auto" and name not in IMPORTERS:
        raise TraceError(f"the format '{name[:40]}' is not known; choose one of {known}.")
    body = decoded(text)
    for importer in IMPORTERS.values() if name == "auto" else (IMPORTERS[name],):
        given = text if importer.plain else body
        if importer.looks(given):
            return importer.read(given)
    if name != "auto":
        raise TraceError(f"this is not a record of the format {name} ({IMPORTERS[name].title}); formats are {known}.")
    try:
        return read_trace(text)
    except TraceError as error:
        if isinstance(body, dict) and "header" in body:  # a trace of ours, and something is wrong with it
            raise
        message = str(error).rstrip(".")
        raise TraceError(f"{message}; {recorded.HOW}.") from None
