"""ConCISE (Qiao et al., arXiv:2505.04881; no official code was found): a reasoner is kept from doubting what is right
(confidence injection) and stopped once a probe says that its answer is sure (early stopping).

At the start of each step a phrase of confidence stands before what the model writes; after a step that states an answer
conf = p(C) / (p(C) + p(D)) is read, C what a sure model would say and D what a doubting one would; above t_stop the
text ends. Injection and stopping are switches of their own.

Ours, where the paper's text was not at hand: the pool of phrases, the probe's question and its words. On the tiny
reasoners the phrase is the confident mood, put where the doubtful one was drawn, and the probe is whether the end or a
further step follows the answer. A phrase stays in the text, coloured and counted."""

from __future__ import annotations

from engines.kit import (
    Bool,
    CausalLM,
    Decision,
    Float,
    Int,
    Params,
    Recorder,
    Span,
    Steps,
    draw,
    entropy,
    max_new_tokens,
    method,
    ranked,
    torch,
)
from engines.methods.reasoning.concise.thought import Alone, LeftAlone, Marked, Probe, Prose, reading


@method(
    "concise",
    title="ConCISE",
    own="after the abstract, own phrases",
    paper="arXiv:2505.04881",
    summary="Puts a phrase of confidence before each step of a chain of thought and stops once a probe is confident.",
    needs="causal",
    params=[
        max_new_tokens(96),
        Bool("inject", True),
        Int("every", 1, 1, 4, source="paper: each step"),
        Float("t_stop", 0.5, 0.0, 1.0, step=0.05, symbol="t", source="about 0.5 by public summaries"),
        Float("temperature", 1.0, 0.0, 2.0, step=0.05, symbol="T"),
    ],
    signature="leftalone",
    emits={"commits", "scores", "candidates", "spans", "choice", "facts", "note"},
    records={"left_alone": LeftAlone},
    lanes={"confidence": "probability", "entropy": "nats", "reflection": "probability"},
    baseline="temperature",
)
def decode(model: CausalLM, prompt: list[int], p: Params, run: Recorder) -> Steps:
    """One token per step. Invariant after every step: the cache holds all ids but the last."""
    ids, start, end = prompt, len(prompt), len(prompt) + p.max_new_tokens
    form, cache = reading(model), model.new_cache(end + 32)
    thought = Thought(form, len(prompt))
    alone = Alone(model, form, prompt, p, run.rng) if run.full else None
    while len(ids) < end and not (len(ids) > start and ids[-1] in model.eos_ids):
        z = model.extend(ids[cache.length :], cache, last_only=True).logits  # [1, V]
        probe = form.probe(model, z[0], cache) if form.answered(ids[start:]) else None
        stop = probe is not None and probe.confidence > p.t_stop and bool(model.eos_ids)
        begins = form.starts(ids[start:]) and not stop
        likely = form.reflection(z[0]) if begins else None
        phrase, before = [], z
        due = begins and p.inject and len(thought.begun(ids)) % p.every == 0
        if due:
            phrase = form.phrase(thought.phrases)[: end - len(ids) - 1]
            z = model.extend(phrase, cache, last_only=True).logits if phrase else z
        chances, order = ranked(z[0], p.temperature)
        token_drawn = min(model.eos_ids) if stop else int(order[draw(chances, run.rng)])
        token = form.instead(token_drawn) if due else token_drawn
        thought.note(len(ids), bool(phrase) or token != token_drawn, probe)
        doubt = form.doubts(before[0], z[0] if due else None) if begins else None
        new, at = [*phrase, token], list(range(len(ids), len(ids) + len(phrase) + 1))
        last, odds = at[-1:], z.double().softmax(-1)[0, token]
        edit = yield run.step(
            commits=(
                at,
                new,
                [*["injected"] * len(phrase), "stopped" if stop else "sampled" if token == token_drawn else "injected"],
                [*[None] * len(phrase), float(odds)],
            ),
            scores=lambda: {
                "confidence": (last, odds[None]),
                "entropy": (last, entropy(z.double())),
                **({"reflection": (at[:1], torch.tensor([likely]))} if likely is not None else {}),
            },
            candidates=lambda: (last, z),
            spans=thought.spans([*ids, *new]),
            choice=thought.choice(probe, p.t_stop),
            records={
                "left_alone": lambda: alone.read(
                    [*ids, *new],
                    stop or token in model.eos_ids,
                    token_drawn if token_drawn != token and due else None,
                    doubt,
                )
            }
            if alone
            else None,
            facts=thought.facts([*ids, *new], likely, entropy(before.double()), entropy(z.double()), bool(phrase)),
            note=thought.note_of(probe, stop, token in model.eos_ids, bool(phrase), token != token_drawn),
        )
        after = run.apply_edit(edit, [*ids, *new], cache)
        thought.cut(len(ids) + len(new) if after == [*ids, *new] else min(edit.force) if edit else 0)
        ids = after


class Thought:
    """The steps so far, and what was done to them."""

    def __init__(self, form: Marked | Prose, start: int) -> None:
        self.form, self.start = form, start
        self.put: set[int] = set()  # places of the steps that got a phrase
        self.phrases = self.probes = self.calls = 0

    def begun(self, ids: list[int]) -> list[int]:
        """The places at which the steps of a text begin."""
        return [at for at in range(self.start, len(ids)) if self.form.starts(ids[self.start : at])]

    def note(self, place: int, injected: bool, probe: Probe | None) -> None:
        """What was done at this place."""
        if injected:
            self.put.add(place)
            self.phrases += 1
        if probe:
            self.probes, self.calls = self.probes + 1, self.calls + probe.calls

    def cut(self, length: int) -> None:
        """Forget what an edit took away."""
        self.put = {place for place in self.put if place < length}

    def spans(self, ids: list[int]) -> list[Span]:
        """Every step as a stretch of the board, the last one still open."""
        begun = self.begun(ids)
        return [
            Span(
                "reflection" if self.form.reflects(ids[a:b]) else "thought",
                a,
                b,
                "injected" if a in self.put else "",
            )
            for a, b in zip(begun, [*begun[1:], len(ids)], strict=True)
        ]

    def choice(self, probe: Probe | None, line: float) -> Decision | None:
        """What a probe decided."""
        if probe is None:
            return None
        sure = probe.confidence > line
        return Decision(
            ["go on", "stop"],
            "stop" if sure else "go on",
            "confidence in the answer",
            probe.confidence,
            line,
            "probability",
            detail=f"p(sure) {probe.sure:.3f}, p(unsure) {probe.unsure:.3f}",
        )

    def facts(
        self, ids: list[int], likely: float | None, before: torch.Tensor, after: torch.Tensor, phrase: bool
    ) -> dict[str, float]:
        """Counts so far, and around a phrase the entropy of the next token without and with it."""
        counts = {"steps_begun": len(self.begun(ids)), "injected": self.phrases, "probes": self.probes}
        counts |= {"probe_forwards": self.calls}
        if likely is not None:
            counts["reflection_chance"] = likely
        return counts | ({"entropy_before": float(before[0]), "entropy_after": float(after[0])} if phrase else {})

    def note_of(self, probe: Probe | None, stop: bool, over: bool, phrase: bool, replaced: bool) -> str:
        """One sentence on the token."""
        if probe:
            read = f"There is an answer; the probe's confidence is {probe.confidence:.2f}"
            return f"{read}: {'the text ends here' if stop else 'the model ends it' if over else 'the text goes on'}."
        if phrase:
            return "A phrase of confidence is inserted before the step."
        return "The doubtful mark was drawn; the confident one replaces it." if replaced else "One token is drawn."
