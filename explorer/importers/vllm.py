"""vLLM: a response whose `metrics.speculative_decoding` tells how many tokens were drafted and accepted, with the
arrays of `detailed` step by step.

Written from vLLM's documentation, docs/features/speculative_decoding/acceptance_metrics.md and
docs/features/per_request_metrics.md (documented for v0.32, where it is called experimental): `vllm serve ...
--per-request-spec-decode-metrics detailed`. The whole response of /v1/chat/completions or /v1/completions is read, or
its `metrics` alone. Token texts are there if the request asked for `logprobs`, ids if it asked for `return_token_ids`.

A verification step emits the accepted tokens and one more. Steps without a draft are left out of the record and the
first token comes from reading the prompt, so which token came from which step is known only where the counts add up
(derived: tokens = 1 + sum of accepted + steps, less what the limit cut from the last step)."""

from collections.abc import Sequence
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from engines import Trace, TraceError
from explorer.importers.build import (
    MAX_STEPS,
    MAX_TOKENS,
    Table,
    as_reported,
    convert,
    finite,
    part,
    step,
    trace,
    words,
)
from explorer.importers.choices import (
    SEVERAL,
    Token,
    behind,
    entry,
    fed,
    first_choice,
    named,
    number,
    numbered,
    spoken,
    token_id,
)
from explorer.importers.endings import ending, failure, finished

RESPONSE = "read from a response; only what the server reported is here"
TITLE = "vLLM, per-request speculative metrics"
SOURCE = "vLLM's per-request speculative metrics"
Count = Annotated[int, Meta(ge=0, le=10**9)]
TIMES = ("time_to_first_token_ms", "generation_time_ms", "queue_time_ms", "mean_itl_ms", "tokens_per_second")


class Speculation(msgspec.Struct):
    """`metrics.speculative_decoding`."""

    num_spec_steps: Count
    num_accepted_draft_tokens: Count
    num_draft_tokens: Count
    mean_acceptance_length: float | None = None
    draft_acceptance_rate: float | None = None
    acceptance_histogram: list[Count] = []
    num_spec_tokens: Count | None = None
    per_step_accepted: list[Count] | None = None
    per_step_drafted: list[Count] | None = None


def looks(body: Any) -> bool:
    """Whether the JSON holds such metrics, or is a list of responses whose first one does."""
    return _found(first(body)) is not None


def read(body: Any) -> Trace:
    """The trace of a response. Raises TraceError."""
    several, body = isinstance(body, list) and len(body) > 1, first(body)
    record = convert(_found(body), Speculation, "`speculative_decoding`")
    detailed = record.per_step_accepted is not None and record.per_step_drafted is not None
    if detailed:
        _check(record)
    table = Table()
    tokens, text, missing = answer(body, table)
    end, sentences = ended(body)
    times = finite({name: number(part(body, "metrics").get(name)) for name in TIMES})
    if detailed:
        steps = _steps(record, tokens, table)
        if steps:
            steps[-1]["facts"] |= times
    else:
        missing.append("steps")
        note = "One step stands for the whole request: the record has totals, not the order of its steps."
        steps = [step(0, facts=totals(record) | times, **_reported(tokens, note))]
    steps[-1]["note"] = " ".join([steps[-1].get("note", ""), *([SEVERAL] * several), *sentences]).strip()
    return trace(
        source=SOURCE,
        title="vLLM · speculative decoding",
        model=words(body.get("model")),
        steps=steps,
        table=table,
        output_ids=table.ids(tokens),
        text=text,
        missing=[*missing, "params"],
        about=RESPONSE,
        end=end,
    )


def totals(record: Speculation) -> dict[str, float]:
    """The sums of a record, without its arrays of steps."""
    named = {name: getattr(record, name) for name in Speculation.__struct_fields__}
    facts = finite({name: value for name, value in named.items() if isinstance(value, (int, float))})
    return facts | {f"steps that accepted {n}": float(seen) for n, seen in enumerate(record.acceptance_histogram)}


def reported(body: Any) -> dict[str, float]:
    """The same of any answer; nothing where it holds no such record, or one that cannot be read."""
    record = _found(body)
    try:
        return totals(convert(record, Speculation, "`speculative_decoding`")) if record else {}
    except TraceError:
        return {}


def answer(body: dict[str, Any], table: Table) -> tuple[list[int], str, list[str]]:
    """The emitted tokens as far as the response names them, its text, and what is missing of them."""
    tokens, text = output_of(body)
    count = part(body, "usage").get("completion_tokens")
    if len(numbered(body)) > 1 or not isinstance(count, int) or not 0 <= count <= MAX_TOKENS:
        count = None
    return name_tokens(table, tokens, count), text, lost(tokens, count)


def output_of(body: dict[str, Any]) -> tuple[list[Token], str]:
    """(tokens, text) of the first answer of a response, without a prompt that it echoes."""
    choice = first_choice(body)
    text = spoken({"content": choice["text"]} if "text" in choice else part(choice, "message"))[0]
    tokens = named(choice) or [Token("", number) for number in ids_of(choice.get("token_ids")) or ()]
    tokens = tokens if len(tokens) <= MAX_TOKENS else []
    if "text" in choice and (prompt := fed(tokens, [body], len(numbered(body)) > 1)):
        return tokens[prompt:], behind(text, tokens, prompt)
    return tokens, text


def ended(body: dict[str, Any]) -> tuple[dict[str, str], list[str]]:
    """(reason and message, sentences) of how the answer ended, and on others beside it. A record without an answer
    does not say it."""
    choice = first_choice(body)
    finish, sentences = words(choice.get("finish_reason")), [SEVERAL] if len(numbered(body)) > 1 else []
    if "finish_reason" not in choice:
        return {}, sentences
    reason, message = ending(finish, failure(body))
    return {"reason": reason, "message": message}, [*sentences, *([finished(finish)] if finish else [])]


def name_tokens(table: Table, tokens: Sequence[Token], count: int | None) -> list[int]:
    """Tokens by what is known of them: ids with texts, texts, ids, or only how many there were."""
    if not tokens:
        return [table.unknown] * (count or 0)
    texts = any(token.text for token in tokens)
    return [
        table.known(token.id, token.text) if texts and token.id is not None else entry(table, token.text, token.id)
        for token in tokens
    ]


def lost(tokens: Sequence[Token], count: int | None) -> list[str]:
    """The names of what `name_tokens` had to do without."""
    absent = [] if any(token.text for token in tokens) else ["token_texts"]
    absent += [] if tokens and all(token.id is not None for token in tokens) else ["token_ids"]
    return absent + ["end_marks"] + (["tokens"] if not tokens and count is None else [])


def ids_of(ids: Any) -> list[int] | None:
    """The `token_ids` of a choice, where they are ids."""
    good = isinstance(ids, list) and 0 < len(ids) <= MAX_TOKENS and None not in map(token_id, ids)
    return ids if good else None


def _steps(record: Speculation, tokens: list[int], table: Table) -> list[dict[str, Any]]:
    accepted, drafted = record.per_step_accepted or [], record.per_step_drafted or []
    emitted = sum(accepted) + len(accepted)
    last = accepted[-1] if accepted else 0
    placed = emitted + 1 - last <= len(tokens) <= emitted + 1  # less: the limit cut the answer inside its last drafts
    steps: list[dict[str, Any]] = []
    place = 0  # of the root: the last token before the step
    for index, (kept, proposed) in enumerate(zip(accepted, drafted, strict=True)):
        gained = tokens[place + 1 : place + kept + 2] if placed else [table.unknown] * (kept + 1)
        cut = kept + 1 - len(gained)
        root = tokens[place] if placed else table.unknown
        groups: dict[str, Any] = {"tree": _chain(place, kept, proposed, root, gained, table.unknown)}
        if placed:
            first = [] if index else [place]
            at = [*first, *range(place + 1, place + 1 + len(gained))]
            own = "sampled" if not proposed else "correction" if kept < proposed else "bonus"
            causes = ["sampled"] * len(first) + [*["accepted"] * kept, own][: len(gained)]
            groups["commits"] = {"positions": at, "tokens": [tokens[p] for p in at], "causes": causes}
            if cut:
                groups["note"] = f"The answer ended here, without the last {cut} of the tokens that this step had won."
        elif index == len(accepted) - 1:
            groups |= _reported(tokens, "All tokens are shown here: the record does not say which step each came from.")
        steps.append(step(index, facts={"drafted": float(proposed), "accepted": float(kept)}, **groups))
        place += kept + 1
    return steps or [step(0, facts={}, **_reported(tokens, "The server drafted nothing for this request."))]


def _chain(start: int, kept: int, proposed: int, root: int, gained: list[int], unknown: int) -> dict[str, Any]:
    """A straight draft: what was kept, the first refused row, and the rows behind it, which are not looked at."""
    why = ["root", *["accepted"] * kept, *(["mismatch"] + ["unreached"] * proposed)[: proposed - kept]]
    return {
        "start": start,
        "parents": list(range(-1, proposed)),
        "tokens": [root, *gained[:kept], *[unknown] * (proposed - len(gained[:kept]))],
        "accepted": [reason in ("root", "accepted") for reason in why],
        "why": why,
        "emitted": gained,
        "emitted_source": "not recorded",
    }


def _reported(tokens: list[int], note: str) -> dict[str, Any]:
    return ({"commits": as_reported(tokens)} if tokens else {}) | {"note": note}


def _check(record: Speculation) -> None:
    accepted, drafted = record.per_step_accepted or [], record.per_step_drafted or []
    if len(accepted) != len(drafted) or len(accepted) != record.num_spec_steps:
        raise TraceError(
            f"the record has {len(accepted)} accepted and {len(drafted)} drafted counts for {record.num_spec_steps} "
            "steps; they must be equally many."
        )
    if len(drafted) > MAX_STEPS or sum(drafted) > MAX_TOKENS:
        raise TraceError(
            f"the record has {len(drafted):,} steps with {sum(drafted):,} drafted tokens; at most {MAX_STEPS:,} and "
            f"{MAX_TOKENS:,} are read."
        )
    if any(a > d for a, d in zip(accepted, drafted, strict=True)):
        raise TraceError("the record has a step that accepted more tokens than were drafted.")
    if (sum(accepted), sum(drafted)) != (record.num_accepted_draft_tokens, record.num_draft_tokens):
        raise TraceError("the record's steps do not add up to its totals of drafted and accepted tokens.")


def first(body: Any) -> Any:
    """The response of a record, or the first of a list of them."""
    return body[0] if isinstance(body, list) and body else body


def _found(body: Any) -> dict[str, Any] | None:
    if not isinstance(body, dict):
        return None
    record = part(body, "metrics").get("speculative_decoding") or body.get("speculative_decoding")
    return record if isinstance(record, dict) and "num_spec_steps" in record else None
