"""Where the experts of a mixture go, from counts of which token used which expert (Speculative MoE, arXiv 2503.04398).

Letters: N experts of a layer, G devices, V token ids; T [V, N] how often a token id used an expert, a [V] how often it
came, C [N] expert -> device."""

import numpy as np

NOWHERE = -1  # of a token id that a table does not know, of an expert that is not placed yet
MOST = 1.15  # of the mean load, that a device may get where it is placed by affinity


def in_order(N: int, G: int) -> np.ndarray:
    """The ordinary placement C [N]: the first N / G experts on device 0, and so on."""
    return np.arange(N) * G // N


def affinity(T: np.ndarray) -> np.ndarray:
    """How much two experts [N, N] serve the same token ids: sum over ids of a p_e p_f."""
    a = T.sum(1)
    p = T / np.maximum(a, 1)[:, None]
    matrix = (p * a[:, None]).T @ p
    np.fill_diagonal(matrix, 0)
    return matrix


def grouped(T: np.ndarray, G: int, tries: int = 2000, seed: int = 0, most: float = MOST) -> np.ndarray:
    """C [N]: experts that serve the same token ids on one device, N / G on each.

    Heaviest expert first, each to the open device to whose experts its affinity is largest, among those that it does
    not load beyond `most` times the mean, or else to the least loaded; then swaps."""
    N, A, load = T.shape[1], affinity(T.astype(np.float64)), T.sum(0).astype(np.float64)
    C, held, limit = np.full(N, NOWHERE), np.zeros(G), most * max(load.sum(), 1e-9) / G
    for e in np.argsort(-load, kind="stable"):
        open_ = [g for g in range(G) if (g == C).sum() < -(-N // G)]
        fits = [g for g in open_ if held[g] + load[e] <= limit] or [min(open_, key=lambda g: held[g])]
        g = max(fits, key=lambda g: (float(A[e, g == C].sum()), -held[g]))
        C[e], held[g] = g, held[g] + load[e]
    return swapped(A, C, load, tries, seed, limit)


def swapped(
    A: np.ndarray, C: np.ndarray, load: np.ndarray, tries: int, seed: int = 0, limit: float = np.inf
) -> np.ndarray:
    """The placement after that many tried swaps of two experts of different devices. One is kept where the affinity
    inside devices grows and no device comes to bear more than `limit`, or than the busier of the two bore."""
    rng, C = np.random.default_rng(seed), C.copy()
    i, j = rng.integers(0, len(C), (tries, 2)).T
    at = 0  # all tries from here on are judged at once; up to the first that is kept, that is what each of them meets
    while at < tries:
        on = C[:, None] == np.arange(C.max() + 1)  # [N, G]
        S, held = A @ on, load @ on  # what an expert shares with all of a device [N, G], what a device bears [G]
        e, f = i[at:], j[at:]
        own, other = C[e], C[f]
        gain = S[e, other] + S[f, own] - 2 * A[e, f] - S[e, own] - S[f, other]
        moved, a, b = load[f] - load[e], held[own], held[other]
        bears, may = np.maximum(a + moved, b - moved), np.maximum(np.maximum(a, b), limit)
        kept = (own != other) & (gain > 1e-12) & (bears <= may)
        if not kept.any():
            break
        first = at + int(kept.argmax())
        C[i[first]], C[j[first]] = C[j[first]], C[i[first]]
        at = first + 1
    return C


def inside(A: np.ndarray, C: np.ndarray) -> float:
    """What the swaps raise: the affinity of all pairs of experts that share a device."""
    return float(A[C[:, None] == C[None]].sum())
