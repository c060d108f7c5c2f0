"""Held-out prompts of the small tasks as data of lm-evaluation-harness: the `custom_dataset` of `assets/eval`."""

from itertools import islice
from typing import Any

from engines.tasks import TASKS
from explorer.bench.quality import SEED


def held_out(kind: str = "sort", prompts: int = 50, **ignored: Any) -> dict[str, Any]:
    """The first prompts of a task, those that `decoding-explorer sweep` takes, as the split `test` with `prompt` and
    `answer`. ignored: metadata of the harness."""
    from datasets import Dataset

    examples = islice(TASKS[kind].generate("held-out", SEED), prompts)
    return {"test": Dataset.from_list([{"prompt": example.prompt, "answer": example.answer} for example in examples])}
