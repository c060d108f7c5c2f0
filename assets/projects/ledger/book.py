"""A book of payments, kept in cents."""

from gauge import Gauge


class Row:
    """One payment."""

    def __init__(self, payer: int, cents: int) -> None:
        self.payer_tag = payer
        self.cents_in = cents


class Book:
    """Payers and what they paid."""

    def __init__(self) -> None:
        self.rows_kept: list[Row] = []
        self.payer_tags: set[int] = set()
        self.dial = Gauge()

    def enroll_payer(self, payer: int) -> None:
        """Make a payer known."""
        self.payer_tags.add(payer)

    def push_row(self, payer: int, cents: int) -> Row:
        """Write a payment down."""
        row = Row(payer, cents)
        self.rows_kept.append(row)
        self.dial.bump(cents)
        return row

    def tally_cents(self) -> int:
        """What was paid in all."""
        return sum(row.cents_in for row in self.rows_kept)
