"""What the answers to a task cost, per answer, in the figures of `decoding-explorer compare`."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from explorer.evaluation.items import Answer

COUNTS = ("steps", "target_calls", "other_calls", "work", "tokens_fed", "tokens", "seconds")
HEADS = {"target_calls": "model calls", "tokens_per_call": "tokens per call", "other_calls": "other calls"}
HEADS |= {"tokens_fed": "tokens fed", "reused": "from before"}
SHOWN = ("answers", "target_calls", "tokens_per_call", "other_calls", "work", "tokens_fed", "tokens", "seconds", "cut")
LEGEND = (
    "per answer, but for answers, cut (at max_new_tokens, with no end mark), shortened (its context was too long and "
    "lost its beginning) and from before (answered in an earlier run, with the seconds of then); work: rows x layers; "
    "seconds: model and method, without recording"
)


@dataclass
class Costs:
    """Sums over the answers to a task. reused: those that were given in an earlier run."""

    answers: list[Answer] = field(default_factory=list)
    reused: int = 0

    def add(self, answer: Answer, reused: bool) -> None:
        """One more."""
        self.answers.append(answer)
        self.reused += reused

    def means(self) -> dict[str, Any]:
        """Means per answer, and what all calls gave together; tokens per call is None where nothing was decoded."""
        count, calls = len(self.answers), sum(answer.target_calls for answer in self.answers)
        decoded = any(answer.score is None for answer in self.answers)
        means = {name: sum(getattr(answer, name) for answer in self.answers) / count for name in COUNTS}
        gained = sum(answer.gained for answer in self.answers)
        return {
            "answers": count,
            "reused": self.reused,
            **means,
            "tokens_per_call": gained / calls if decoded and calls else None,
            "cut": sum(answer.cut for answer in self.answers),
            "shortened": sum(answer.left_out > 0 for answer in self.answers),
        }


def table(costs: Mapping[str, Mapping[str, Any]]) -> tuple[list[str], list[list[Any]]]:
    """Heads and rows, one task each."""
    shown = [*SHOWN, "shortened", "reused"]
    heads = ["task", *(HEADS.get(name, name) for name in shown)]
    return heads, [[task, *(_short(cost[name]) for name in shown)] for task, cost in costs.items()]


def _short(value: Any) -> Any:
    """A mean of large counts without its decimals."""
    return round(value) if isinstance(value, float) and value >= 100 else value
