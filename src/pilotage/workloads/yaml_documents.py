"""YAML and JSON files from outside, read safely: sizes are bounded, nothing is evaluated, mappings know their lines.

The values are built from parser events instead of by PyYAML's constructor. That keeps the depth and the expanded size
bounded while reading (aliases share one object, and what they would expand to is counted), refuses tags, repeated keys
and aliases of themselves, and gives every key its line. Plain scalars are what `kubectl` makes of them: null, booleans
(yes and no too), numbers; dates stay text, because Kubernetes' annotations are text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

import yaml

from pilotage.model.errors import InputError

MAX_FILE_BYTES = 64 * 1024 * 1024
MAX_VALUES = 10_000_000  # values of one file, with every alias written out
MAX_DEPTH = 100  # nested mappings and lists
SUFFIXES = (".yaml", ".yml", ".json")

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

_NULLS = {"", "~", "null", "Null", "NULL"}
_BOOLEANS = {
    spelling: value
    for word, value in {"yes": True, "no": False, "true": True, "false": False, "on": True, "off": False}.items()
    for spelling in (word, word.capitalize(), word.upper())
}
_INTEGER = re.compile(r"[-+]?(?:0b[01]+|0o?[0-7]+|0x[0-9a-fA-F]+|0|[1-9][0-9_]*)")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_SPECIAL_FLOAT = re.compile(r"([-+]?)\.(inf|Inf|INF|nan|NaN|NAN)")
_MAY_BE_SPECIAL = frozenset("0123456789+-.~nNtTfFyYoO")  # first characters of plain scalars that need a second look
_MAX_NUMBER_LENGTH = 1000  # Python refuses to convert more than 4300 digits; longer ones stay text

_TAG = "tag:yaml.org,2002:"
_MERGE = "<<"


class LocatedMap(dict[str, object]):
    """A mapping of a document; `lines[key]` is the line on which the key stands, counted from 1."""

    __slots__ = ("line", "lines")

    def __init__(self, line: int) -> None:
        super().__init__()
        self.line = line
        self.lines: dict[str, int] = {}


@dataclass(frozen=True, slots=True)
class Document:
    """One document: plain dicts, lists, strings, numbers, booleans and None. `line` is where it starts, from 1."""

    file: str
    number: int  # within the file, from 1; empty documents count
    line: int
    content: object


def files_under(path: Path, excluding: Path | None = None) -> list[Path]:
    """The file itself, or every YAML and JSON file below a directory, in the order of paths.

    Hidden files are left out, as are those below `excluding`: a command does not read what it wrote before.
    """
    if path.is_dir():
        found = (p for p in path.rglob("*") if p.suffix in SUFFIXES and p.is_file())
        shown = (p for p in found if not any(part.startswith(".") for part in p.relative_to(path).parts))
        return sorted(p for p in shown if excluding is None or not p.resolve().is_relative_to(excluding.resolve()))
    if not path.exists():
        raise InputError("no such file or directory", file=path, expected="a YAML or JSON file, or a directory of them")
    return [path]


def read_documents(path: Path, *, max_bytes: int = MAX_FILE_BYTES) -> Iterator[Document]:
    """The documents of one file, one at a time; empty ones are left out."""
    try:
        with path.open("rb") as stream:
            data = stream.read(max_bytes + 1)  # not stat(): a pipe or a device has no honest size
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", file=path) from error
    if len(data) > max_bytes:
        raise InputError(f"is larger than {max_bytes} bytes", file=path, expected="a smaller file, or several")
    return parse_documents(data, file=str(path), json_only=path.suffix == ".json")


def only_document(path: Path, *, max_bytes: int = MAX_FILE_BYTES) -> Document:
    """The document of a file that must hold exactly one, such as a configuration."""
    documents = list(read_documents(path, max_bytes=max_bytes))
    if len(documents) != 1:
        raise InputError(f"holds {len(documents)} documents", file=path, expected="one document")
    return documents[0]


def parse_documents(data: bytes | str, *, file: str, json_only: bool = False) -> Iterator[Document]:
    documents = _json_document(data, file) if json_only else _yaml_documents(data, file)
    return (document for document in documents if document.content is not None)


def _json_document(data: bytes | str, file: str) -> Iterator[Document]:
    def unique_keys(pairs: list[tuple[str, object]]) -> dict[str, object]:
        found = dict(pairs)
        if len(found) < len(pairs):
            keys = [key for key, _ in pairs]
            repeated = next(key for key in keys if keys.count(key) > 1)
            raise InputError(f"the key {repeated!r} is given twice in one object", file=file, expected="it once")
        return found

    def no_constant(name: str) -> NoReturn:
        raise InputError(f"{name} is not a JSON number", file=file, expected="a finite number")

    try:
        content: object = json.loads(data, object_pairs_hook=unique_keys, parse_constant=no_constant)
    except json.JSONDecodeError as error:
        raise InputError(f"not JSON: {error.msg}", file=file, row=error.lineno) from error
    except RecursionError as error:
        raise InputError("nested too deeply", file=file, expected=f"at most {MAX_DEPTH} levels") from error
    except ValueError as error:  # not UTF-8, or a number of thousands of digits
        raise InputError(f"not JSON: {error}", file=file) from error
    yield Document(file, 1, 1, content)


def _yaml_documents(data: bytes | str, file: str) -> Iterator[Document]:
    builder = _Builder(file)
    number, line = 0, 1
    try:
        for event in yaml.parse(data, Loader=_LOADER):
            if isinstance(event, yaml.DocumentStartEvent):
                number, line = number + 1, _line(event)
                builder.start()
            elif isinstance(event, yaml.DocumentEndEvent):
                yield Document(file, number, line, builder.root)
            elif isinstance(event, yaml.NodeEvent | yaml.CollectionEndEvent):
                builder.take(event)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        row = mark.line + 1 if mark else None
        raise InputError(f"not YAML: {error.problem or error.context}", file=file, row=row) from error
    except (yaml.YAMLError, UnicodeError) as error:
        raise InputError(f"not YAML: {' '.join(str(error).split())}", file=file) from error


def _line(event: yaml.Event) -> int:
    return event.start_mark.line + 1 if event.start_mark else 0


@dataclass(slots=True)
class _Open:
    """A mapping or list whose end has not come yet."""

    value: LocatedMap | list[object]
    line: int
    anchor: str | None
    values_before: int
    key: str | None = None  # of a mapping: read, its value not yet
    key_line: int = 0
    merged: list[LocatedMap] = field(default_factory=list)


class _Builder:
    """Turns events into values without recursion."""

    def __init__(self, file: str) -> None:
        self._file = file
        self._values = 0  # of the whole file, aliases written out: many small bombs are a bomb too
        self.start()

    def start(self) -> None:
        self.root: object = None
        self._open: list[_Open] = []
        self._anchors: dict[str, tuple[object, int]] = {}

    def take(self, event: yaml.Event) -> None:
        line = _line(event)
        if isinstance(event, yaml.ScalarEvent):
            self._take_scalar(event, line)
        elif isinstance(event, yaml.AliasEvent):
            self._take_alias(event.anchor or "", line)
        elif isinstance(event, yaml.CollectionStartEvent):
            self._begin(event, line)
        else:
            self._end()

    def _fail(self, problem: str, line: int, expected: str | None = None) -> NoReturn:
        raise InputError(problem, file=self._file, row=line, expected=expected)

    def _begin(self, event: yaml.CollectionStartEvent, line: int) -> None:
        mapping = isinstance(event, yaml.MappingStartEvent)
        if event.tag not in (None, "!", f"{_TAG}{'map' if mapping else 'seq'}"):
            self._fail(f"the tag {event.tag!r} is not allowed", line, "plain YAML without tags")
        if self._awaits_key():
            self._fail("a mapping or list is used as a key", line, "text as the key")
        if len(self._open) >= MAX_DEPTH:
            self._fail("nested too deeply", line, f"at most {MAX_DEPTH} levels")
        self._open.append(_Open(LocatedMap(line) if mapping else [], line, event.anchor, self._values))
        self._count(1, line)

    def _end(self) -> None:
        done = self._open.pop()
        if isinstance(done.value, LocatedMap):
            for source in done.merged:  # what is written wins over what is merged, and earlier over later
                for key in source.keys() - done.value.keys():
                    done.value[key], done.value.lines[key] = source[key], source.lines[key]
        if done.anchor is not None:
            self._anchors[done.anchor] = done.value, self._values - done.values_before
        self._place(done.value, done.line)

    def _take_alias(self, anchor: str, line: int) -> None:
        if any(parent.anchor == anchor for parent in self._open):
            self._fail(f"the alias *{anchor} refers to itself", line, "an anchor that ended before")
        if anchor not in self._anchors:
            self._fail(f"the alias *{anchor} has no anchor", line, f"&{anchor} before it")
        if self._awaits_key():
            self._fail("an alias is used as a key", line, "text as the key")
        value, size = self._anchors[anchor]
        self._count(size, line)
        self._place(value, line)

    def _count(self, values: int, line: int) -> None:
        self._values += values
        if self._values > MAX_VALUES:
            self._fail("the file holds too much, aliases written out", line, f"at most {MAX_VALUES} values")

    def _take_scalar(self, event: yaml.ScalarEvent, line: int) -> None:
        if self._awaits_key():
            self._take_key(event.value, line)
            return
        value = self._scalar(event, line)
        if event.anchor is not None:
            self._anchors[event.anchor] = value, 1
        self._count(1, line)
        self._place(value, line)

    def _awaits_key(self) -> bool:
        return bool(self._open) and self._open[-1].key is None and isinstance(self._open[-1].value, LocatedMap)

    def _take_key(self, key: str, line: int) -> None:
        parent = self._open[-1]
        if key in parent.value or (key == _MERGE and parent.merged):
            self._fail(f"the key {key!r} is given twice in one mapping", line, "it once")
        parent.key, parent.key_line = key, line

    def _place(self, value: object, line: int) -> None:
        if not self._open:
            self.root = value
            return
        parent = self._open[-1]
        if isinstance(parent.value, list):
            parent.value.append(value)
            return
        key, parent.key = parent.key or "", None
        if key == _MERGE:
            parent.merged = self._merge_sources(value, line)
        else:
            parent.value[key] = value
            parent.value.lines[key] = parent.key_line

    def _merge_sources(self, value: object, line: int) -> list[LocatedMap]:
        sources = value if isinstance(value, list) else [value]
        maps = [source for source in sources if isinstance(source, LocatedMap)]
        if len(maps) < len(sources) or not maps:
            self._fail("'<<' merges something that is not a mapping", line, "an alias of a mapping, or a list of them")
        return maps

    def _scalar(self, event: yaml.ScalarEvent, line: int) -> object:
        text: str = event.value
        tag = event.tag
        if tag is None and event.style:  # quoted or a block; of a plain one the parsers say "" or None
            return text
        if tag in ("!", f"{_TAG}str"):
            return text
        if tag is not None and tag.removeprefix(_TAG) not in ("int", "float", "bool", "null"):
            self._fail(f"the tag {tag!r} is not allowed", line, "plain YAML without tags")
        return plain_scalar(text)


def plain_scalar(text: str) -> object:
    """What an unquoted scalar means."""
    if (text and text[0] not in _MAY_BE_SPECIAL) or len(text) > _MAX_NUMBER_LENGTH:
        return text
    if text in _NULLS:
        return None
    if text in _BOOLEANS:
        return _BOOLEANS[text]
    if _INTEGER.fullmatch(text):
        return _integer(text.replace("_", ""))
    if _FLOAT.fullmatch(text):
        return float(text)
    if special := _SPECIAL_FLOAT.fullmatch(text):
        return float(special[1] + special[2])
    return text


def _integer(text: str) -> int:
    sign, digits = (-1 if text[0] == "-" else 1), text.lstrip("+-")
    if digits[0] == "0" and digits[1:2].isdigit():  # YAML 1.1, as Kubernetes reads it: 010 is eight
        return sign * int(digits, 8)
    return sign * int(digits, 0)
