"""Traces as files for other people and other programs: pages, figures, films. `figure` and `animation` are imported at
first use."""

from typing import Any

__all__ = ["animation", "figure"]


def __getattr__(name: str) -> Any:
    if name == "figure":
        from explorer.export.figures import figure

        return figure
    if name == "animation":
        from explorer.export.film import animation

        return animation
    raise AttributeError(f"module 'explorer.export' has no attribute '{name}'")
