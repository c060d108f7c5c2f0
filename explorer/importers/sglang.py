"""SGLang: a response whose `meta_info` has the statistics of speculative decoding.

Written from SGLang's own code that fills the response (srt/managers/tokenizer_manager.py and its spec_decoding_meta,
2026) and its tests: `completion_tokens`, `spec_verify_ct` (verifications), `spec_accept_length` (tokens per
verification, the bonus token included), `spec_accept_rate`, the accepted and proposed drafts under their present and
earlier names, and the histogram of accepted drafts per verification. The proposed drafts are verifications x configured
draft length in several versions, so they are shown as reported. `output_ids` and `output_token_logprobs` ([logprob, id,
text]) name the tokens if the request asked for them. The order of the verifications is not in the response: one step
stands for the whole request. Behind the OpenAI interface the statistics stand in `sglext.spec_tokens_details` where the
request said `return_spec_tokens_details`, and in `usage` of some versions; `logprobs` name the tokens there."""

from collections.abc import Mapping
from typing import Any

from engines import Trace, TraceError
from explorer.importers.build import MAX_TOKENS, Table, as_reported, finite, part, step, trace, words
from explorer.importers.choices import Token, first_choice, number, row, token_id
from explorer.importers.endings import BROKEN, complaint, ending, finished
from explorer.importers.vllm import RESPONSE, first, ids_of, lost, name_tokens, output_of
from explorer.importers.vllm import ended as choice_ended

TITLE = "SGLang, response statistics"
SOURCE = "SGLang's response statistics"
NAMES = {
    "verifications": ("spec_verify_ct",),
    "tokens per verification": ("spec_accept_length",),
    "accepted ÷ proposed": ("spec_accept_rate",),
    "accepted drafts": ("spec_num_correct_drafts", "spec_accepted_drafts", "spec_accept_token_num"),
    "proposed drafts (as reported)": ("spec_num_proposed_drafts", "spec_proposed_drafts", "spec_draft_token_num"),
    "prompt tokens": ("prompt_tokens",),
    "end-to-end seconds (as reported)": ("e2e_latency",),
}
HISTOGRAMS = ("spec_correct_drafts_histogram", "spec_accept_histogram")


def looks(body: Any) -> bool:
    """Whether the JSON is such a response, or a list with one."""
    meta = _meta(_one(body))
    if meta is None or "spec_verify_ct" in meta:
        return meta is not None
    return "completion_tokens" in meta and "output_token_logprobs" not in meta  # which are an answer without drafts


def read(body: Any) -> Trace:
    """The trace of a response. Raises TraceError."""
    if isinstance(body, list) and len(body) != 1:
        raise TraceError(f"the file holds {len(body)} responses; import them one by one.")
    response = _one(body)
    meta = _meta(response) or {}
    if not isinstance(meta.get("spec_verify_ct"), int):
        raise TraceError(
            "the response has no `spec_verify_ct`: the server ran without speculative decoding, or reported nothing "
            "of it."
        )
    facts = finite(reported(meta))
    table = Table()
    tokens, text = _written(response, meta)
    count = meta.get("completion_tokens")
    count = count if isinstance(count, int) and 0 <= count <= MAX_TOKENS else None
    numbers = name_tokens(table, tokens, count)
    commits = as_reported(numbers)
    if isinstance(meta.get("output_token_logprobs"), list) and tokens:
        commits["probabilities"] = [None if token.p is None else round(token.p, 6) for token in tokens]
    note = "One step stands for the whole request: the response has totals, not the order of its verifications."
    why, error = ended(meta)
    end, sentences = choice_ended(response)
    if why:
        reason, message = ending(why, error)
        end = {"reason": reason, "message": message}
        sentences = [*sentences, finished(why)]
    note = " ".join([note, *sentences])
    return trace(
        source=SOURCE,
        title="SGLang · speculative decoding",
        model=words(response.get("model")),
        steps=[step(0, facts=facts, note=note, **({"commits": commits} if numbers else {}))],
        table=table,
        output_ids=table.ids(numbers),
        text=text,
        missing=[*lost(tokens, count), "steps", "params"],
        about=RESPONSE,
        end=end,
    )


def ended(meta: Mapping[str, Any]) -> tuple[str, str]:
    """(why an answer ended, the server's words for what went wrong): `finish_reason` is a word, or an object with more
    of them."""
    reason = meta.get("finish_reason")
    why = words(reason, part(meta, "finish_reason").get("type"))
    return why, complaint(reason) if why in BROKEN and isinstance(reason, dict) else ""


def reported(meta: dict[str, Any]) -> dict[str, float | None]:
    """What `meta_info` says of tokens, verifications and times, by its label; None where it does not."""
    numbers = {
        label: next((v for key in keys if (v := number(meta.get(key))) is not None), None)
        for label, keys in NAMES.items()
    }
    seen: list[Any] = next((meta[name] for name in HISTOGRAMS if isinstance(meta.get(name), list)), [])
    return numbers | {f"verifications that accepted {n}": number(times) for n, times in enumerate(seen[:1000])}


def _written(response: dict[str, Any], meta: dict[str, Any]) -> tuple[list[Token], str]:
    """(emitted tokens, text): ids with texts and probabilities, texts, or ids, as they are there."""
    rows = meta.get("output_token_logprobs")
    tokens, text = output_of(response)
    text = words(response.get("text")) or text
    rows = rows if isinstance(rows, list) and len(rows) <= MAX_TOKENS else []
    if rows and all(isinstance(r, list) and len(r) >= 2 and token_id(r[1]) is not None for r in rows):
        tokens = [row(raw) for raw in rows]
        if not all(len(raw) > 2 and isinstance(raw[2], str) for raw in rows):
            for token in tokens:
                token.text = ""
        return tokens, text
    lists = (ids_of(response.get("output_ids")), ids_of(meta.get("output_token_ids")))
    return tokens or [Token("", given_id) for given_id in next((ids for ids in lists if ids), [])], text


def _one(body: Any) -> dict[str, Any]:
    choice = first(body)
    return choice if isinstance(choice, dict) else {}


def _meta(response: Mapping[str, Any]) -> dict[str, Any] | None:
    """What there is of `meta_info`; behind OpenAI's interface its statistics stand in `sglext`, earlier in `usage`."""
    places, usage = (response, first_choice(response)), part(response, "usage")
    own = next((info for place in places if (info := part(place, "meta_info"))), {})
    statistics = next(
        (details for place in places if (details := part(part(place, "sglext"), "spec_tokens_details"))), {}
    )
    return {**usage, **statistics, **own} if own or statistics or "spec_verify_ct" in usage else None


def of_answer(body: Mapping[str, Any]) -> dict[str, float]:
    """The statistics in an answer of the OpenAI interface; nothing where it has none."""
    meta = _meta(body) or {}
    statistics = finite(reported(meta)) if "spec_verify_ct" in meta else {}
    return {label: value for label, value in statistics.items() if label != "prompt tokens"}
