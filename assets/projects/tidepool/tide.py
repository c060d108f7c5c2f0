"""When the water comes."""


class TideTable:
    """High water by the hour."""

    def __init__(self, first_flood: float) -> None:
        self._first = first_flood

    def next_flood(self, after: float) -> float:
        """The hour of the next high water."""
        return after + 12.4 - (after - self._first) % 12.4
