"""Watch any decoding loop without changing it: `engines.watch`.

Hooks on a torch module see what goes into each forward and what comes out. From that the steps of the loop are read:
over a board with masks in `masked`, left to right in `causal`. What cannot be known is marked missing, never guessed.
"""

from engines.watching.session import Watch, watch

__all__ = ["Watch", "watch"]
