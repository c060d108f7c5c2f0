"""What is measured of the operators G of power-law graph attention (arXiv 2502.13502): how far they depend on the text.

Shapes: P texts, L layers, h heads of size d."""

from engines.core.lazy import Tensor, torch


def spread(G: Tensor) -> Tensor:
    """Relative spread over texts: G [P, L, h, d, d] -> RMS(G - mean over texts) / RMS(G), of each layer [L]. 0: G does
    not depend on the text."""
    return _rms(G - G.mean(0), (0, 2, 3, 4)) / _rms(G, (0, 2, 3, 4))


def change(before: Tensor, after: Tensor) -> Tensor:
    """Relative change of G [L, h, d, d]: RMS(after - before) / RMS(before), of each layer [L]."""
    return _rms(after - before, (1, 2, 3)) / _rms(before, (1, 2, 3))


def logdet(G: Tensor) -> Tensor:
    """log |det G| of matrices [..., d, d], in float64 [...]; -inf for a singular one."""
    return torch.linalg.slogdet(G.double()).logabsdet


def identity(like: Tensor) -> Tensor:
    """The G of scaled dot-product attention, in the shape [..., d, d] of another."""
    return torch.eye(like.shape[-1], dtype=like.dtype, device=like.device).expand_as(like)


def _rms(x: Tensor, over: tuple[int, ...]) -> Tensor:
    return x.double().square().mean(over).sqrt()
