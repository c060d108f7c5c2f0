"""MGD, monitor-guided decoding (Agrawal, Kanade, Goyal, Lahiri, Rajamani, arXiv:2306.10763, NeurIPS 2023; official
code: microsoft/monitors4codegen, MIT).

A model of code does not see the types of other files and invents members. A static analyser watches the text: at a dot
it is asked which members exist there, and until the name is complete every token that cannot go on with one of them is
masked out. Where the analyser does not know, decoding is plain.

From the paper and its code: the state (idle, or the names that are possible), the mask and the rule that the next token
is the model's own under the mask, renormalised. Ours: jedi in place of language servers; the state is read from the
text, so that a prompt or an edit that ends inside a name is held to the names that begin so (the official monitor waits
for the next dot); no question inside strings and comments; no second question with the brackets closed, which gave the
same names at all 17 of 100 dots of the bench where one is open; names that begin with two underscores only on request,
or where one underscore stands. Of the official monitors those for members and arguments, and one for imports; switched
together they are the intersection of their masks.

Letters: x the text, C the names that are possible, L the logits [V]."""

from engines.kit import (
    Bool,
    CausalLM,
    Choice,
    Code,
    Float,
    Params,
    Recorder,
    Steps,
    distribution,
    draw,
    entropy,
    max_new_tokens,
    method,
)
from engines.methods.sampling.mgd.monitor import WATCHES, Completions, Monitor, mask, question, token_text
from engines.tools import completion, projects


def check(p: Params) -> None:
    """Starts the analyser, so that a run does not wait for that. Raises UserError for a project that cannot be
    read, and where the analyser is not installed."""
    projects.files_of(p.project)
    if p.monitor != "off":
        completion.warm_up()


@method(
    "mgd",
    title="Monitor-guided decoding",
    paper="arXiv:2306.10763",
    summary="A static analyser lists the members at each dot, and what cannot become one of them is masked out.",
    needs="causal",
    params=[
        max_new_tokens(32),
        Choice("monitor", "guide", ["guide", "watch", "off"], neutral="off"),
        Choice("watches", "members", list(WATCHES), source="ours: the paper's monitors of this kind"),
        Code("project", "ledger", projects.shipped(), source="ours"),
        Bool("dunder", False, source="ours"),
        Float("temperature", 0.0, 0.0, 2.0, step=0.05, symbol="T", source="paper: 0.8"),
    ],
    signature="completions",
    emits={"commits", "scores", "candidates", "intervals", "facts", "note"},
    records={"completions": Completions},
    lanes={"confidence": "probability", "entropy": "nats"},
    baseline="greedy",
    check=check,
)
def decode(model: CausalLM, prompt: list[int], p: Params, run: Recorder) -> Steps:
    """One turn: pre (ask at a dot), maskgen, the model's choice under the mask, update."""
    ids, end = prompt, len(prompt) + p.max_new_tokens
    cache = model.new_cache(end)
    with Monitor(model.tokenizer, model.vocab_size, p) as monitor:
        while len(ids) < end and not (len(ids) > len(prompt) and ids[-1] in model.eos_ids):
            fed = ids[cache.length :]
            L = model.extend(fed, cache, last_only=True).logits[0]  # [V]
            monitor.reads(None if p.monitor == "off" else p.project)
            state = monitor.pre(model.tokenizer.decode(ids))
            masked = mask(L, state.allowed) if p.monitor == "guide" else L  # [V]
            token = int(masked.argmax()) if p.temperature == 0 else draw(distribution(masked, p.temperature), run.rng)
            chances, text, at, masked_out = L.softmax(-1), token_text(model, token), len(ids), masked is not L
            begins = f"{opening(p)} " if at == len(prompt) else ""
            step = run.step(
                commits=([at], [token], "greedy" if p.temperature == 0 else "sampled", [float(chances[token])]),
                scores=lambda: {"confidence": ([at], [float(chances[token])]), "entropy": ([at], entropy(L[None]))},
                candidates=lambda: ([at], L[None]),
                records={"completions": lambda: state.completions(at, chances, masked_out, text)},
                intervals=[*run.calls({"model": "forward"}), *question(run, state)],
                facts=state.facts(token, chances, text),
                note=begins + state.note(chances, masked_out),
            )
            ids = run.apply_edit((yield step), [*ids, token], cache)


def opening(p: Params) -> str:
    """What is said of the run before its first step."""
    whose = f"the project {p.project}" if p.project in projects.shipped() else "a project of your own"
    where = {"members": "at each dot", "imports": "at each import", "arguments": "at each call"}
    places = where.get(p.watches, "at each dot, import and call")
    holds = {
        "arguments": "a call must fit its signature",
        "all": "only its names are allowed, and a call must fit its signature",
    }.get(p.watches, "only its names are allowed")
    asked = {
        "guide": f"is asked {places}, and {holds}",
        "watch": f"is asked {places}, and decoding is left unconstrained",
        "off": "is not asked",
    }[p.monitor]
    asked += ", names with two underscores included" if p.dunder else ""
    return f"The analyser {asked}; besides the prompt it sees {whose} ({', '.join(projects.files_of(p.project))})."
