"""Kubernetes resource quantities: "250m", "1.5Gi", "2e3", ".5", read exactly and written in their canonical form.

A quantity is a `Fraction`, never a float: 0.1 CPU is 100 milli and not 101. As in Kubernetes, what is finer than a
nano is rounded away from zero to a nano, and `cpu_milli` and `whole` round up. Unlike Kubernetes, which silently caps
"8Ei", a value outside int64 is refused.
"""

from __future__ import annotations

import re
from fractions import Fraction
from math import ceil, isfinite

from pilotage.model.errors import InputError

MAX_QUANTITY_LENGTH = 64  # characters; the longest exact int64 with nanos needs 30
MAX_INT64 = 2**63 - 1

_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_NANO = 10**9

# "1E" is exa and "1E3" is an exponent: an E counts as exponent only when digits follow, so that form is tried first.
_QUANTITY = re.compile(
    r"(?P<sign>[+-]?)(?P<whole>[0-9]*)(?:\.(?P<part>[0-9]*))?"
    r"(?:[eE](?P<exponent>[+-]?[0-9]+)|(?P<suffix>[KMGTPE]i|[numkMGTPE])?)"
)
# Beyond this an exponent cannot change the answer: with at most MAX_QUANTITY_LENGTH digits the value is already
# outside int64, or already less than a nano. It keeps "1e999999999" from building a number of a billion digits.
_EXPONENT_LIMIT = 2 * MAX_QUANTITY_LENGTH

_EXPECTED = "a quantity such as 500m, 2, 1.5, 2e3, 128Mi or 1Gi (suffixes n u m k M G T P E, Ki Mi Gi Ti Pi Ei)"
_EXPECTED_RANGE = f"a value between -{MAX_INT64} and {MAX_INT64}"


def parse_quantity(text: str | int | float) -> Fraction:
    """The exact value of a quantity; numbers are taken as YAML and JSON write them (0.1 is one tenth)."""
    if isinstance(text, bool) or not isinstance(text, str | int | float):
        raise InputError(f"{text!r} is not a quantity", expected=_EXPECTED)
    if isinstance(text, int):
        return _within_int64(Fraction(text), "the number")
    if isinstance(text, float):
        if not isfinite(text):
            raise InputError(f"{text!r} is not a quantity", expected=_EXPECTED)
        text = repr(text)
    if len(text) > MAX_QUANTITY_LENGTH:
        raise InputError(
            f"a quantity of {len(text)} characters ({text[:20]!r}...)", expected=f"at most {MAX_QUANTITY_LENGTH}"
        )
    match = _QUANTITY.fullmatch(text)
    if match is None or not (match["whole"] or match["part"]):
        raise InputError(f"{text!r} is not a quantity", expected=_EXPECTED)
    return _within_int64(_value(match), repr(text))


def _value(match: re.Match[str]) -> Fraction:
    whole, part = match["whole"], match["part"] or ""
    magnitude = Fraction(int(whole + part), 10 ** len(part))
    suffix = match["suffix"] or ""
    if suffix in _BINARY:
        magnitude *= 2 ** _BINARY[suffix]
    else:
        exponent = _bounded_exponent(match["exponent"]) if match["exponent"] else _DECIMAL[suffix]
        magnitude *= Fraction(10) ** exponent
    magnitude = Fraction(ceil(magnitude * _NANO), _NANO)
    return -magnitude if match["sign"] == "-" else magnitude


def _bounded_exponent(text: str) -> int:
    return max(-_EXPONENT_LIMIT, min(int(text), _EXPONENT_LIMIT))


def _within_int64(value: Fraction, shown: str) -> Fraction:
    if abs(value) > MAX_INT64:
        raise InputError(f"{shown} does not fit into 64 bits", expected=_EXPECTED_RANGE)
    return value


def cpu_milli(quantity: str | int | float | Fraction) -> int:
    """Thousandths, rounded up. For requests and capacities: a negative quantity is an error."""
    return _rounded_up(quantity, 1000)


def whole(quantity: str | int | float | Fraction) -> int:
    """Whole units (bytes, devices, pods), rounded up. A negative quantity is an error."""
    return _rounded_up(quantity, 1)


def _rounded_up(quantity: str | int | float | Fraction, units: int) -> int:
    value = quantity if isinstance(quantity, Fraction) else parse_quantity(quantity)
    if value < 0:
        raise InputError(f"{quantity} is negative", expected="zero or more")
    rounded = ceil(value * units)
    if rounded > MAX_INT64:
        raise InputError(f"{quantity} times {units} does not fit into 64 bits", expected=f"at most {MAX_INT64}")
    return rounded


def format_cpu(milli: int) -> str:
    """1500 -> "1500m", 2000 -> "2"."""
    return _with_decimal_suffix(milli, -3)


def format_memory(size: int) -> str:
    """2**30 -> "1Gi", 10**6 -> "1M", 1023 -> "1023": the shorter of the binary and the decimal form."""
    return min(_with_binary_suffix(size), _with_decimal_suffix(size, 0), key=len)


def _with_decimal_suffix(count: int, exponent: int) -> str:
    while count and count % 1000 == 0 and exponent < 18:
        count, exponent = count // 1000, exponent + 3
    suffix = next(name for name, power in _DECIMAL.items() if power == exponent)
    return f"{count}{suffix}" if count else "0"


def _with_binary_suffix(count: int) -> str:
    suffix = ""
    for name in _BINARY:
        if count == 0 or count % 1024:
            break
        count, suffix = count // 1024, name
    return f"{count}{suffix}"
