"""The threshold and the factor rule: at least one commit, the line is kept, and the borders meet the base decoder."""

import pytest
import torch

import engines
from engines.methods.diffusion.fast_dllm_v1 import above_threshold, within_factor
from tests.engines.fakes import TableMasked, commits

CONF = [torch.rand(m, generator=torch.Generator().manual_seed(m), dtype=torch.float64) for m in (1, 2, 3, 8, 30)]


def decode(slug, seed=0, G=24, b=8, scale=2.0, **params):
    return engines.run(
        slug, TableMasked(seed=seed, scale=scale), [1, 2, 3], params={"max_new_tokens": G, "block_length": b, **params}
    )


def test_a_confidence_on_the_line_passes_and_lines_at_the_borders():
    assert len(above_threshold(torch.tensor([0.9, 0.5, 0.9], dtype=torch.float64), 0.9)[0]) == 2
    assert [len(c) for c in commits(decode("threshold", threshold=0.0))] == [8, 8, 8]
    for seed in range(3):
        assert commits(decode("threshold", seed, threshold=1.01)) == commits(decode("llada", seed))
    for b in (2, 8, 24):  # the last two masks of a block go together: the quirk of the official scan
        assert decode("factor", b=b, factor=0.0).totals.forwards == 24 - 24 // b


@pytest.mark.parametrize("conf", CONF, ids=len)
@pytest.mark.parametrize("f", [0.0, 0.5, 1.0, 2.0, 4.0])
def test_the_factor_rule_keeps_the_papers_bound(conf, f):
    chosen, causes = within_factor(conf, f)
    c, m = sorted(conf.tolist(), reverse=True), len(conf)
    assert conf[chosen].tolist() == c[: len(chosen)] and len(causes) == len(chosen) >= 1
    if len(chosen) < m:  # (n + 1)(1 - c_n) <= f for every one kept, and the next one breaks it
        assert all((n + 1) * (1 - c[n - 1]) <= f + 1e-12 for n in range(2, len(chosen) + 1))
        n = len(chosen) + 1
        assert (n + 1) * (1 - c[n - 1]) > f


def test_lower_lines_and_higher_factors_need_fewer_forwards_at_the_first_board():
    sizes = [len(commits(decode("threshold", b=24, threshold=t))[0]) for t in (1.01, 0.9, 0.5, 0.2, 0.0)]
    assert sizes == sorted(sizes) and sizes[0] == 1 and sizes[-1] == 24
    sizes = [len(commits(decode("factor", b=24, factor=f))[0]) for f in (0, 0.5, 1, 2, 4)]
    assert sizes == sorted(sizes)
