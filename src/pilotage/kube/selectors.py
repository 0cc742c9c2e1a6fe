"""Label selectors as kubectl writes them: `pool=gpu,zone in (a,b),!spot`."""

from __future__ import annotations

import re

from pilotage.model.constraints import Constraints, Requirement
from pilotage.model.errors import InputError

MAX_LENGTH = 4096
EXPECTED = "kubectl's form, such as pool=gpu,zone in (a,b),!spot"

_KEY = r"(?P<key>[A-Za-z0-9](?:[A-Za-z0-9._/-]*[A-Za-z0-9])?)"
_VALUE = r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?"
_SET = re.compile(rf"{_KEY}\s+(?P<operator>in|notin)\s+\((?P<values>[^()]*)\)")
_EQUAL = re.compile(rf"{_KEY}\s*(?P<operator>==|=|!=)\s*(?P<value>{_VALUE})?")
_EXISTS = re.compile(rf"(?P<not>!)?\s*{_KEY}")
_PARTS = re.compile(r",(?![^()]*\))")  # commas outside of brackets


def read_label_selector(text: str, field: str) -> Constraints:
    """Nodes with these labels."""
    if len(text) > MAX_LENGTH:
        raise InputError(f"{len(text)} characters", field=field, expected=f"at most {MAX_LENGTH}")
    return Constraints(terms=(tuple(_requirement(part.strip(), field) for part in _PARTS.split(text)),))


def _requirement(part: str, field: str) -> Requirement:
    if found := _SET.fullmatch(part):
        values = tuple(value.strip() for value in found["values"].split(","))
        if all(re.fullmatch(_VALUE, value) for value in values):
            return Requirement(found["key"], "In" if found["operator"] == "in" else "NotIn", values)
    elif found := _EQUAL.fullmatch(part):
        return Requirement(found["key"], "NotIn" if found["operator"] == "!=" else "In", (found["value"] or "",))
    elif found := _EXISTS.fullmatch(part):
        return Requirement(found["key"], "DoesNotExist" if found["not"] else "Exists")
    raise InputError(f"{part!r} is no part of a selector", field=field, expected=EXPECTED)
