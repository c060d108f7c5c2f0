"""A*-decoding: continue the partial solution that promises most, wherever it stands (Chatziveroglou, arXiv:2505.13672;
its code, gchatz22/a_star_decoding, could not be read).

A state s is the question and the steps so far, a move one sampled step. A process reward model says r(s) in [0, 1]; the
estimate is h(s) = 1 - r(s), a move to s' costs c, g(s') = g(s) + c, and the open state with the smallest f = g + h is
expanded next: k steps are sampled behind it, duplicates dropped, the others scored and put into the frontier. A state
that ends wins when it comes first.

The formulas are as far as reviews of the paper tell them: c = max(0, h(s') - h(s)) pays only for steps that make
things look worse (rule "increase"); "consistent" pays max(0, h(s) - h(s')), with which f never falls on a way, and
"zero" nothing. Order of equals (the deeper, then the earlier), r = 0.5 of the question itself, and what happens when
the budget is spent (the best state that has ended, else the best open one is finished greedily) are ours.

Letters: k children, r, h, g, f as above, T the temperature of the policy."""

from collections.abc import Collection

from engines.kit import (
    Branch,
    Choice,
    Edit,
    Int,
    Params,
    Path,
    Recorder,
    Roles,
    Steps,
    max_new_tokens,
    method,
)
from engines.methods.search._policy import DELIMITER, SEARCH, TEMPERATURE, WAITING, Policy
from engines.methods.search.a_star_decoding.frontier import COSTS, Frontier, Standing, State

ROOT = 0.5  # r of the question itself: any value gives the same order


@method(
    "a-star-decoding",
    title="A*-decoding",
    own="after the abstract, own costs of a step",
    paper="arXiv:2505.13672",
    summary="Continues the partial solution that a reward model finds most promising, wherever in the tree it stands.",
    params=[
        max_new_tokens(96),
        Int("k", 4, 1, 8, source="ours"),
        Int("budget", 20, 1, 64, source="ours"),
        TEMPERATURE,
        Choice("cost", "increase", list(COSTS), source="according to reviews of the paper"),
        Choice("reward", "model", ["model", "exact"], source="ours"),
        Choice("queue", "all", ["all", "children"], source="ours"),
        DELIMITER,
    ],
    records={"frontier": Standing},
    signature="frontier",
    **SEARCH,
)
def decode(models: Roles, prompt: list[int], p: Params, run: Recorder) -> Steps:
    """An expansion per step. The board shows the open state that is next, and in the end the solution."""
    search = Search(models, prompt, p, run)
    while search.result is None:
        if search.over(shown := search.shown()):  # a person's token ended it
            break
        search.expand(search.frontier.pop())
        if search.spent():
            search.settle()
        shown = search.shown()
        edit = yield run.step(
            commits=search.paths.commits(run.board, shown),
            scores=lambda: {"reward": search.rewards(shown)},
            branches=search.branches(),
            records={"frontier": search.standing()},
            facts=search.facts(),
            note=search.told,
        )
        search.edited(edit, run, shown)


class Search(Policy):
    """The tree, its frontier and what it cost. The item of a state is its path."""

    def __init__(self, models: Roles, prompt: list[int], p: Params, run: Recorder) -> None:
        super().__init__(models, prompt, p, run, rows=(p.k + 1) * (p.max_new_tokens + 1))
        self.expansions = self.duplicates = 0
        self.states = dict[int, State]()
        self.result: Path | None = None
        self.frontier, self.told, self.expanded, self.back = Frontier(p.cost), "", -1, False
        self.begin(self.paths.add())

    def begin(self, path: Path) -> None:
        """Make a path the root of what is searched from now on."""
        for other in self.paths.paths:
            if other is not path and other.fate != "pruned":
                self.paths.drop(other)
        self.frontier.clear()
        self.paths.drop(path, WAITING)
        self.hold(self.frontier.push(ROOT, terminal=self.over(path), item=path), path)

    def hold(self, state: State, path: Path) -> None:
        """Keep the state of a path, with what it is ranked by."""
        self.states[path.id] = state
        path.scores = {"f": state.f, "g": state.g, "h": state.h}

    def expand(self, state: State) -> None:
        """k steps behind a state: sampled side by side, scored, and put into the frontier."""
        parent: Path = state.item  # type: ignore[assignment]
        self.expansions, self.expanded = self.expansions + 1, parent.id
        self.paths.drop(parent, "expanded")
        if self.p.queue == "children":
            for other in self.frontier.states():
                self.paths.drop(other.item)  # type: ignore[arg-type]
            self.frontier.clear()
        children = [self.paths.fork(parent) for _ in range(self.p.k)]
        children[0].rng = parent.rng  # a single child is plain sampling
        for child in children:
            child.scores = {}
        self.sample(children, parent.length)
        fresh, texts = list[Path](), list[list[int]]()
        for child in children:
            text = self.paths.read(child)
            if (cut := self.cut(child)) or text in texts:
                self.duplicates += not cut
                self.paths.drop(child)
            else:
                fresh.append(child)
                texts.append(text)
        for child, r in zip(fresh, self.rate(fresh), strict=True):
            self.hold(self.frontier.push(r, state, self.over(child), child), child)
            self.paths.drop(child, "finished" if self.over(child) else WAITING)
        best = self.shown()
        back = self.back = bool(fresh) and best.parent != parent.id
        self.told = (
            f"Expansion {self.expansions}, from path {parent.id} (f {state.f:.2f}); new states: {len(fresh)}. "
            + (f"None of them is best: the search returns to path {best.id}. " if back else "")
            + f"Open: {len(self.frontier)}."
        )

    def sample(self, children: list[Path], begun: int) -> None:
        """One step of each child, a token of all of them per forward."""
        while living := self.paths.living:
            self.paths.feed()
            for path in living:
                self.draw(path, self.p.temperature)
                if self.stepped(path, begun):
                    self.paths.drop(path, WAITING)

    def spent(self) -> bool:
        """Whether the search is over: nothing is open, a state that has ended comes first, or the budget is spent."""
        first = self.frontier.states()[:1]
        return not first or first[0].terminal or self.expansions >= self.p.budget

    def settle(self) -> None:
        """Take the solution: of the states that have ended the best, else the best open one, finished greedily."""
        best = self.frontier.settle()
        if best is None:
            self.result = self.paths.paths[0]
            self.told += " No state is left to continue: all were cut at the maximum length, and nothing is written."
            return
        path: Path = best.item  # type: ignore[assignment]
        if best is self.frontier.states()[0] and best.terminal:
            self.told += f" Path {path.id} is finished and has the lowest f ({best.f:.2f}): it is the solution."
        elif best.terminal:
            self.told += f" The budget is spent; path {path.id} is the best finished one."
        else:
            self.told += " The budget is spent and no path is finished: the best one is completed greedily."
            self.paths.resume(path)
            while not self.over(path) and path.length < self.end:
                self.paths.feed()
                self.draw(path, 0.0)
        self.paths.drop(path, "chosen")
        self.result = path

    def shown(self) -> Path:
        """The solution, or the open state that is next."""
        best = self.frontier.states()[:1]
        if self.result is not None or not best:
            return self.result or self.paths.paths[0]
        return best[0].item  # type: ignore[return-value]

    def rewards(self, path: Path) -> tuple[list[int], list[float]]:
        """Board positions of the ends of a path's states, and r there."""
        at, r, state = list[int](), list[float](), self.states.get(path.id)
        while state is not None and state.parent is not None:
            at.append(state.item.length - 1)  # type: ignore[attr-defined]
            r.append(1 - state.h)
            state = state.parent
        return at[::-1], r[::-1]

    def standing(self) -> Standing:
        """The frontier behind an expansion."""
        waiting = [state.item for state in self.frontier.states() if state.item is not self.result]
        paths = waiting if self.result is None else [self.result, *waiting]
        return Standing([path.id for path in paths], self.expanded, self.back)  # type: ignore[attr-defined]

    def branches(self) -> list[Branch]:
        """The record of the paths: open states are alive."""
        waiting = [path for path in self.paths.paths if path.fate == WAITING]
        for path in waiting:
            path.fate = "alive"
        branches = self.paths.branches()
        for path in waiting:
            path.fate = WAITING
        return branches

    def facts(self) -> dict[str, float]:
        """Counters: tokens are those of the policy on all paths, calls those of the reward model."""
        return {
            "expansions": self.expansions,
            "frontier": len(self.frontier),
            "prm_calls": self.calls,
            "tokens_of_all_paths": self.written,
            "duplicates": self.duplicates,
        }

    def forbid(self, position: int, tokens: Collection[int]) -> None:
        """Also drops the open states that have one of them there."""
        super().forbid(position, tokens)
        stays = list[State]()
        for state in self.frontier.states():
            path: Path = state.item  # type: ignore[assignment]
            if path.length > position and self.paths.read(path)[position] in tokens:
                self.paths.drop(path)
            else:
                stays.append(state)
        self.frontier.keep(stays)
        if not stays:
            self.begin(self.paths.paths[0])

    def edited(self, edit: Edit | None, run: Recorder, shown: Path) -> None:
        """A person's token is a new root: the search begins again behind it."""
        super().edited(edit, run, shown)
        if edit and edit.force:
            self.result = None
            self.begin(shown)
