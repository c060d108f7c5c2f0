"""What the activation patterns of a sparse layer say: the share of experts off for a whole chunk, and reuse;
and the two losses that shape them (BlockFFN, arXiv 2507.08771, sections 3 and 4).

A pattern is boolean [T, N]: which of N experts are on for each of T tokens in a row. Router scores a0 [..., T, N] are
those before the ReLU."""

from engines.core.lazy import Tensor, torch


def cls(on: Tensor, length: int) -> float | None:
    """Chunk-level sparsity: the mean share of experts that are off for every token of a chunk, over chunks of that many
    tokens that do not overlap; a rest behind the last whole chunk does not count. None where there is no whole chunk.

    Raises ValueError for chunks shorter than one token."""
    if length < 1:
        raise ValueError(f"chunks of {length} tokens cannot be; give 1 or more")
    whole = len(on) // length * length
    if not whole:
        return None
    return 1 - float(on[:whole].unflatten(0, (-1, length)).any(1).double().mean())


def reuse(on: Tensor) -> float | None:
    """The mean share of a token's experts that the next token uses too; tokens that use none do not count. None where
    no token that another one follows uses any."""
    here, both = on[:-1].sum(1), (on[:-1] & on[1:]).sum(1)
    some = here > 0
    return float((both[some].double() / here[some]).mean()) if bool(some.any()) else None


def locality_loss(a0: Tensor, documents: Tensor, alpha: float = 100.0) -> Tensor:
    """Activation locality: binary cross-entropy, in nats, of the soft pattern sigmoid(alpha a0) of each token with the
    logits alpha a0 of the token before it, over pairs inside one document and all experts. Gradients reach both.

    a0: router scores [..., T, N]; documents [..., T]: the document of each token."""
    inside = documents[..., 1:] == documents[..., :-1]
    before, here = alpha * a0[..., :-1, :][inside], alpha * a0[..., 1:, :][inside]
    return torch.nn.functional.binary_cross_entropy_with_logits(before, here.sigmoid())


def sparsity_loss(a0: Tensor, length: int = 64, eps: float = 1e-5) -> Tensor:
    """Chunk sparsification: the mean over chunks of `length` tokens and over experts of the chance that some token of
    the chunk uses the expert, where a token's experts share a chance of 1 by their ReLU scores, normed as the router
    norms them (the code; the paper takes them as they are).

    a0: router scores [..., T, N]; T must be whole chunks."""
    a1 = a0.relu()
    a1 = a1 * torch.rsqrt(a1.square().mean(-1, keepdim=True) + eps)
    p = a1 / (a1.sum(-1, keepdim=True) + 1e-5)
    none = (1 - p + 1e-5).log().unflatten(-2, (-1, length)).sum(-2).exp()
    return (1 - none).mean()
