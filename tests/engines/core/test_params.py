"""Parameters: a checked value is in range and of its type, text means what the typed value means, bad input is a
sentence."""

import math

import pytest

from engines.core.errors import UserError
from engines.core.params import Bool, Choice, Code, Float, Int, Text, resolve

N, X = Int("n", 4, 1, 9, help=""), Float("x", 0.5, 0.0, 1.0, help="")
B, C, T = Bool("b", True, help=""), Choice("c", "red", ["red", "blue"], help=""), Text("t", "", help="")
K = Code("k", "one", {"one": "x = 1\n", "two": "y = 2\n"}, help="")
HUGE = [10**400, -(10**400), 10**6000, "9" * 6000, float("inf"), float("-inf"), float("nan"), "nan", "inf", "1e999"]


@pytest.mark.parametrize("value", [1, 9, 4.0, "4", " 7 ", 1e0])
def test_whole_numbers(value):
    got = N.check(value)
    assert type(got) is int and got == float(value) and N.check(got) == got


@pytest.mark.parametrize("value", [0, 1, 0.25, "0.25", "1e-3"])
def test_numbers(value):
    got = X.check(value)
    assert type(got) is float and got == float(value) and X.check(got) == got


@pytest.mark.parametrize("p", [N, X])
@pytest.mark.parametrize("value", [*HUGE, -1, 10, None, "", "a", True, [], {}, [1], b"\xff", 1j], ids=lambda value: "")
def test_what_is_no_number_in_range_is_a_sentence(p, value):
    with pytest.raises(UserError, match=f"{p.name}=.*from") as caught:
        p.check(value)
    assert len(str(caught.value)) < 200


def test_fractions_are_no_whole_numbers():
    with pytest.raises(UserError, match="whole number"):
        N.check(1.5)


@pytest.mark.parametrize(("given", "meant"), [(True, True), ("on", True), ("No", False), (0, False), ("1", True)])
def test_switches(given, meant):
    assert B.check(given) is meant


@pytest.mark.parametrize(
    ("p", "value"),
    [
        (B, "maybe"),
        (B, None),
        (B, 2),
        (C, "green"),
        (C, None),
        (C, 3),
        (T, 3),
        (T, "x" * 2001),
        (T, "\ud800"),
        (K, 3),
        (K, "x" * 12_001),
        (K, "\ud800"),
    ],
)
def test_other_kinds_refuse_with_a_sentence(p, value):
    with pytest.raises(UserError, match=f"{p.name}"):
        p.check(value)


def test_a_longer_text_is_a_name_or_the_text_itself():
    assert K.check("two") == "two" and K.check("z = 3\n" * 1000) == "z = 3\n" * 1000
    assert "one, two" in K.allowed()


def test_resolve_overlays_the_defaults_and_knows_its_names():
    assert vars(resolve([N, X], {"n": "2"})) == {"n": 2, "x": 0.5}
    assert vars(resolve([], None)) == {}
    with pytest.raises(UserError, match="unknown parameter 'm'; this method has n, x"):
        resolve([N, X], {"m": 1})


def test_the_bounds_are_inclusive_and_said():
    assert (N.check(1), N.check(9)) == (1, 9)
    assert "from 1 to 9" in N.allowed() and "red, blue" in C.allowed()
    with pytest.raises(UserError):
        X.check(math.nextafter(1.0, 2))
