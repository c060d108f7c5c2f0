"""Draft trees, on random ones."""

import itertools
import random

import pytest

from engines.core import trees

RANDOM = [[-1, *(random.Random(seed).randrange(row) for row in range(1, 3 + seed % 12))] for seed in range(20)]


@pytest.mark.parametrize("parents", [[-1], *RANDOM])
def test_mask_rows_are_the_ancestors(parents):
    mask, depths = trees.ancestor_mask(parents), trees.row_depths(parents)
    assert mask.sum(-1).tolist() == [d + 1 for d in depths]
    for row in range(len(parents)):
        seen, at = set(), row
        while at >= 0:
            seen.add(at)
            at = parents[at]
        assert set(mask[row].nonzero()[:, 0].tolist()) == seen


@pytest.mark.parametrize("parents", [[-1], *RANDOM])
def test_paths_and_children_describe_the_same_tree(parents):
    below, paths = trees.children(parents), trees.leaf_paths(parents)
    assert sorted(c for rows in below for c in rows) == list(range(1, len(parents)))
    assert [path[-1] for path in paths] == [row for row in range(len(parents)) if not below[row]]
    for path in paths:
        assert path[0] == 0 and all(parents[b] == a for a, b in itertools.pairwise(path))


@pytest.mark.parametrize("parents", RANDOM)
def test_the_greedy_walk_finds_the_longest_matching_path(parents):
    rng = random.Random(len(parents))
    for _ in range(20):
        tokens, wanted = [[rng.randrange(3) for _ in parents] for _ in range(2)]
        seen = set()
        for row, parent in enumerate(parents):  # siblings carry different tokens, as in every tree of ours
            while (parent, tokens[row]) in seen:
                tokens[row] += 1
            seen.add((parent, tokens[row]))
        lengths = []
        for path in trees.leaf_paths(parents):
            fits = [tokens[b] == wanted[a] for a, b in itertools.pairwise(path)]
            lengths.append(fits.index(False) if False in fits else len(fits))
        got = trees.longest_match(parents, tokens, wanted)
        assert len(got) - 1 == max(lengths)
        assert all(parents[b] == a and tokens[b] == wanted[a] for a, b in itertools.pairwise(got))


def test_child_counts():
    parents, ranks = trees.from_child_counts([2, 1, 0, 3])
    assert (parents, ranks) == ([-1, 0, 0, 1, 3, 3, 3], [-1, 0, 1, 0, 0, 1, 2])
    assert trees.from_child_counts([]) == ([-1], [-1])
    with pytest.raises(ValueError, match="only 1 rows"):
        trees.from_child_counts([0, 1])
