"""A method in the terminal, a line for each step: `python -m engines.methods SLUG [MODEL PROMPT]`, without a model what
the gallery shows of the method."""

import json
import sys

from engines.core.errors import UserError
from engines.core.places import ASSETS
from engines.core.registry import get_method
from engines.driver.show import show


def main(arguments: list[str]) -> None:
    """Decode with the method of that slug. Raises UserError where there is none."""
    if len(arguments) not in (1, 3):
        sys.exit("usage: python -m engines.methods SLUG [MODEL PROMPT]")
    slug, *given = arguments
    get_method(slug)
    if given:
        return show(slug, *given)
    papers = [json.loads(path.read_text("utf-8")) for path in (ASSETS / "papers").glob("*.json")]
    played = [run for paper in papers for run in paper.get("gallery", ()) if run["method"] == slug]
    run = min(played, key=lambda run: not run["model"].startswith("tiny-"))  # those ship
    show(slug, run["model"], run["prompt"], **run.get("params", {}))


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except UserError as error:
        sys.exit(str(error))
