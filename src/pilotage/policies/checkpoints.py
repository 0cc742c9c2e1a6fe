"""Checkpoints: learned policies as files that anybody may have written.

A checkpoint is a directory with two files: `policy.json` says what the policy is and how it came about,
`weights.safetensors` holds its tensors. What the first says decides what the second must contain, to the byte; nothing
in either is ever executed. Reading refuses, with the reason, whatever does not match.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np
import safetensors.numpy
from safetensors import SafetensorError

from pilotage.model.errors import InputError
from pilotage.policies.api import POLICY_NAME
from pilotage.policies.architectures import DTYPES, LIMITS, SEEN, SETTINGS, Architecture, Tensor
from pilotage.policies.json_fields import JsonField

FORMAT = 1
SPECIFICATION, WEIGHTS = "policy.json", "weights.safetensors"
BEST = "best"  # the checkpoint in a directory that a training left
MAX_SPECIFICATION_BYTES = 1024 * 1024
MAX_HEADER_BYTES = 64 * 1024  # of the weights: names, shapes and places of at most some hundred tensors
FIELDS = (
    "format",
    "name",
    "summary",
    "kind",
    "architecture",
    "inputs",
    "training",
    "seeds",
    "data_hash",
    "scores",
    "weights",
)


@dataclass(frozen=True)
class Origin:
    """How the weights came about. Nothing of it is needed to run the policy; all of it is JSON."""

    training: Mapping[str, object] = field(default_factory=dict)  # agent and settings
    seeds: Mapping[str, object] = field(default_factory=dict)  # ranges of seeds by their use
    data_hash: str = ""  # of the trace or the workload it was trained on
    scores: Mapping[str, float] = field(default_factory=dict)  # by name, such as validation_return


@dataclass(frozen=True)
class Checkpoint:
    """A learned policy as plain data."""

    name: str  # name@version
    architecture: Architecture
    tensors: Mapping[str, Tensor] = field(repr=False)
    summary: str = ""
    origin: Origin = Origin()

    @property
    def kind(self) -> str:
        return self.architecture.kind

    @cached_property
    def weights(self) -> bytes:
        """The tensors as the bytes of a safetensors file; the same tensors give the same bytes."""
        dtype = DTYPES[self.kind]
        return safetensors.numpy.save({key: np.ascontiguousarray(t, dtype) for key, t in self.tensors.items()})

    @cached_property
    def fingerprint(self) -> str:
        """Of all that decides its scores."""
        what = json.dumps([self.kind, self.architecture.settings, SEEN[self.kind].version])
        return hashlib.sha256(what.encode() + self.weights).hexdigest()

    def specification(self) -> dict[str, object]:
        """The content of policy.json."""
        seen, origin = SEEN[self.kind], self.origin
        return {
            "format": FORMAT,
            "name": self.name,
            "summary": self.summary,
            "kind": self.kind,
            "architecture": self.architecture.settings,
            "inputs": {"version": seen.version, "node": list(seen.node), "pod": list(seen.pod)},
            "training": dict(origin.training),
            "seeds": dict(origin.seeds),
            "data_hash": origin.data_hash,
            "scores": dict(origin.scores),
            "weights": {
                "sha256": hashlib.sha256(self.weights).hexdigest(),
                "bytes": len(self.weights),
                "shapes": {name: list(shape) for name, shape in self.architecture.shapes.items()},
            },
        }


def is_checkpoint(path: Path) -> bool:
    try:
        return (path / SPECIFICATION).is_file()
    except (OSError, ValueError):  # a text that is no path: too long, a null character
        return False


# Reading


def read_checkpoint(path: Path) -> Checkpoint:
    """The checkpoint in a directory, every part of it checked."""
    file = path / SPECIFICATION
    root = JsonField.of(_bytes_of(file, MAX_SPECIFICATION_BYTES), file)
    root.get("format").same_as(FORMAT, f"format {FORMAT}, the one this program reads")
    root.only(FIELDS)
    name = root.get("name").text()
    if not POLICY_NAME.fullmatch(name):
        raise root.get("name").wrong("name@version such as my-dqn@1")
    architecture = _architecture(root)
    _check_inputs(root.get("inputs"), architecture.kind)
    origin = Origin(
        training=root.get("training").mapping(),
        seeds=root.get("seeds").mapping(),
        data_hash=root.get("data_hash").text(),
        scores={key: root.get("scores").get(key).number() for key in root.get("scores").mapping()},
    )
    tensors = _read_weights(path / WEIGHTS, root.get("weights"), architecture)
    return Checkpoint(name, architecture, tensors, root.get("summary").text(), origin)


def _architecture(root: JsonField) -> Architecture:
    kind = root.get("kind").choice(SETTINGS, "kind of policy")
    given = root.get("architecture").only(SETTINGS[kind])
    architecture = Architecture(kind, **{key: given.get(key).integer(*LIMITS[key]) for key in SETTINGS[kind]})
    if architecture.heads and architecture.hidden % architecture.heads:
        raise given.get("heads").wrong(f"a divisor of hidden, which is {architecture.hidden}")
    return architecture


def _check_inputs(given: JsonField, kind: str) -> None:
    seen = SEEN[kind]
    given.only(("version", "node", "pod"))
    given.get("version").same_as(seen.version, f"version {seen.version}, the one this program computes")
    for key, names in (("node", seen.node), ("pod", seen.pod)):
        entry = given.get(key)
        if entry.value != list(names):
            raise entry.error("are other columns than this program computes", ", ".join(names))


def _read_weights(file: Path, given: JsonField, architecture: Architecture) -> dict[str, Tensor]:
    given.only(("sha256", "bytes", "shapes"))
    least = architecture.weights * DTYPES[architecture.kind].itemsize
    size = given.get("bytes").integer(least, least + MAX_HEADER_BYTES)
    for name, shape in architecture.shapes.items():
        given.get("shapes").only(architecture.shapes).get(name).same_as(list(shape), f"{list(shape)}")
    data = _bytes_of(file, least + MAX_HEADER_BYTES)
    if data[8:9] != b"{":
        raise InputError(_what_it_is(data), file=file, expected="a safetensors file")
    if len(data) != size:
        problem = "is truncated" if len(data) < size else "is longer than its specification says"
        raise InputError(f"{problem}: {len(data)} bytes", file=file, expected=f"{size} bytes")
    if hashlib.sha256(data).hexdigest() != given.get("sha256").text():
        raise InputError("has another sha256 than its specification says", file=file)
    return _tensors(data, file, architecture)


def _what_it_is(data: bytes) -> str:
    if data[:1] == b"\x80":
        return "is a pickle, which could run any code and is never loaded"
    if data[:2] == b"PK":
        return "is a zip archive, such as torch.save writes, and is never unpacked"
    return "is not a safetensors file"


def _tensors(data: bytes, file: Path, architecture: Architecture) -> dict[str, Tensor]:
    try:
        tensors: dict[str, Tensor] = safetensors.numpy.load(data)
    except (SafetensorError, KeyError, TypeError, ValueError) as error:
        raise InputError(f"cannot be read: {str(error)[:120]}", file=file, expected="a safetensors file") from error
    shapes, dtype = architecture.shapes, DTYPES[architecture.kind]
    for name in sorted(shapes.keys() ^ tensors.keys()):
        problem = "is missing" if name in shapes else "is not part of this kind of policy"
        raise InputError(f"tensor {name[:80]!r} {problem}", file=file, expected=", ".join(shapes))
    for name, shape in shapes.items():
        tensor = tensors[name]
        if tensor.shape != shape:
            raise InputError(f"has the shape {tensor.shape}", file=file, field=name, expected=f"{shape}")
        if tensor.dtype != dtype:
            raise InputError(f"is of type {tensor.dtype}", file=file, field=name, expected=f"{dtype}")
        if not np.isfinite(tensor).all():
            raise InputError("has weights that are not finite (NaN or infinite)", file=file, field=name)
    return {name: tensors[name] for name in shapes}


def _bytes_of(file: Path, most: int) -> bytes:
    """The content, when there is not more than `most` of it."""
    try:
        if not file.is_file():
            raise InputError("no such file", file=file, expected=f"a checkpoint: {SPECIFICATION} and {WEIGHTS}")
        with file.open("rb") as stream:
            data = stream.read(most + 1)
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", file=file) from error
    if len(data) > most:
        raise InputError(f"has more than {most} bytes", file=file, expected="a checkpoint")
    return data


# Writing


def write_checkpoint(path: Path, checkpoint: Checkpoint) -> None:
    """Writes the directory; it appears whole, by rename, and can be read. Only another checkpoint is replaced."""
    content = _specification_text(checkpoint)
    if path.exists() and not is_checkpoint(path):
        raise InputError("is there already and no checkpoint", file=path, expected="another directory")
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        partial.mkdir(parents=True)
        (partial / WEIGHTS).write_bytes(checkpoint.weights)
        (partial / SPECIFICATION).write_text(content)
        read_checkpoint(partial)
        _put_in_place(partial, path)
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror}", file=path) from error
    except InputError as error:
        raise InputError(error.problem, file=path, field=error.field, expected=error.expected) from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _put_in_place(partial: Path, path: Path) -> None:
    """A directory cannot take the place of one that is not empty, so an old one steps aside for a moment."""
    if not path.exists():
        partial.rename(path)
        return
    old = path.with_name(f".{path.name}.{os.getpid()}.old")
    path.rename(old)
    try:
        partial.rename(path)
    except OSError:
        old.rename(path)
        raise
    shutil.rmtree(old, ignore_errors=True)


def _specification_text(checkpoint: Checkpoint) -> str:
    try:
        return json.dumps(checkpoint.specification(), indent=1, allow_nan=False) + "\n"
    except (TypeError, ValueError) as error:
        raise InputError(f"{checkpoint.name}: what is told of its training is not JSON: {error}") from error
