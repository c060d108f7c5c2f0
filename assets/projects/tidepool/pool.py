"""A tide pool and what lives in it."""

from species import Creature
from tide import TideTable


class Pool:
    """Creatures between two tides."""

    def __init__(self, table: TideTable) -> None:
        self.table = table
        self.dwellers: list[Creature] = []

    def settle_in(self, creature: Creature) -> None:
        """A creature stays."""
        self.dwellers.append(creature)

    def headcount(self) -> int:
        """How many live here."""
        return len(self.dwellers)

    def oldest_dweller(self) -> Creature:
        """The one that has been here longest."""
        return max(self.dwellers, key=lambda one: one.tides_seen)
