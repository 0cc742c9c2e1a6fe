"""A value of a document together with its place, so that whatever is wrong is reported with file, line and path.

Reading a document is walking over `Field`s: `spec.get("replicas").integer(default=1)`. A field that is missing is a
field whose value is None; a value of the wrong kind is an `InputError` that says what would be right.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from math import isfinite
from typing import TypeVar

from pilotage.model.errors import InputError, UnknownNameError
from pilotage.model.resources import parse_quantity
from pilotage.workloads.yaml_documents import Document, LocatedMap

T = TypeVar("T")

_NUMBER = re.compile(r"(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?")
_SIMPLE_KEY = re.compile(r"\w+")
_KINDS = {dict: "a mapping", list: "a list", str: "text", bool: "a boolean", int: "a number", float: "a number"}


@dataclass(frozen=True, slots=True)
class Field:
    """One value, and where it stands: `path` as in spec.containers[0], `line` of its key, from 1."""

    value: object
    file: str
    document: int
    line: int
    path: str = ""

    @classmethod
    def of(cls, document: Document) -> Field:
        return cls(document.content, document.file, document.number, document.line)

    @property
    def place(self) -> Field:
        """The same place without the value: what to keep when an error may be found later."""
        return replace(self, value=None)

    @property
    def present(self) -> bool:
        return self.value is not None

    @property
    def _where(self) -> str:
        return f"document {self.document}" + (f", {self.path}" if self.path else "")

    def error(self, problem: str, expected: str | None = None) -> InputError:
        return InputError(problem, file=self.file, row=self.line, field=self._where, expected=expected)

    def wrong_kind(self, expected: str) -> InputError:
        if self.value is None:
            return self.error("is missing", expected)
        kind = next((name for known, name in _KINDS.items() if isinstance(self.value, known)), "a value")
        shown = "" if isinstance(self.value, dict | list) else f" {str(self.value)[:60]!r}"
        return self.error(f"is {kind}{shown}", expected)

    def unknown(self, kind: str, name: str, known: Collection[str]) -> UnknownNameError:
        """For a name that is no `kind`, with the known ones that are like it."""
        return UnknownNameError(kind, name, known, file=self.file, row=self.line, field=self._where)

    def located(self, read: Callable[[], T]) -> T:
        """The result of `read`; an InputError from deeper down, which knows no place, gets this one."""
        try:
            return read()
        except InputError as error:
            if error.file is not None:
                raise
            raise self.error(error.problem, error.expected) from error

    # Going down

    def get(self, key: str) -> Field:
        mapping = self._mapping()
        line = mapping.lines.get(key, self.line) if isinstance(mapping, LocatedMap) else self.line
        return self._below(mapping.get(key), self._path_of(key), line)

    def items(self) -> Iterator[tuple[str, Field]]:
        return ((key, self.get(key)) for key in self._mapping())

    def only(self, *known: str) -> Field:
        """This mapping, when it has no other keys than these."""
        for key, entry in self.items():
            if key not in known:
                raise entry.unknown("field", key, known)
        return self

    def without_effect(self, *keys: str) -> list[str]:
        """A note for each of these keys that is there: known, and read by nobody."""
        return [f"{self.get(key).path} has no effect" for key in self._mapping() if key in keys]

    def elements(self) -> Iterator[Field]:
        if self.value is None:
            return
        if not isinstance(self.value, list):
            raise self.wrong_kind("a list")
        for index, value in enumerate(self.value):
            line = value.line if isinstance(value, LocatedMap) else self.line
            yield self._below(value, f"{self.path}[{index}]", line)

    def _mapping(self) -> dict[str, object]:
        if self.value is None:
            return {}
        if not isinstance(self.value, dict):
            raise self.wrong_kind("a mapping")
        return self.value

    def _path_of(self, key: str) -> str:
        if not _SIMPLE_KEY.fullmatch(key):
            return f"{self.path}[{key[:80]!r}]"
        return f"{self.path}.{key}" if self.path else key

    def _below(self, value: object, path: str, line: int) -> Field:
        return Field(value, self.file, self.document, line, path)

    # Taking values

    def text(self, default: str | None = None, *, expected: str = "text (in quotes, if it looks like a number)") -> str:
        if self.value is None and default is not None:
            return default
        if not isinstance(self.value, str):
            raise self.wrong_kind(expected)
        return self.value

    def name(self, default: str | None = None) -> str:
        """Text that can be part of "namespace/name"."""
        text = self.text(default, expected="a name")
        if not text or len(text) > 253 or "/" in text or not text.isprintable() or any(map(str.isspace, text)):
            raise self.error(f"{text[:60]!r} is not a name", "1 to 253 characters without spaces and '/'")
        return text

    def choice(self, options: tuple[str, ...], default: str | None = None, *, kind: str = "") -> str:
        """One of the options; empty text counts as missing, as everywhere in Kubernetes.

        Where the options are names of some `kind`, the error points to those that are alike.
        """
        if self.value in (None, "") and default is not None:
            return default
        if self.value not in options:
            if kind and isinstance(self.value, str):
                raise self.unknown(kind, self.value, options)
            raise self.wrong_kind(" or ".join(options))
        return str(self.value)

    def integer(self, default: int | None = None, *, low: int = 0, high: int = 2**31 - 1) -> int:
        if self.value is None and default is not None:
            return default
        if isinstance(self.value, bool) or not isinstance(self.value, int) or not low <= self.value <= high:
            raise self.wrong_kind(f"a whole number from {low} to {high}")
        return self.value

    def number(self, default: float | None = None, *, low: float = 0.0, high: float = 1e12) -> float:
        if self.value is None and default is not None:
            return default
        if isinstance(self.value, bool) or not isinstance(self.value, int | float) or not low <= self.value <= high:
            raise self.wrong_kind(f"a number from {low:g} to {high:g}")
        return float(self.value)

    def boolean(self, default: bool = False) -> bool:
        if self.value is None:
            return default
        if not isinstance(self.value, bool):
            raise self.wrong_kind("true or false")
        return self.value

    def seconds(self) -> float | None:
        """A finite number, as such or as text (annotations are text); None when missing."""
        if self.value is None:
            return None
        text = str(self.value)
        if isinstance(self.value, bool) or not _NUMBER.fullmatch(text) or not isfinite(float(text)):
            raise self.wrong_kind('seconds, such as "3600" or "0.5"')
        return float(text)

    def quantity(self) -> Fraction:
        """A resource quantity that is not negative."""
        value = self.value
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise self.wrong_kind("a quantity such as 500m, 2 or 1Gi")
        parsed = self.located(lambda: parse_quantity(value))
        if parsed < 0:
            raise self.error(f"{value} is negative", "zero or more")
        return parsed

    def whole_quantity(self) -> int:
        """A quantity of things that cannot be divided: devices, pods."""
        quantity = self.quantity()
        if quantity.denominator != 1:
            raise self.error(f"{self.value} is not whole", "a whole number")
        return int(quantity)

    def strings(self) -> dict[str, str]:
        """A mapping of text to text such as labels; null is empty text."""
        return {key: entry.text("") for key, entry in self.items()}

    def string_list(self) -> tuple[str, ...]:
        return tuple(entry.text() for entry in self.elements())
