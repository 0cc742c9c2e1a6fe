"""Values of a JSON file together with their place, so that whatever is wrong is reported with file and field."""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from pilotage.model.errors import InputError, UnknownNameError

MOST = 1e300
_KINDS = {dict: "an object", list: "a list", str: "text", bool: "a boolean", int: "a number", float: "a number"}


@dataclass(frozen=True, slots=True)
class JsonField:
    """One value; `path` as in architecture.hidden. A field that is missing has the value None."""

    value: object
    file: Path
    path: str = ""

    @classmethod
    def of(cls, data: bytes, file: Path) -> JsonField:
        try:
            return cls(json.loads(data, parse_constant=_refuse), file)
        except (ValueError, RecursionError) as error:
            raise InputError(f"is not JSON: {str(error)[:120]}", file=file) from error

    def error(self, problem: str, expected: str | None = None) -> InputError:
        return InputError(problem, file=self.file, field=self.path or None, expected=expected)

    def wrong(self, expected: str) -> InputError:
        if self.value is None:
            return self.error("is missing", expected)
        kind = next((name for known, name in _KINDS.items() if isinstance(self.value, known)), "a value")
        shown = "" if isinstance(self.value, dict | list) else f" {str(self.value)[:60]!r}"
        return self.error(f"is {kind}{shown}", expected)

    def get(self, key: str) -> JsonField:
        return JsonField(self.mapping().get(key), self.file, f"{self.path}.{key}" if self.path else key)

    def only(self, known: Collection[str]) -> JsonField:
        """This object, when it has no other keys than these."""
        for key in self.mapping():
            if key not in known:
                raise UnknownNameError("field", key[:80], known, file=self.file, field=self.path or None)
        return self

    def mapping(self) -> dict[str, object]:
        if not isinstance(self.value, dict):
            raise self.wrong("an object")
        return self.value

    def text(self, most: int = 200) -> str:
        if not isinstance(self.value, str) or len(self.value) > most or not self.value.isprintable():
            raise self.wrong(f"printable text of at most {most} characters")
        return self.value

    def choice(self, options: Collection[str], kind: str) -> str:
        text = self.text()
        if text not in options:
            raise UnknownNameError(kind, text[:80], options, file=self.file, field=self.path)
        return text

    def integer(self, low: int, high: int) -> int:
        if isinstance(self.value, bool) or not isinstance(self.value, int) or not low <= self.value <= high:
            raise self.wrong(f"a whole number from {low} to {high}")
        return self.value

    def number(self) -> float:
        if isinstance(self.value, bool) or not isinstance(self.value, int | float) or not abs(self.value) <= MOST:
            raise self.wrong(f"a number from -{MOST:g} to {MOST:g}")
        return float(self.value)

    def elements(self, most: int) -> list[JsonField]:
        if not isinstance(self.value, list) or len(self.value) > most:
            raise self.wrong(f"a list of at most {most}")
        return [JsonField(value, self.file, f"{self.path}[{i}]") for i, value in enumerate(self.value)]

    def same_as(self, expected: object, meaning: str) -> None:
        """Refuses another value than the expected one."""
        if self.value != expected or isinstance(self.value, bool):
            raise self.wrong(meaning)


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON number")
