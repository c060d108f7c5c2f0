"""What a server may be asked, and what it says about itself."""

from typing import Any

from engines import UserError, texts
from explorer.importers.answers import FORMATS, MAX_TOP, Format
from explorer.importers.build import short

MAX_PROMPT = 200_000  # characters
MAX_TOKENS = 8192
MAX_SECONDS = 600.0
COUNTERS = ("vllm:spec_decode_num_drafts", "vllm:spec_decode_num_draft_tokens", "vllm:spec_decode_num_accepted_tokens")


def interface(name: str) -> Format:
    """A reader for an answer of this interface. Raises UserError for one that is not known."""
    if name not in FORMATS:
        raise UserError(f"the interface '{str(name)[:40]}' is not known; choose one of {', '.join(FORMATS)}.")
    return FORMATS[name]()


def check(prompt: object, max_tokens: object, top: object, temperature: object, patience: float, most: float) -> None:
    """Raises UserError for what no server is asked."""
    if not isinstance(prompt, str) or not prompt.strip():
        raise UserError("the prompt is empty; type what the server shall answer.")
    if len(prompt) > MAX_PROMPT:
        raise UserError(f"the prompt has {len(prompt):,} characters; at most {MAX_PROMPT:,} are sent.")
    for name, count, low, high in (("max tokens", max_tokens, 1, MAX_TOKENS), ("top", top, 0, MAX_TOP)):
        if type(count) is not int or not low <= count <= high:
            raise UserError(f"{name}={str(count)[:40]} is not allowed; give a whole number from {low} to {high}.")
    for name, value, least, most_of_it in (
        ("temperature", temperature, 0.0, 5.0),
        ("patience", patience, 0.1, 3600.0),
        ("seconds", most, 0.1, 86400.0),
    ):
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not least <= value <= most_of_it:
            raise UserError(f"{name}={str(value)[:40]} is not allowed; give a number from {least:g} to {most_of_it:g}.")


def which(listed: Any, model: str, host: str) -> tuple[str, str]:
    """(who runs the server, the model to ask for). Raises UserError where a model has to be chosen."""
    data = listed.get("data") if isinstance(listed, dict) else None
    entries = [entry for entry in data if isinstance(entry, dict)] if isinstance(data, list) else []
    names = [entry["id"] for entry in entries if isinstance(entry.get("id"), str)]
    owners = [entry["owned_by"] for entry in entries if isinstance(entry.get("owned_by"), str)]
    owner = short(owners[0])[:40] if owners else ""
    if model or len(names) == 1:
        return owner, model or names[0]
    if not names:
        return owner, ""
    some = ", ".join(short(name)[:60] for name in names[:8])
    raise UserError(
        f"{host} offers {len(names)} models; choose one with --model: {some}{' …' if len(names) > 8 else ''}."
    )


def counters(text: str) -> dict[str, float]:
    """The sums of vLLM's counters of speculation in a page of metrics."""
    sums: dict[str, float] = {}
    for line in texts.lines(text)[:20_000]:
        name, _, value = line.rpartition(" ")
        name = name.partition("{")[0].removesuffix("_total")
        if name in COUNTERS:
            try:
                sums[name] = sums.get(name, 0.0) + float(value)
            except ValueError:
                continue
    return sums
