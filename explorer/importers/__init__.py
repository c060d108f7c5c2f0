"""Records of other programs as traces. What a record does not hold is listed in the header's `missing` and shown as
"not recorded", never as zero.

One module per format; each names the documentation that it was written from. Nothing in a record is trusted or
executed."""

from typing import Any

from engines import Trace, TraceError, read_trace
from explorer.importers import diffusers_frames, llada_log, recorded, sglang, vllm
from explorer.importers.events import decoded

FORMATS = "vLLM, SGLang, diffusers and LLaDA's text log"
TRACE = "trace"


IMPORTERS: dict[str, Any] = {
    "vllm": vllm,
    "sglang": sglang,
    "diffusers": diffusers_frames,
    "llada-log": llada_log,
    "answer": recorded,
}
"""By its name the module of a format: `TITLE`; `looks`, whether something is such a record, and `read`, its trace."""
PLAIN = (llada_log, recorded)  # are given the text, the others the decoded JSON


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
        given = text if importer in PLAIN else body
        if importer.looks(given):
            trace: Trace = importer.read(given)
            return trace
    if name != "auto":
        raise TraceError(f"this is not a record of the format {name} ({IMPORTERS[name].TITLE}); formats are {known}.")
    try:
        return read_trace(text)
    except TraceError as error:
        if isinstance(body, dict) and "header" in body:  # a trace of ours, and something is wrong with it
            raise
        message = str(error).rstrip(".")
        raise TraceError(f"{message}; {recorded.HOW}.") from None
