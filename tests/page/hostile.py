"""Bad input, generated: values of the wrong sort and text that is hard to handle."""

import json
from typing import Any

from hypothesis import strategies as st

MARKUP = [
    "<img src=x onerror=window.hit=1>",
    "</script><script>window.hit=2</script>",
    "${window.hit=3} `${window.hit=4}` {{window.hit=5}} {{{window.hit=6}}}",
    "<!-- --> ]]> &lt;b&gt; javascript:window.hit=7",
    '" onmouseover="window.hit=8" x="',
    "<svg onload=window.hit=9><style>*{display:none}</style>",
]
ODD = [
    "",
    " ",
    "e\u0301" * 40 + "\u0336" * 60,  # combining marks
    "\u202eabc\u202c \u2066x\u2069 שלום مرحبا",  # right to left, and overrides
    "👩‍👩‍👧‍👦🏳️‍🌈🇩🇪" * 5,
    "a\u200b\u200c\u200d\ufeffb\u2060",  # zero width
    "\x00\x01\x07\x1b[31m\x7f\x85\u2028\u2029",
    "\ud800",
    "x\udc00y",
    "\U0010ffff\ufffe",
    "'; DROP TABLE x; --",
    "../../etc/passwd",
    "%s %n {0} {x!r} $(id)",
    "ﷺ" * 50,
]
TEXTS = st.one_of(
    st.sampled_from([*MARKUP, *ODD]),
    st.text(max_size=60),
    st.text(alphabet=st.characters(), max_size=8).map(lambda t: t * 400),
)
WHOLE = [0, -1, 1, 2**31, 2**53, 2**63, 2**64, -(2**63) - 1, 10**300]
REAL = [0.5, 1e308, -1e308, 5e-324, float("nan"), float("inf"), float("-inf")]
NUMBERS = st.one_of(st.sampled_from([*WHOLE, *REAL]), st.integers(-(10**6), 10**6), st.floats(width=64))
DEEP = st.integers(10, 60).map(lambda n: json.loads("[" * n + "]" * n))
LISTS, OBJECTS = st.lists(NUMBERS, max_size=4), st.dictionaries(TEXTS, NUMBERS, max_size=3)
VALUES = st.one_of(st.none(), st.booleans(), NUMBERS, TEXTS, DEEP, st.just([]), st.just({}), LISTS, OBJECTS)


def places(body: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The paths of everything in a JSON value, a few of each long list."""
    found = [path] if path else []
    if isinstance(body, dict):
        for key, value in body.items():
            found += places(value, (*path, key))
    elif isinstance(body, list):
        for i in sorted({0, 1, len(body) // 2, len(body) - 1} & set(range(len(body)))):
            found += places(body[i], (*path, i))
    return found
