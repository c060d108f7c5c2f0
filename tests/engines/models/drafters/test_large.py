"""A tree of sixty nodes over a vocabulary of 128 k: what a step records does not grow with the vocabulary."""

import engines
from engines.models.drafters import load_drafter, with_drafter
from tests.engines.models.drafters import made

SIZES = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
}
TREE = {"max_new_tokens": 8, "nodes": 59, "depth": 5, "top_k": 10}


def recorded(folder, vocab_size):
    sizes = SIZES | {"vocab_size": vocab_size}
    target = engines.load_model(made.target(folder / f"target-{vocab_size}", **sizes), dtype="float32")
    drafter = load_drafter(made.eagle(folder / f"drafter-{vocab_size}", **sizes), target)
    return engines.run("eagle", with_drafter(target, drafter), [5, 6, 7, 8], params=TREE)


def test_a_step_of_sixty_nodes_keeps_its_size_whatever_the_vocabulary(tmp_path):
    small, large = recorded(tmp_path, 2_000), recorded(tmp_path, 128_000)
    assert max(step.facts["drafted"] for step in large.steps) == 59
    each = [len(trace.to_json()) / len(trace.steps) for trace in (small, large)]
    assert each[1] < 1.3 * each[0] and each[1] < 60_000
