"""A policy that writes step by step on several paths, and the judge of its partial solutions: what all searches over
steps share, with one count of tokens and of calls of the reward model."""

from collections.abc import Callable, Collection, Sequence
from typing import Any

from engines.core.errors import UserError
from engines.core.params import Params
from engines.kit import CausalLM, Edit, Float, Path, Paths, Recorder, Roles, Text, distribution, draw, part, torch
from engines.models.parts.step_reward import StepReward
from engines.tasks.chains import CHAINS, sound

TEMPERATURE = Float(
    "temperature",
    1.2,
    0.0,
    2.0,
    step=0.05,
    symbol="T",
    neutral=0.0,
    help="Of the policy: how different the children of a state are.",
    source="ours",
)
DELIMITER = Text("delimiter", ";", help="What ends a step.", source="ours")
WAITING = "waiting"  # the fate of a path that is not fed for now; recorded as alive


SEARCH: dict[str, Any] = {  # what all methods of the family declare
    "needs": {"target": "causal", "prm": part("prm")},
    "emits": {"commits", "scores", "branches", "facts", "note"},
    "lanes": {"reward": "probability"},
    "baseline": "greedy",
    "paths": {},
}


class Policy:
    """Paths, what was written on all of them, and who scores them. p has temperature T, max_new_tokens, delimiter and
    reward. written: tokens of all paths; calls: states that were scored."""

    def __init__(self, models: Roles, prompt: list[int], p: Params, run: Recorder, rows: int) -> None:
        self.model: CausalLM = models.target
        self.start, self.end, self.p = len(prompt), len(prompt) + p.max_new_tokens, p
        self.paths = Paths(self.model, prompt, rows=rows, rng=run.rng)
        self.score = scorer(p.reward, models, prompt, run)
        self.calls = self.written = 0
        self.forbidden = dict[int, set[int]]()

    def over(self, path: Path) -> bool:
        """Whether a path has come to its end."""
        return path.length > self.start and path.tip.token in self.model.eos_ids

    def cut(self, path: Path) -> bool:
        """Whether a path is at its longest and has not ended."""
        return path.length >= self.end and not self.over(path)

    def leader(self, paths: Sequence[Path], score: str) -> Path:
        """The path with the best of these scores: of those that were not cut, if there are any."""
        whole = [path for path in paths if path.fate != "pruned"] or paths
        return max(whole, key=lambda path: (path.scores.get(score, 0.0), -path.id))

    def finish(self, path: Path) -> None:
        """Take a path that has ended, or is at its longest, off those that go on."""
        if self.over(path) or self.cut(path):
            self.paths.drop(path, "finished" if self.over(path) else "pruned")

    def stepped(self, path: Path, begun: int) -> bool:
        """Whether a path that was `begun` tokens long has come to the end of a step."""
        step = self.model.tokenizer.decode(self.paths.read(path)[begun:])
        return self.over(path) or path.length >= self.end or self.p.delimiter in step

    def forbid(self, position: int, tokens: Collection[int]) -> None:
        """From now on no path writes these tokens at a position."""
        self.forbidden[position] = self.forbidden.get(position, set()) | set(tokens)

    def edited(self, edit: Edit | None, run: Recorder, shown: Path) -> None:
        """What a person changed: forced tokens stand in every path, forbidden ones are not written. shown: the path on
        the board."""
        for position, tokens in edit.forbid.items() if edit else ():
            self.forbid(position, tokens)
        self.paths.apply_edit(run, edit, shown)

    def draw(self, path: Path, temperature: float) -> None:
        """The next token of a path."""
        z = path.logits.clone()
        if forbidden := self.forbidden.get(path.length):
            z[sorted(forbidden)] = -torch.inf
        self.written += len(self.paths.write(path, [draw(distribution(z, temperature), path.rng)]))

    def steps(self, writing: Sequence[Path]) -> None:
        """One step of each path, a token of all of them per forward. They stay alive: who is done waits for the
        others, and its rows stay in the cache."""
        begun, active = {path.id: path.length for path in writing}, list(writing)
        while active:
            self.paths.feed()
            for path in active:
                self.draw(path, self.p.temperature)
            active = [path for path in active if not self.stepped(path, begun[path.id])]

    def rate(self, paths: Sequence[Path]) -> list[float]:
        """r in [0, 1] of the states at which paths stand."""
        self.calls += len(paths)
        return self.score([self.paths.read(path) for path in paths])


Score = Callable[[Sequence[Sequence[int]]], list[float]]


def scorer(name: str, models: Roles, prompt: Sequence[int], run: Recorder) -> Score:
    """r in [0, 1] of texts (token ids, the question first). Raises UserError for "exact" where the prompt is no chain
    of operations."""
    if name == "model":

        def call(rows: int, compute: Callable[[], float], layer_rows: int) -> float:
            return run.call("prm", "cpu", rows, compute, layer_rows=layer_rows)

        return StepReward(models.prm.tensors, call).score
    decode, start = models.target.tokenizer.decode, len(prompt)
    question = decode(prompt).strip("^?")
    if CHAINS.read(question) is None:
        raise UserError(
            "reward=exact knows the values of chains such as 4+8-9*7 only, and the prompt is none; write one, or take "
            "reward=model."
        )

    def exact(texts: Sequence[Sequence[int]]) -> list[float]:
        ended = [bool(ids) and ids[-1] in models.target.eos_ids for ids in texts]
        return [
            float(sound(question, decode(list(ids)[start : len(ids) - over]), ended=over))
            for ids, over in zip(texts, ended, strict=True)
        ]

    return exact
