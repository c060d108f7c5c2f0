"""Experts spread over devices: what a layer's exchange costs, tables that foretell it, and where to put experts and
tokens (Speculative MoE, arXiv 2503.04398).

Letters: B tokens, k experts of each, N experts of a layer, G devices, V token ids; T [V, N] how often a token id used
an expert, a [V] how often it came, R token -> device, C expert -> device."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from engines.models.measures.placement import MOST, NOWHERE


class Exchange(NamedTuple):
    """One layer's all-to-all, one way. lar: share of (token, expert) pairs whose expert is on the token's device;
    remote: pairs that are not; visits [G, G]: tokens that go from a device to another one, once each; load [G]: pairs
    that a device computes; imbalance: largest load over the mean."""

    lar: float
    remote: int
    visits: np.ndarray
    load: np.ndarray
    imbalance: float

    def bytes(self, hidden: int, out: int, back: int, *, once: bool) -> tuple[int, int]:
        """Bytes of dispatch and of combine. out, back: bytes of a number; once: a token goes to a device once, whatever
        the number of its experts there."""
        sent = int(self.visits.sum()) if once else self.remote
        return sent * hidden * out, sent * hidden * back


def exchange(experts: np.ndarray, home: np.ndarray, C: np.ndarray, G: int) -> Exchange:
    """experts [B, k], -1 where a token uses fewer; home [B]: the device where each token is; C [N]."""
    on = experts >= 0
    at = np.where(on, C[np.where(on, experts, 0)], NOWHERE)  # [B, k]
    local = on & (at == home[:, None])
    visits = np.zeros((G, G), dtype=np.int64)
    for device in range(G):
        goes = (at == device).any(1) & (home != device)
        visits[:, device] += np.bincount(home[goes], minlength=G)
    load = np.bincount(at[on], minlength=G)
    pairs = max(1, int(on.sum()))
    return Exchange(
        int(local.sum()) / pairs, int((on & ~local).sum()), visits, load, float(load.max() * G / max(1, load.sum()))
    )


def balanced_table(T: np.ndarray, C: np.ndarray, G: int, most: float = MOST) -> np.ndarray:
    """R [V] with a quota: the most frequent token id first, each to the device that holds most of what it used, among
    those where not more than `most` times the mean of all tokens would then be."""
    a, R, load = T.sum(1), np.full(len(T), NOWHERE), np.zeros(G)
    wishes = np.argsort(-np.stack([T[:, g == C].sum(1) for g in range(G)], 1), 1, kind="stable")
    limit = most * a.sum() / G
    for token in np.argsort(-a, kind="stable"):
        if a[token] == 0:
            break
        R[token] = next((g for g in wishes[token] if load[g] + a[token] <= limit), load.argmin())
        load[R[token]] += a[token]
    return R


def round_robin(B: int, G: int) -> np.ndarray:
    """The ordinary place of B tokens [B]."""
    return np.arange(B) % G


def shuffled(R: np.ndarray, tokens: Sequence[int], G: int) -> np.ndarray:
    """Each token [B] on its foretold device; one that nothing is known of stays in its ordinary place."""
    at = R[np.asarray(tokens, dtype=np.int64)]
    return np.where(at == NOWHERE, round_robin(len(at), G), at)
