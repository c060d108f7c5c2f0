"""Yarn and its colours."""


class Tint:
    """A colour as the dyer names it."""

    def __init__(self, vat: str, dips: int) -> None:
        self.vat_name = vat
        self.dips = dips

    def dip_again(self) -> "Tint":
        """One shade darker."""
        return Tint(self.vat_name, self.dips + 1)


class Skein:
    """A length of one yarn."""

    def __init__(self, tint: Tint, fathoms: int) -> None:
        self.tint = tint
        self.fathoms_left = fathoms

    def reel_off(self, fathoms: int) -> int:
        """Take a length from it."""
        self.fathoms_left -= fathoms
        return self.fathoms_left
