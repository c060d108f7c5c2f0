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
        self._rows: list[Row] = []
        self._payers: set[int] = set()
        self.dial = Gauge()

    def enroll_payer(self, payer: int) -> None:
        """Make a payer known."""
        self._payers.add(payer)

    def push_row(self, payer: int, cents: int) -> Row:
        """Write a payment down."""
        row = Row(payer, cents)
        self._rows.append(row)
        self.dial.bump(cents)
        return row

    def tally_cents(self) -> int:
        """What was paid in all."""
        return sum(row.cents_in for row in self._rows)
