"""Yarn and its colours."""


class Tint:
    """A colour as the dyer names it."""

    def __init__(self, vat: str, dips: int) -> None:
        self._vat = vat
        self._dips = dips

    def dip_again(self) -> "Tint":
        """One shade darker."""
        return Tint(self._vat, self._dips + 1)


class Skein:
    """A length of one yarn."""

    def __init__(self, tint: Tint, fathoms: int) -> None:
        self.tint = tint
        self._fathoms = fathoms

    def reel_off(self, fathoms: int) -> int:
        """Take a length from it."""
        self._fathoms -= fathoms
        return self._fathoms
