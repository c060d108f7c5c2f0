"""Beam search: the w most likely continuations are kept side by side, and the best one that ends is written.

No paper of its own (Lowerre's Harpy, 1976; the length penalty in the form that transformers runs, after Wu et al.,
arXiv:1609.08144, section 7). A round asks the model once for all beams, takes the best of all their continuations by
the sum of log-probabilities, and sets aside those that end. It stops when w have ended and none that goes on is better
than the worst of them.

The board shows the leading beam. A token that a person forces is taken as given: it adds nothing to a sum."""

from __future__ import annotations

from collections import Counter
from typing import Any

from engines.kit import (
    CausalLM,
    Float,
    Int,
    Params,
    Path,
    Paths,
    Recorder,
    Steps,
    entropy,
    many,
    max_new_tokens,
    method,
    top_ids,
    torch,
)


@method(
    "beam",
    title="Beam search",
    summary="The few most likely continuations side by side, one forward for all of them; the best one that ends is "
    "written.",
    needs="causal",
    params=[
        max_new_tokens(),
        Int("width", 3, 1, 16, symbol="w", neutral=1, source="usual"),
        Float("length_penalty", 1.0, 0.0, 2.0, step=0.1, symbol="λ", source="1 in transformers"),
    ],
    signature="branches",
    emits={"commits", "scores", "candidates", "branches", "facts", "note"},
    lanes={"confidence": "probability", "entropy": "nats"},
    baseline="greedy",
    paths={},
)
def decode(model: CausalLM, prompt: list[int], p: Params, run: Recorder) -> Steps:
    """Invariant: all living beams are equally long, and no two are the same."""
    start, end, sums = len(prompt), len(prompt) + p.max_new_tokens, Sums()
    paths = Paths(model, prompt, rows=(2 * p.width + 1) * (p.max_new_tokens + 1), rng=run.rng)
    paths.add()
    while beams := distinct(paths):
        paths.feed()
        z = torch.stack([beam.logits for beam in beams])  # [b, V], b beams
        total = z.double().log_softmax(-1) + torch.tensor([[sums.of(beam)] for beam in beams], dtype=torch.float64)
        children, going = best(total, p.width, model.eos_ids, last=beams[0].length + 1 >= end), list[Path]()
        holders = shares(paths, beams, [row for row, *_ in children])
        for path, (_, token, score, ends) in zip(holders, children, strict=True):
            paths.write(path, [token])
            sums.known[path.tip] = score
            path.scores = {"log p": round(score, 4)}
            if ends:
                path.scores["ranked by"] = round(score / (path.length - start) ** p.length_penalty, 4)
                paths.drop(path, "finished")
            else:
                going.append(path)
        finished = ranking(paths, sums, start, p)
        for path in finished[p.width :]:
            paths.drop(path, "pruned")
        full = len(finished) >= p.width
        if not going or (full and not better(going[0], finished[p.width - 1], sums, start, p)):
            for path in paths.living:
                paths.drop(path, "pruned")
            paths.drop(finished[0], "chosen")
        shown = going[0] if paths.living else finished[0]
        row = next((row for path, (row, *_) in zip(holders, children, strict=True) if path is shown), 0)
        at = [shown.length - 1]
        edit = yield run.step(
            commits=paths.commits(run.board, shown, "beam"),
            scores=lambda: {
                "confidence": (at, z[row : row + 1].softmax(-1)[:, shown.tip.token]),
                "entropy": (at, entropy(z[row : row + 1])),
            },
            candidates=lambda: (at, z[row : row + 1]),
            branches=paths.branches(),
            facts={"beams": len(going), "finished": min(len(finished), p.width), "best_sum": sums.of(shown)},
            note=f"{many(len(beams), 'beam')} extended in one forward; "
            + (f"{many(len(going), 'beam')} kept." if paths.living else "the best finished one is written."),
        )
        paths.apply_edit(run, edit, shown)


class Sums:
    """The sums of log-probabilities, in nats, from the prompt to the nodes of the paths. A node that a person wrote has
    the sum of the one before it."""

    def __init__(self) -> None:
        self.known: dict[Any, float] = {}

    def of(self, path: Path) -> float:
        """The sum of a path."""
        node: Any = path.tip
        while node is not None and node not in self.known:
            node = node.parent
        return self.known[node] if node is not None else 0.0


def best(total: torch.Tensor, width: int, eos_ids: frozenset[int], last: bool) -> list[tuple[int, int, float, bool]]:
    """The continuations that are taken up, (beam, token, sum, ends), best first. total [b, V]: sums with each token. Of
    the best `width` those that end (all of them, if this is the last token), and the best `width` that go on."""
    candidates, going = list[tuple[int, int, float, bool]](), 0
    for rank, flat in enumerate(top_ids(total.reshape(1, -1), max(2, 1 + len(eos_ids)) * width)[0].tolist()):
        row, token = divmod(flat, total.shape[1])
        ends = last or token in eos_ids
        if float(total[row, token]) > -torch.inf and (rank < width if ends else going < width):
            candidates.append((row, token, float(total[row, token]), ends))
            going += not ends
    return candidates


def shares(paths: Paths, beams: list[Path], rows: list[int]) -> list[Path]:
    """A path for each continuation: the first one of a beam has the beam itself, the others forks of it; a beam without
    any is dropped."""
    counts = Counter(rows)
    free = {row: [beams[row], *(paths.fork(beams[row]) for _ in range(n - 1))] for row, n in counts.items()}
    for row, beam in enumerate(beams):
        if row not in counts:
            paths.drop(beam, "pruned")
    return [free[row].pop(0) for row in rows]


def ranking(paths: Paths, sums: Sums, start: int, p: Params) -> list[Path]:
    """The paths that ended, best first."""
    ended = [path for path in paths.paths if path.fate in ("finished", "chosen")]
    return sorted(ended, key=lambda path: -sums.of(path) / (path.length - start) ** p.length_penalty)


def better(going: Path, ended: Path, sums: Sums, start: int, p: Params) -> bool:
    """Whether a beam that goes on is ahead of one that ended, both over their lengths."""
    now, then = (sums.of(path) / (path.length - start) ** p.length_penalty for path in (going, ended))
    return now > then


def distinct(paths: Paths) -> list[Path]:
    """The living beams; of those that an edit made the same only the first one lives on."""
    seen = set[tuple[int, ...]]()
    for path in paths.living:
        text = tuple(paths.read(path))
        if text in seen:
            paths.drop(path, "pruned")
        seen.add(text)
    return paths.living
