"""What is said of the numbers, for the page and for the static site: parts of `assets/docs`."""

from explorer.papers.documents import section

NUMBERS = section("measuring", "How the numbers are obtained")
KEYS = section("using", "Keyboard")
SWEEPS = section("measuring", "What a method adds to a plain threshold")
