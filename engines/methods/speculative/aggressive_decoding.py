"""Input-guided aggressive decoding: the source text is the draft (Ge et al., arXiv:2205.10350; first in Sun et al.,
ACL 2021).

An edited text mostly repeats its source. So the rest of the source x is pasted behind what is written and verified in
one forward: the copies that the model agrees with stay, and its own token follows them. Then single tokens are written
until the last ones stand at just one place of x, where the next paste begins. The text is the greedy one.

Written after the loop that the authors' command runs (microsoft/unilm, decoding/IAD, MIT). Ours: a decoder-only model
whose source is a part of its prompt, a paste of at most `length` tokens, and temperatures above 0, where a paste is
verified by the model's own draws, so that the distribution is that of plain sampling."""

from typing import NamedTuple

from engines.kit import (
    CausalLM,
    Int,
    Params,
    Recorder,
    Span,
    Steps,
    Text,
    Tokenizer,
    UserError,
    many,
)
from engines.methods.speculative._turn import Target, Turn, drafting
from engines.methods.speculative._verify import Draft

FARTHEST, GRAM = 256, 6  # tokens of a paste, of an anchor
Index = dict[tuple[int, ...], list[int]]  # n-gram -> the places in x behind each of its occurrences


class Source(NamedTuple):
    """The text that is edited: x, its tokens as an answer would spell them; start, the place on the board of x[0] if
    the prompt spelt it alike; same, the first token from which on it does."""

    x: list[int]
    start: int
    same: int

    def span(self, at: int, n: int) -> list[Span]:
        """Where in the prompt x[at : at + n] stands; nothing where the prompt spells it otherwise."""
        first = max(at, self.same)
        return [Span("match", self.start + first, self.start + at + n, "copied from here")] if first < at + n else []


class Anchor(NamedTuple):
    """Where in x the text goes on: at, -1 if nowhere; the last n tokens that were looked up there, and at how many
    places they stand."""

    at: int
    n: int
    places: int


@drafting(
    "aggressive-decoding",
    title="Aggressive decoding",
    paper="arXiv:2205.10350",
    code="https://github.com/microsoft/unilm/tree/master/decoding/IAD",
    summary="Pastes the text that is to be edited as a draft; only where the edit differs does it write token by "
    "token.",
    needs="causal",
    params=[
        Text("after", ":", source="ours; the paper's source is an encoder's input"),
        Int("gram", 3, 1, GRAM, symbol="n", source="official code"),
        Int("length", 64, 0, FARTHEST, neutral=0, source="ours; the official code has no bound"),
    ],
    signature="copying",
    emits={"spans"},
)
def decode(model: CausalLM, prompt: list[int], p: Params, run: Recorder) -> Steps:
    """One paste or one token per step."""
    target = Target(model, prompt, p, rows=1 + FARTHEST)
    source = source_of(model.tokenizer, prompt, p.after)
    x, ids, grams, index = source.x, prompt, 0, Index()
    while target.unfinished(ids):
        if grams != p.gram:  # at the first step, and where an edit changed it
            grams, index = p.gram, occurrences(x, p.gram)
        answer = ids[len(prompt) :]
        anchored = anchor(index, answer, p.gram) if answer else Anchor(0, 0, 1)
        at = anchored.at
        pasted = x[at : at + min(p.length, target.room(ids))] if at >= 0 else []
        draft = Draft.of([ids[-1], *pasted], range(-1, len(pasted)), "retrieval")
        iteration = target.verify(ids, draft, run.rng)
        edit = yield run.step(
            **iteration.groups(),
            spans=source.span(at, len(pasted)) if pasted else [],
            facts=iteration.facts(source_index=at if pasted else -1, anchor=anchored.n, places=anchored.places),
            note=note(anchored, len(pasted), iteration),
        )
        ids = run.apply_edit(edit, iteration.ids, target.cache)


def source_of(tokenizer: Tokenizer, prompt: list[int], after: str) -> Source:
    """The source in the user's turn of a prompt: what follows the first `after`. Raises UserError where it is empty."""
    frames = [tokenizer.encode_prompt(text) for text in ("0", "1")]  # what they share is the chat format's beginning
    same = [len({*column}) == 1 for column in zip(prompt, *frames, strict=False)]
    begin = same.index(False) if False in same else len(same)
    message = prompt[begin:]
    special = (i for i, token in enumerate(message) if tokenizer.piece(token).kind == "special")
    message = message[: next(special, len(message))]
    text = tokenizer.decode(message)
    text = (text.partition(after)[2] if after and after in text else text).strip()
    if not text:
        behind = f"there is no text after '{after}' in the prompt" if after else "the prompt holds no text"
        raise UserError(f"{behind}, so there is no source to copy from; write the text that is to be edited there.")
    spaced = tokenizer.decode(frames[0]).startswith(" ")  # a chat format that sets a space before a text
    x = tokenizer.encode(f" {text}" if spaced else text)
    while message and not tokenizer.decode(message[-1:]).strip():  # white space at the end, which the source lacks
        message.pop()
    alike = next((i for i, (a, b) in enumerate(zip(x[::-1], message[::-1], strict=False)) if a != b), len(x))
    alike = min(alike, len(message))
    return Source(x, begin + len(message) - len(x), len(x) - alike)


def occurrences(x: list[int], longest: int) -> Index:
    """Every run of 1 ... longest tokens of x with the places behind it."""
    index: Index = {}
    for n in range(1, longest + 1):
        for end in range(n, len(x) + 1):
            index.setdefault(tuple(x[end - n : end]), []).append(end)
    return index


def anchor(index: Index, answer: list[int], longest: int) -> Anchor:
    """The place in x to paste from: the last token, and while that stands at several places the last two, three ...,
    have to stand at just one."""
    n, ends = 0, []
    for n in range(1, min(longest, len(answer)) + 1):
        ends = index.get(tuple(answer[-n:]), [])
        if len(ends) <= 1:
            break
    return Anchor(ends[0] if len(ends) == 1 else -1, n, len(ends))


def note(anchored: Anchor, pasted: int, iteration: Turn) -> str:
    """One sentence on the step."""
    last = "The last token occurs" if anchored.n == 1 else f"The last {anchored.n} tokens occur"
    if not pasted:
        where = {0: "nowhere in the source", 1: "at its end, or there is no room for more"}
        return f"{last} {where.get(anchored.places, 'several times in the source')}: one token from the model."
    begin = f"{last} once in the source: what follows there" if anchored.n else "The source"
    return f"{begin} is pasted; {iteration.accepted} of {many(pasted, 'token')} accepted{iteration.ending()}."
