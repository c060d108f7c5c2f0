"""Whether a fork's replay is what was recorded: step by step, tokens and positions."""

from collections.abc import Callable, Sequence

from engines.core.trace import Origin, Step


class Replay:
    """Holds the steps of a fork against those of its parent, up to the fork. Where they part first, `origin.diverged`
    says so."""

    def __init__(self, origin: Origin, recorded: Sequence[Step]) -> None:
        self.origin, self._recorded = origin, recorded[: origin.step]
        self._where = ""

    def compare(self, step: Step, piece: Callable[[int], str]) -> None:
        """Compare a new step. piece: how a token looks."""
        if self.origin.diverged is not None or step.index >= len(self._recorded):
            return
        then, now = committed(self._recorded[step.index]), committed(step)
        if then == now:
            return
        self.origin.diverged = step.index
        place = next((i for i, (a, b) in enumerate(zip(then, now, strict=False)) if a != b), None)
        if place is None:
            self._where = f"{len(then)} tokens were written there, {len(now)} now"
        else:
            (p, a), (q, b) = then[place], now[place]
            self._where = f"“{piece(a)}” at position {p} there, “{piece(b)}” at position {q} now"

    def finish(self, steps: int) -> None:
        """The run ended after that many steps."""
        if self.origin.diverged is None and steps < len(self._recorded):
            self.origin.diverged = steps
            self._where = "the run ends there now"

    @property
    def sentence(self) -> str:
        """What to tell a person; nothing where the replay is the recording."""
        if self.origin.diverged is None:
            return ""
        return (
            f"the replay diverged from the recording at step {self.origin.diverged + 1} ({self._where}): what is shown "
            "goes on from the replay."
        )


def committed(step: Step) -> list[tuple[int, int]]:
    """Positions and tokens of a step, in the order in which they were decided."""
    return list(zip(step.commits.positions, step.commits.tokens, strict=True)) if step.commits else []
