"""Quantities against Kubernetes' grammar, limits and rounding."""

from __future__ import annotations

from contextlib import suppress
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilotage.model.errors import InputError
from pilotage.model.resources import MAX_INT64, cpu_milli, format_cpu, format_memory, parse_quantity, whole

DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *[(f"3{suffix}", 3 * Fraction(10) ** power) for suffix, power in DECIMAL.items()],
        *[(f"3{suffix}", Fraction(3 * 2**power)) for suffix, power in BINARY.items()],
        ("0", 0),
        ("-0", 0),
        ("+1", 1),
        ("-1.5", Fraction(-3, 2)),
        (".5", Fraction(1, 2)),
        ("5.", 5),
        ("5.Gi", 5 * 2**30),
        ("+.5Ki", 512),
        ("0.1", Fraction(1, 10)),
        ("001", 1),
        ("1E", 10**18),
        ("1Ei", 2**60),
        ("1E3", 1000),
        ("1e3", 1000),
        ("1e+3", 1000),
        ("1E-3", Fraction(1, 1000)),
        ("1.5e0", Fraction(3, 2)),
        ("0e999999999", 0),
        ("0.9n", Fraction(1, 10**9)),
        ("1e-999999999", Fraction(1, 10**9)),
        ("-1e-12", Fraction(-1, 10**9)),
        ("1.0000000001", Fraction(1_000_000_001, 10**9)),
        ("9223372036854775807", MAX_INT64),
        ("9223372036854775807.000000000", MAX_INT64),
        (7, 7),
        (0.1, Fraction(1, 10)),
        (1e18, 10**18),
        (1e-07, Fraction(1, 10**7)),
    ],
)
def test_what_a_quantity_means(text: str | int | float, value: Fraction | int) -> None:
    assert parse_quantity(text) == value


@pytest.mark.parametrize(
    "text",
    [
        *[
            "",
            ".",
            "+",
            "-",
            "m",
            "Gi",
            "e3",
            "1e",
            "1e+",
            "1i",
            "1mi",
            "1K",
            "1ki",
            "1KB",
            "1GB",
            "1g",
            "1 Gi",
            " 1",
            "1\n",
        ],
        *[
            "1,5",
            "1.2.3",
            "--1",
            "0x10",
            "1_000",
            "1e3Gi",
            "1Gi3",
            "1e1.5",
            "\u0661",
            "inf",
            "NaN",
            "1Mi ",
            "1Zi",
            "1E3E",
        ],
    ],
)
def test_what_is_no_quantity(text: str) -> None:
    with pytest.raises(InputError, match=r"is not a quantity; expected a quantity such as 500m, 2, 1\.5"):
        parse_quantity(text)


@pytest.mark.parametrize("value", [True, float("inf"), float("nan"), None, [1]])
def test_other_values_are_refused(value: object) -> None:
    with pytest.raises(InputError, match="is not a quantity"):
        parse_quantity(value)  # type: ignore[arg-type]


@pytest.mark.parametrize("text", ["8Ei", "9223372036854775808", "-8.1Ei", "10E", "1e999999999", 2**63, 1e300])
def test_beyond_int64_is_refused(text: str | int | float) -> None:
    with pytest.raises(InputError, match="does not fit into 64 bits"):
        parse_quantity(text)


def test_long_text_is_refused_before_it_is_read() -> None:
    with pytest.raises(InputError, match=r"a quantity of 1000000 characters .*; expected at most 64"):
        parse_quantity("1" * 1_000_000)


@pytest.mark.parametrize(
    ("text", "milli", "units"), [("1", 1000, 1), ("100u", 1, 1), ("1500m", 1500, 2), ("1n", 1, 1), ("0", 0, 0)]
)
def test_rounding_is_up(text: str, milli: int, units: int) -> None:
    assert cpu_milli(text) == milli
    assert whole(text) == units
    assert whole(parse_quantity(text)) == units


def test_requests_are_not_negative_and_fit() -> None:
    with pytest.raises(InputError, match="-1m is negative; expected zero or more"):
        cpu_milli("-1m")
    with pytest.raises(InputError, match="is negative"):
        whole(Fraction(-1, 2))
    with pytest.raises(InputError, match="does not fit into 64 bits"):
        cpu_milli("1E")


@pytest.mark.parametrize(
    ("milli", "text"), [(0, "0"), (1, "1m"), (1500, "1500m"), (2000, "2"), (10**6, "1k"), (12_000_000, "12k")]
)
def test_cpu_is_written_in_canonical_form(milli: int, text: str) -> None:
    assert format_cpu(milli) == text


@pytest.mark.parametrize(
    ("size", "text"),
    [
        *[(0, "0"), (1023, "1023"), (1024, "1Ki"), (2**30, "1Gi"), (3 * 2**29, "1536Mi"), (10**6, "1M")],
        *[(2**62, "4Ei"), (MAX_INT64, "9223372036854775807"), (1024000, "1024k"), (1000, "1k")],
    ],
)
def test_memory_is_written_in_canonical_form(size: int, text: str) -> None:
    assert format_memory(size) == text


@given(st.integers(0, MAX_INT64))
def test_memory_comes_back(size: int) -> None:
    assert whole(format_memory(size)) == size
    assert parse_quantity(format_memory(size)) == size


@given(st.integers(0, MAX_INT64))
def test_cpu_comes_back(milli: int) -> None:
    assert cpu_milli(format_cpu(milli)) == milli


@given(
    st.sampled_from(["", "+", "-"]),
    st.integers(0, 10**6),
    st.text("0123456789", max_size=3),
    st.sampled_from([*DECIMAL, *BINARY]),
)
def test_every_form_is_exact(sign: str, number: int, part: str, suffix: str) -> None:
    scale = Fraction(2) ** BINARY[suffix] if suffix in BINARY else Fraction(10) ** DECIMAL[suffix]
    value = (number + (Fraction(int(part), 10 ** len(part)) if part else 0)) * scale
    value = Fraction(-(-value * 10**9 // 1), 10**9)  # no finer than a nano, rounded up
    text = f"{sign}{number}.{part}{suffix}"
    if value > MAX_INT64:
        with pytest.raises(InputError):
            parse_quantity(text)
    else:
        assert parse_quantity(text) == (-value if sign == "-" else value)


@given(st.integers(-(10**6), 10**6), st.integers(-12, 12), st.sampled_from("eE"))
def test_exponents_are_exact(number: int, exponent: int, letter: str) -> None:
    value = abs(number) * Fraction(10) ** exponent
    value = Fraction(-(-value * 10**9 // 1), 10**9)
    assert parse_quantity(f"{number}{letter}{exponent}") == (-value if number < 0 else value)


@given(st.floats(0, 1e15))
def test_floats_mean_what_they_show(number: float) -> None:
    assert abs(parse_quantity(number) - Fraction(repr(number))) < Fraction(1, 10**9)


@given(st.text(max_size=80))
def test_any_text_is_read_or_refused(text: str) -> None:
    with suppress(InputError):  # and nothing else
        assert abs(parse_quantity(text)) <= MAX_INT64
