"""Token Recycling: what the table is told to hold, and where a walk ends. Whole episodes are golden cases."""

import pytest
import torch

import engines
from engines.methods.speculative._verify import Draft, emitted_tokens, verify
from tests.engines.fakes import TableCausal


def decode(model, **params):
    return engines.run("token-recycling", model, [1, 2, 3], params={"max_new_tokens": 40, **params})


def test_the_record_shows_the_rows_read_and_written_and_links_every_node_to_its_cell():
    before: dict[int, list[int]] = {}  # rows of the table as earlier steps left them
    for step in decode(TableCausal(memory=1)).steps:
        tree, sources = step.tree, step.tree.guessed_from
        assert {m.key[0] for m in step.memory if m.read} == {tree.tokens[parent] for parent in tree.parents[1:]}
        assert {m.key[0] for m in step.memory if m.written} >= set(tree.tokens)
        assert all(len(m.tokens) == 8 and m.source == "matrix" for m in step.memory)
        assert sorted(row for source in sources for row, _ in source.links) == list(range(1, len(tree.tokens)))
        for source in sources:
            assert all([tree.tokens[tree.parents[row]]] == source.key for row, _ in source.links)
            assert source.tokens == before.get(source.key[0], source.tokens)
            before[source.key[0]] = source.after
        before |= {m.key[0]: m.tokens for m in step.memory if m.written}


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_nothing_is_accepted_behind_an_end_mark(temperature):
    """All that is drafted is what the target would write; the walk ends at an end mark and draws nothing more."""
    z = torch.full((4, 9), -1e4)
    z[torch.arange(4), torch.tensor([1, 7, 3, 2])] = 0.0
    draft = Draft.of([5, 1, 7, 3], [-1, 0, 1, 2], "matrix")
    whole, ended, root = (
        verify(z, draft, temperature, torch.Generator().manual_seed(0), frozenset(ends)) for ends in ((), (7,), (5,))
    )
    assert emitted_tokens(draft, whole) == [1, 7, 3, 2] and whole.path == [0, 1, 2, 3]
    assert emitted_tokens(draft, ended) == [1, 7] and ended.path == [0, 1, 2]
    assert (ended.emitted, ended.source) == (-1, "draft")
    assert root.path == whole.path  # the root is text already
