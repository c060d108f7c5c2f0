"""A comparison as one page without scripts, to be put beside a pull request: what the runs say against each other,
every number with its receipt, the boards, the texts, and all conditions."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

import engines
from engines import ASSETS, ModelRecord, Trace, UserError
from explorer.export.figures import figure
from explorer.export.look import declared
from explorer.export.markup import Html, Node, document, h, join, table
from explorer.export.python import lines
from explorer.figures.definitions import KINDS, Kind
from explorer.figures.metric import Metric
from explorer.figures.metrics import measure
from explorer.figures.strip import basis_of, parts
from explorer.figures.verdict import cut_at

HERE = Path(__file__).resolve().parent
MOST = 8
HEADLINE = (
    "tokens",
    "steps",
    "target_calls",
    "tokens_per_call",
    "block_efficiency",
    "acceptance_rate_of_drafted",
    "work",
    "busy_seconds",
    "tokens_per_second",
)
POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"
ENDS = {"stopped": "stopped by a person", "budget": "ended by its budget", "failed": "failed"}
FOOT = (
    "Made by Decoding Explorer from recorded runs; nothing was computed again. Every number says how it was obtained; "
    "one run of each is no benchmark."
)


def report(traces: Sequence[Trace], title: str = "", names: Sequence[str] = ()) -> str:
    """The page's text. names: of the files that the traces came from. Raises UserError where there is nothing to
    compare, or too much."""
    if not traces:
        raise UserError("there is nothing to report; give at least one trace.")
    if len(traces) > MOST:
        raise UserError(f"{len(traces)} runs are too many for one report; give at most {MOST}.")
    heading = title or " and ".join(dict.fromkeys(trace.header.title for trace in traces))
    heads = [f"{n} · {trace.header.title}" for n, trace in enumerate(traces, 1)]
    body = join(
        h("h1", {}, heading),
        *_prompts(traces),
        _section("What they say", _strip(traces, heads)),
        _section("Numbers", _numbers(traces, heads)),
        _section("Boards", _figures(traces, heads)),
        _section("Texts", [_text(trace, head) for trace, head in zip(traces, heads, strict=True)]),
        _section("Conditions", _conditions(traces, heads, names)),
        _section("Again", _again(traces)),
        h("footer", {}, FOOT),
    )
    return framed(heading, body)


def framed(title: str, body: Html) -> str:
    """A page without scripts, in the theme's colours, that asks for nothing from outside."""
    return document(title, POLICY, h("style", {}, Html(_style())), h("main", {}, body))


def _style() -> str:
    """The colours of the theme for light and dark, then the sheets."""
    dark = f"@media (prefers-color-scheme: dark) {{ :root {{ {declared('dark')} }} }}"
    sheets = [path.read_text("utf-8") for path in (ASSETS / "client/site/document.css", HERE / "report.css")]
    return "\n".join([f":root {{ {declared('light')} }}", dark, *sheets])


def _section(title: str, *children: Node) -> Html:
    return h("section", {}, h("h2", {}, title), *children)


def _prompts(traces: Sequence[Trace]) -> list[Html]:
    prompts = list(dict.fromkeys(trace.header.prompt for trace in traces))
    label = "Prompt" if len(prompts) == 1 else "Prompts"
    return [h("p", {"class": "label"}, label), *(h("pre", {}, prompt or "(none recorded)") for prompt in prompts)]


def _strip(traces: Sequence[Trace], heads: Sequence[str]) -> Html:
    basis = basis_of(traces)
    cards = []
    for trace, head in zip(traces, heads, strict=True):
        sentences = [
            h("li", {"class": part.mark or None}, _opening(part.text, part.kind, part.formula, part.terms))
            for part in parts(trace, basis)
        ]
        ended = h("p", {"class": "ended"}, ending) if (ending := _ended(trace)) else None
        role = h("p", {"class": "label"}, "baseline of the others") if trace is basis and len(traces) > 1 else None
        cards.append(h("article", {}, h("h3", {}, head), role, ended, h("ul", {}, sentences)))
    return h("div", {"class": "strip"}, cards)


def _ended(trace: Trace) -> str:
    if trace.end.reason == "complete":
        return "" if (cut := cut_at(trace)) is None else f"Cut at {cut} tokens: raise max_new_tokens."
    sentence = f"{ENDS[trace.end.reason]}."
    return f"{sentence[:1].upper()}{sentence[1:]} {trace.end.message}".strip()


def _opening(text: str, kind: Kind, formula: str, terms: str, holds: str = "", look: str | None = None) -> Html:
    """A number that opens its receipt."""
    rows = [("kind", f"{kind}: {KINDS[kind]}"), ("formula", formula), ("here", terms), ("holds", holds)]
    receipt = h("dl", {}, [join(h("dt", {}, name), h("dd", {}, value)) for name, value in rows if value])
    return h("details", {"class": look}, h("summary", {}, text), receipt)


def _numbers(traces: Sequence[Trace], heads: Sequence[str]) -> list[Node]:
    """The headline numbers, and all others folded below them."""
    metrics = [{metric.name: metric for metric in measure(trace)} for trace in traces]
    every = dict.fromkeys(name for by_name in metrics for name in by_name)
    first = [name for name in HEADLINE if name in every]
    rest = [name for name in every if name not in first]
    return [
        h("p", {}, "A number opens its receipt."),
        _table(first, metrics, heads),
        h("details", {}, h("summary", {}, f"All other numbers ({len(rest)})"), _table(rest, metrics, heads)),
    ]


def _table(names: Sequence[str], metrics: Sequence[Mapping[str, Metric]], heads: Sequence[str]) -> Html:
    def cell(metric: Metric | None) -> Node:
        if metric is None:
            return "–"
        look = "absent" if metric.absent else None
        return _opening(metric.shown, metric.kind, metric.formula, metric.terms, metric.conditions, look)

    rows = []
    for name in names:
        labels = dict.fromkeys(by_name[name].label for by_name in metrics if name in by_name)
        rows.append([" / ".join(labels), *(cell(by_name.get(name)) for by_name in metrics)])
    return table(["Number", *heads], rows)


def _figures(traces: Sequence[Trace], heads: Sequence[str]) -> list[Html]:
    boards = [_figure(head, [trace], "board", "") for trace, head in zip(traces, heads, strict=True)]
    lost = {field for trace in traces for field in trace.header.missing}
    clock = "seconds" if "model_seconds" not in lost else "forwards" if "forwards" not in lost else "steps"
    return [*boards, _figure(f"Tokens over {clock}", traces, "curve", clock)]


def _figure(caption: str, traces: Sequence[Trace], view: str, clock: str) -> Html:
    """A figure; on paper's white in the dark as well. What cannot be drawn is said in its place."""
    try:
        drawn: Node = Html(figure(traces, view=view, clock=clock))
    except UserError as error:
        drawn = h("p", {"class": "quiet"}, f"Not drawn: {error}")
    return h("figure", {}, h("div", {"class": "scroll paper", "tabindex": "0"}, drawn), h("figcaption", {}, caption))


def _text(trace: Trace, head: str) -> Html:
    text, ended = h("pre", {}, trace.text or "(empty)"), h("p", {"class": "quiet"}, _ended(trace))
    return h("article", {}, h("h3", {}, head), text, ended)


def _conditions(traces: Sequence[Trace], heads: Sequence[str], names: Sequence[str]) -> Html:
    """Everything under which the runs were made, one column for each."""
    columns = [_facts(trace, names[i] if i < len(names) else "") for i, trace in enumerate(traces)]
    every = dict.fromkeys(name for column in columns for name in column)
    rows = [[name, *(column.get(name) or "–" for column in columns)] for name in every]
    return table(["Condition", *heads], rows)


def _facts(trace: Trace, name: str) -> dict[str, str]:
    """The conditions of a run, in full."""
    t, lost = trace.header, set(trace.header.missing)

    def held(field: str, text: str) -> str:
        return "not recorded" if field in lost else text

    facts = {
        "file": name,
        "sha256 of the trace": engines.digest(trace),
        "method": f"{t.title} ({t.method})",
        "paper": t.paper,
        "parameters": held("params", _pairs(t.params)),
        "seed": held("seed", str(t.seed)),
    }
    for number, model in enumerate([*t.models, *t.parts]):
        kind = "part" if number >= len(t.models) else "model"
        facts[f"{kind} {number + 1}"] = _model(model)
    facts |= {
        "machine": t.machine or "not recorded",
        "libraries": _pairs(t.versions) or "not recorded",
        "recorded": f"{t.started_at or 'time not recorded'}, at detail {t.detail}",
        "warm-up": held("warmup_seconds", f"{t.warmup_seconds:.3f} s, not counted"),
        "prompt tokens": held("prompt_ids", str(len(t.prompt_ids))),
        "end marks": held("end_marks", ", ".join(map(str, t.eos_ids)) or "none"),
        "of this record" if t.imported_from else "differs from the paper": t.departures,
        "read from": t.imported_from,
        "not recorded": ", ".join(t.missing).replace("_", " "),
        "fork": f"of {t.origin.title} after step {t.origin.step}, trace {t.origin.trace}" if t.origin else "",
        "changed by a person": "; ".join(f"after step {c.after_step + 1}: {_changes(c.edit)}" for c in t.edits),
        "ended": _ended(trace),
    }
    return {label: text for label, text in facts.items() if text}


def _pairs(values: Mapping[str, object]) -> str:
    texts = {name: value if isinstance(value, str) else json.dumps(value) for name, value in values.items()}
    return ", ".join(f"{name} {text}" for name, text in texts.items())


def _changes(edit: object) -> str:
    return _pairs({name: value for name, value in msgspec.to_builtins(edit).items() if value})


def _model(model: ModelRecord) -> str:
    where = f"{model.device}, {model.threads} thread{'s' if model.threads != 1 else ''}" if model.device else ""
    details = [
        f"{model.role}: {model.name}",
        model.kind,
        f"{model.parameters:,} parameters" if model.parameters else "",
        model.dtype,
        where,
        f"revision {model.revision}" if model.revision else "",
        f"sha256 {model.sha256 or 'not recorded'}",
        f"tokenizer {model.tokenizer}" if model.tokenizer else "",
        _pairs(model.options),
        model.licence,
    ]
    return "; ".join(detail for detail in details if detail)


def _again(traces: Sequence[Trace]) -> list[Node]:
    """The lines that repeat what can be repeated."""
    nodes: list[Node] = []
    for trace in traces:
        try:
            nodes.append(h("pre", {}, lines([trace])))
        except UserError as error:
            nodes.append(h("p", {"class": "quiet"}, f"{trace.header.title}: {error}"))
    return nodes
