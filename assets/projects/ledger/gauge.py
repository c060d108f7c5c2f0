"""A dial that only turns forward."""


class Gauge:
    """Counts up, and starts again when it is told to."""

    def __init__(self) -> None:
        self._notches = 0

    def bump(self, by: int) -> int:
        """Turn the dial forward."""
        self._notches += by
        return self._notches

    def rewind_dial(self) -> None:
        """Back to zero."""
        self._notches = 0
