"""What a refusal says."""

from collections.abc import Callable
from typing import Any

import pytest


def refuses(error: type[Exception], sentence: str, call: Callable[..., Any], *given: Any, **named: Any) -> None:
    """The call, whose arguments are as they should be made, ends in an error that says the sentence (a pattern; "" for
    any words)."""
    with pytest.raises(error, match=sentence or r"\w"):
        call(*given, **named)
