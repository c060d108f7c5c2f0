"""Why is a drafter slow? What it would have said along the texts that its target writes: how often it is right at each
depth, where it parts first, what it misses by kind, and which of the known slips, turned, makes it better.

    target = engines.load_model("Qwen/Qwen3-8B", dtype="bfloat16")
    found = engines.diagnose(target, engines.load_drafter("RedHatAI/Qwen3-8B-speculator.eagle3", target), prompts)

The evidence for a slip is the paired difference of the log-probability that the draft gives the target's next token,
with and without it, over all places of all texts. One is named only where the interval lies above a margin, more is
accepted, and that is much of what was missing or the drafter is then as sure as it is right. A gain alone says little:
a drafter that is computed otherwise than it was trained is far too sure, and whatever makes it less sure gains. How
much too sure it is (minus its entropy, less the log-probability of what came, in nats) also tells of a slip that nobody
knows."""

import math
from collections import Counter, defaultdict
from collections.abc import Generator, Sequence
from typing import Any

import torch

from engines.core.errors import UserError
from engines.core.kinds import counted
from engines.core.meter import Meter
from engines.diagnosis.cost import cost_of
from engines.diagnosis.forced import forced, states_of
from engines.diagnosis.found import RISE, Candidate, Depth, Diagnosis, Miss, Parting, Tried, kind_of
from engines.diagnosis.loops import DraftRecord, drafts_of, match_loops
from engines.diagnosis.slips import turns

__all__ = ["Diagnosis", "DraftRecord", "diagnose", "diagnosing", "drafts_of"]

DEPTH, TOKENS = 4, 64  # of the drafts, where a drafter does not say; written for each prompt
GROUP = 8  # neighbouring places that count as one observation: what a text says at them hangs together
LEVEL = 3.0  # standard errors to each side of a difference: 99.7 %, since some ten slips are tried
MARGIN = 0.02  # nats that a turned slip must bring at least, for sure
SOME, MUCH = 0.07, 0.15  # shares of the tokens that are not accepted: of sure drafters, and of any; see `_tried`
SURE = 0.3  # nats that a drafter may be too sure; fitted well, and on texts like those, it is within 0.15
UNSEEN = -20.0  # log-probability of a token that the drafter cannot draft
SHOWN = 5  # candidates of each side at a first difference


def diagnose(
    target: Any,
    drafter: Any,
    prompts: Sequence[str | Sequence[int]],
    *,
    k: int = 0,
    tokens: int = TOKENS,
    timed: bool = True,
    record: DraftRecord | None = None,
) -> Diagnosis:
    """Write `tokens` greedily behind each prompt and look at every place of these texts. target, drafter: loaded; k:
    depth of the drafts, the drafter's own by default; timed: whether a round's cost is measured too; record: what a
    loop or a server drafted, which slips of a loop are held against. Raises UserError without a prompt, where nothing
    was written, and for a record that does not fit (`match_loops`)."""
    going = diagnosing(target, drafter, prompts, k=k, tokens=tokens, timed=timed, record=record)
    while True:
        try:
            next(going)
        except StopIteration as end:
            diagnosis: Diagnosis = end.value
            return diagnosis


def diagnosing(
    target: Any,
    drafter: Any,
    prompts: Sequence[str | Sequence[int]],
    *,
    k: int = 0,
    tokens: int = TOKENS,
    timed: bool = True,
    record: DraftRecord | None = None,
) -> Generator[tuple[str, str], None, Diagnosis]:
    """The same step by step: yields what begins, ("text", number of the prompt), ("places", ""), ("turn", name of a
    slip), ("times", ""), and returns what was found."""
    if not prompts:
        raise UserError("no prompt is given; a drafter is looked at along texts that its target writes.")
    k, texts = k or drafter.k or DEPTH, list[tuple[list[int], int]]()
    for number, prompt in enumerate(prompts, 1):
        yield "text", str(number)
        texts.append(_written(target, prompt, tokens))
    if not any(len(ids) - first > 2 for ids, first in texts):
        raise UserError("the target wrote fewer than three tokens behind each prompt; give other prompts.")
    looked = [Looked(target, ids, first) for ids, first in texts]
    yield "places", ""
    plain, tried = _measured(target, drafter, looked, k), list[Tried]()
    for variant in turns(drafter, target):
        yield "turn", variant.name
        tried.append(_tried(variant, plain, _measured(target, variant.turned, looked, k)))
    matched = match_loops(target, drafter, record.ids, record.rounds) if record else []
    cost = None
    if timed:
        yield "times", ""
        longest = max(looked, key=lambda text: len(text.ids))
        cost = cost_of(target, drafter, longest.ids, longest.hidden, k)
    depths = (plain.depth(j) for j in range(1, k + 1))
    return Diagnosis(
        target=target.record.name,
        drafter=drafter.name,
        format=drafter.format,
        sha256=drafter.sha256,
        k=k,
        prompts=len(texts),
        tokens=sum(len(ids) - first for ids, first in texts),
        accepted=plain.accepted,
        depths=tuple(depth for depth in depths if depth),
        partings=tuple(_partings(target, plain, looked)),
        misses=_misses(target, plain, looked),
        tried=tuple(tried),
        notes=tuple(drafter.notes),
        cost=cost,
        loops=tuple(matched),
        surer=plain.surer if plain.surer > SURE else None,
    )


class Looked:
    """A text with the target's states. first: the position of the first written token."""

    @torch.no_grad()
    def __init__(self, target: Any, ids: list[int], first: int) -> None:
        self.ids, self.first, self.hidden = ids, first, states_of(target, ids)


class Measured:
    """What a drafter said: by text, place and depth the log-probability of the target's token, its rank (0: it cannot
    be drafted) and the drafter's first tokens."""

    def __init__(self, k: int) -> None:
        self.k, self.said = k, dict[tuple[int, int, int], tuple[float, int, int]]()
        self.sure: dict[tuple[int, int, int], tuple[float, float]] = {}  # entropy, probability of its first token
        self.best: dict[tuple[int, int], list[tuple[int, float]]] = {}

    def reach(self, text: int, place: int) -> int:
        """How many tokens of the draft at a place are the target's."""
        j = 0
        while (prediction := self.said.get((text, place, j + 1))) is not None and prediction[1] == 1:
            j += 1
        return j

    @property
    def accepted(self) -> float:
        """Mean accepted tokens of a draft."""
        starts = [(text, place) for text, place, j in self.said if j == 1]
        return sum(self.reach(*start) for start in starts) / max(1, len(starts))

    @property
    def surer(self) -> float:
        """By how many nats it is surer than it is right, on average over what it can draft."""
        gaps = [-self.sure[key][0] - logp for key, (logp, rank, _) in self.said.items() if rank]
        return sum(gaps) / max(1, len(gaps))

    def depth(self, j: int) -> Depth | None:
        """What the drafts are worth at depth j; None where nothing was looked at."""
        here = {key: prediction for key, prediction in self.said.items() if key[2] == j}
        if not here:
            return None
        reaches = [self.reach(text, place) for text, place, _ in here]
        reached, accepted = (sum(reach >= least for reach in reaches) for least in (j - 1, j))
        edges = ((1, 1), (2, 2), (3, 3), (4, 10), (11, math.inf), (0, 0))
        ranks: Any = tuple(sum(low <= rank <= high for _, rank, _ in here.values()) for low, high in edges)
        mean = sum(logp for logp, _, _ in here.values()) / len(here)
        promised = sum(self.sure[key][1] for key in here) / len(here)
        return Depth(j, len(here), ranks[0], reached, accepted, mean, ranks, promised)


@torch.no_grad()
def _measured(target: Any, drafter: Any, looked: Sequence[Looked], k: int) -> Measured:
    """A drafter along all texts."""
    meter = Meter()
    run, measured = drafter.counted(counted(target, "target", meter, "layered"), meter), Measured(k)
    for number, text in enumerate(looked):
        for depth, places, z in forced(run, text.ids, text.hidden, max(0, text.first - 1), k):
            wanted = torch.tensor([text.ids[t + 1 + depth] for t in places], device=z.device)
            for place, prediction, sure in zip(places, _ranked(drafter, z, wanted), _sure(z), strict=True):
                measured.said[number, place, depth], measured.sure[number, place, depth] = prediction, sure
            if depth == 1:
                top = z.double().softmax(-1).topk(min(SHOWN, z.shape[-1]))
                for row, place in enumerate(places):
                    tokens = run.tokens(top.indices[row]).tolist()
                    measured.best[number, place] = list(zip(tokens, top.values[row].tolist(), strict=True))
    return measured


def _ranked(drafter: Any, z: Any, wanted: Any) -> list[tuple[float, int, int]]:
    """Of each row of logits: log-probability and rank of the wanted token, and the drafter's first."""
    logp, first = z.double().log_softmax(-1), z.argmax(-1)
    columns, there = wanted, torch.ones_like(wanted, dtype=torch.bool)
    if drafter.vocabulary is not None:
        column = torch.full((drafter.vocab_size,), -1, dtype=torch.long, device=z.device)
        column[drafter.vocabulary] = torch.arange(len(drafter.vocabulary), device=z.device)
        columns = column[wanted]
        there, first = columns >= 0, drafter.vocabulary[first]
    at = logp.gather(-1, columns.clamp(min=0)[:, None])
    ranks = (logp > at).sum(-1) + 1
    rows = zip(at[:, 0].tolist(), ranks.tolist(), first.tolist(), there.tolist(), strict=True)
    return [(max(p, UNSEEN), rank, token) if known else (UNSEEN, 0, token) for p, rank, token, known in rows]


def _sure(z: Any) -> list[tuple[float, float]]:
    """Of each row of logits: entropy in nats, and the probability of the first token."""
    logp = z.double().log_softmax(-1)
    entropy = -torch.special.xlogy(logp.exp(), logp.exp()).sum(-1)
    return list(zip(entropy.tolist(), logp.max(-1).values.exp().tolist(), strict=True))


def _tried(variant: Any, plain: Measured, turned: Measured) -> Tried:
    """The paired difference between a turned slip and the drafter as it is. Of what is lost to another slip no turn was
    seen to give back more than 0.05 where the drafter is as sure as it is right, and 0.11 elsewhere."""
    groups = defaultdict[tuple[int, int, int], list[float]](list)
    for (text, place, depth), (logp, *_) in plain.said.items():
        if (key := (text, place, depth)) in turned.said:
            groups[text, depth, place // GROUP].append(turned.said[key][0] - logp)
    means = [sum(values) / len(values) for values in groups.values()]
    gain = sum(means) / max(1, len(means))
    spread = sum((mean - gain) ** 2 for mean in means) / max(1, len(means) - 1)
    error = LEVEL * math.sqrt(spread / max(1, len(means)))
    if not any(map(any, groups.values())):
        state = "same"
    else:
        rise, lost = turned.accepted - plain.accepted, plain.k - plain.accepted
        more = gain - error > MARGIN and rise >= RISE * plain.k
        cause = rise >= MUCH * lost or (rise >= SOME * lost and turned.surer <= SURE)
        state = ("helps" if cause else "part") if more else "worse" if gain + error < 0 else "open"
    low, high = gain - error, gain + error
    return Tried(variant.name, variant.wrong, state, gain, low, high, turned.accepted, plain.accepted, variant.form)


@torch.no_grad()
def _written(target: Any, prompt: str | Sequence[int], tokens: int) -> tuple[list[int], int]:
    """The ids of a prompt with the tokens that the target finds likeliest behind it, and where these begin. Raises
    UserError for a prompt that does not fit."""
    from engines.core.validation import check_room, prompt_ids

    ids = list(prompt_ids(target, prompt))
    check_room({"target": target}, ids, tokens)
    first, cache = len(ids), target.new_cache(len(ids) + tokens)
    while len(ids) < first + tokens and not (len(ids) > first and ids[-1] in target.eos_ids):
        z = target.extend(ids[cache.length :], cache, last_only=True).logits[-1]
        ids.append(int(z.argmax()))
    return ids, first


def _partings(target: Any, plain: Measured, looked: Sequence[Looked]) -> list[Parting]:
    """The first place of each text where the draft's first token is another one."""
    partings = []
    for number, text in enumerate(looked):
        wrong = sorted(place for n, place, depth in plain.said if n == number and depth == 1)
        place = next((t for t in wrong if plain.said[number, t, 1][1] != 1), None)
        if place is None:
            continue
        z = target.unembed(text.hidden[target.num_layers][place + 1 : place + 2], normed=True)[0]
        top = z.double().softmax(-1).topk(min(SHOWN, len(z)))
        sure = [_candidate(target, *pair) for pair in zip(top.indices.tolist(), top.values.tolist(), strict=True)]
        drafted = [_candidate(target, token, p) for token, p in plain.best[number, place]]
        before = target.tokenizer.decode(text.ids[max(0, place - 10) : place + 2])
        partings.append(Parting(number, place + 2, before, tuple(sure), tuple(drafted)))
    return partings


def _candidate(target: Any, token: int, probability: float) -> Candidate:
    return Candidate(token, target.tokenizer.piece(token).text, float(f"{probability:.4g}"))


def _misses(target: Any, plain: Measured, looked: Sequence[Looked]) -> tuple[Miss, ...]:
    """First tokens of drafts by the kind of what the target wrote there."""
    places, missed = Counter[str](), defaultdict[str, Counter[tuple[str, str]]](Counter)
    for (number, place, depth), (_, rank, drafted) in plain.said.items():
        if depth > 1:
            continue
        wanted = looked[number].ids[place + 2]
        kind = "not in the draft vocabulary" if rank == 0 else kind_of(target.tokenizer, wanted)
        places[kind] += 1
        if rank != 1:
            missed[kind][target.tokenizer.piece(wanted).text, target.tokenizer.piece(drafted).text] += 1
    rows = []
    for kind, number in places.items():
        examples = tuple(pair for pair, _ in missed[kind].most_common(3))
        rows.append(Miss(kind, number, missed[kind].total(), examples))
    return tuple(sorted(rows, key=lambda row: -row.missed))
