"""A task of lm-evaluation-harness on this machine: a YAML file and JSON lines, made of held-out prompts."""

import json
from functools import partial
from importlib.util import find_spec
from itertools import islice
from pathlib import Path

import pytest

from engines.tasks import TASKS


@pytest.fixture(autouse=True)
def apart(tmp_path, monkeypatch):
    """Answers and kept runs of a test are its own, and the harness indexes its ten thousand tasks for none of them."""
    monkeypatch.setenv("EXPLORER_SWEEPS", str(tmp_path / "answers"))
    monkeypatch.setenv("EXPLORER_STORE", str(tmp_path / "runs"))
    for name in ("LMEVAL_LOG_LEVEL", "HF_DATASETS_DISABLE_PROGRESS_BARS", "TOKENIZERS_PARALLELISM"):
        monkeypatch.setenv(name, "")  # the command sets them; afterwards they are as before
        monkeypatch.delenv(name)
    if find_spec("lm_eval") is None:
        return
    import lm_eval.evaluator
    import lm_eval.tasks

    quick = partial(lm_eval.tasks.TaskManager, include_defaults=False)
    monkeypatch.setattr("lm_eval.tasks.TaskManager", quick)
    monkeypatch.setattr("lm_eval.evaluator.TaskManager", quick)


@pytest.fixture
def task(tmp_path):
    """Writes one and returns the path of its YAML file."""

    import yaml

    def write(name: str, docs: list[dict], **config) -> Path:
        lines = tmp_path / f"{name}.jsonl"
        lines.write_text("".join(json.dumps(doc) + "\n" for doc in docs), "utf-8")
        kwargs = {"data_files": {"test": str(lines)}, "cache_dir": str(tmp_path / "datasets")}
        whole = {"task": name, "dataset_path": "json", "dataset_kwargs": kwargs, "test_split": "test", **config}
        path = tmp_path / f"{name}.yaml"
        path.write_text(yaml.safe_dump(whole), "utf-8")
        return path

    return write


@pytest.fixture
def sorting(task):
    """`sort` with its exact check, in the chat format of the tiny models."""

    def write(count: int = 6, **generation) -> Path:
        held_out = islice(TASKS["sort"].generate("held-out", 2), count)
        docs = [{"prompt": f"<user> {one.prompt}<turn>", "answer": one.answer} for one in held_out]
        filters = [{"function": "remove_whitespace"}, {"function": "take_first"}]
        return task(
            "sorting",
            docs,
            output_type="generate_until",
            doc_to_text="{{prompt}}",
            doc_to_target="{{answer}}",
            generation_kwargs={"until": [], "do_sample": False, "max_gen_toks": 32, **generation},
            filter_list=[{"name": "stripped", "filter": filters}],
            metric_list=[{"metric": "exact_match", "aggregation": "mean", "higher_is_better": True}],
        )

    return write


@pytest.fixture
def choice(task):
    """Which of two texts follows: scored, not decoded."""
    choices = [" Ada Leo Mia", " Mia Leo Ada"]
    asked = [f"<user> {task}: Mia, Leo, Ada<turn>" for task in ("sort", "copy")]
    docs = [{"q": one, "choices": choices, "label": label} for label, one in enumerate(asked)]
    return task(
        "choice",
        docs,
        output_type="multiple_choice",
        doc_to_text="{{q}}",
        doc_to_choice="{{choices}}",
        doc_to_target="{{label}}",
        target_delimiter="",
        metric_list=[{"metric": "acc", "aggregation": "mean", "higher_is_better": True}],
    )
