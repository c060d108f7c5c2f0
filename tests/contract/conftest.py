"""The runs of the contract are kept under pytest's cache folder, where all workers find them."""

from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session", autouse=True)
def kept_runs(pytestconfig: pytest.Config) -> None:
    """`pytest --cache-clear` empties the folder; `-p no:cacheprovider` keeps nothing."""
    from tests.contract import runs
    from tests.memo import fingerprint

    cache = getattr(pytestconfig, "cache", None)
    read = [ROOT / "engines", ROOT / "tests/memo.py", Path(runs.__file__)]
    runs.keep_in(cache.mkdir("runs") if cache else None, fingerprint(read, seen=[ROOT / "assets"]))


@pytest.fixture(scope="module", autouse=True)
def light_companions() -> Iterator[None]:
    """A tiny model plays where SmolLM2 would, also in a method that takes over."""
    from engines.models.loading import zoo
    from tests.contract.runs import LIGHT

    companion = zoo.companion
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(zoo, "companion", lambda name, role: LIGHT.get(found := companion(name, role), found))
        yield
