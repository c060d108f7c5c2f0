"""Who may live in a pool."""


class Creature:
    """A snail, a crab, an anemone."""

    def __init__(self, kind_name: str) -> None:
        self.kind_name = kind_name
        self.tides_seen = 0

    def sit_out_tide(self) -> int:
        """Wait until the water is back."""
        self.tides_seen += 1
        return self.tides_seen
