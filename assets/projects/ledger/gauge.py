"""A dial that only turns forward."""


class Gauge:
    """Counts up, and starts again when it is told to."""

    def __init__(self) -> None:
        self.notches = 0

    def bump(self, by: int) -> int:
        """Turn the dial forward."""
        self.notches += by
        return self.notches

    def rewind_dial(self) -> None:
        """Back to zero."""
        self.notches = 0
