"""Finished runs on disk, so that a comparison that was ended goes on where it was.

A run is one JSON file, named by a hash of everything its result depends on: sources of this program, content of the
trace, policy, seed, settings. Files appear by rename, so one that is there is whole; one that cannot be read is as good
as absent. They hold no times: the seconds of each run are lines of a file beside them.
"""

from __future__ import annotations

import base64
import fcntl
import hashlib
import inspect
import json
import math
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, fields
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pilotage.model.errors import InputError
from pilotage.policies.api import Policy
from pilotage.policies.weighted import WeightedSum
from pilotage.sim.openb_tables import OpenbTables
from pilotage.sim.results import ARRAY_FIELDS, Curve, Leftover, RunResult
from pilotage.sim.specs import RunSpec, policy_of
from pilotage.workloads.files import make_directory, remove_partial_files, replace_file

PLACE = ".runs"
SECONDS = "seconds.jsonl"
LOCK = ".lock"
MAX_FILE_BYTES = 256 * 1024 * 1024
_PACKAGE = Path(__file__).resolve().parent.parent
_SOURCES = ("model", "kernels", "policies", "workloads", "sim")
_DTYPES = ("<f8", "<f4", "<i2")


class RunStore:
    """The finished runs below a directory of results."""

    def __init__(self, directory: Path, *, fresh: bool = False) -> None:
        """`fresh`: what is there is not used."""
        self._place, self._fresh, self.found = directory / PLACE, fresh, 0
        remove_partial_files(directory)
        remove_partial_files(self._place)
        self._seconds = self._read_seconds()
        self._identities: dict[str, list[str]] = {}  # of policies, as they were when first asked for

    @contextmanager
    def alone(self) -> Iterator[None]:
        """While this lasts no other process may use the directory: two would write over each other's results."""
        directory, lock = self._place.parent, self._place / LOCK
        ours = not directory.exists()
        make_directory(self._place)
        with lock.open("a") as stream:
            try:
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                problem = "another comparison is writing there"
                raise InputError(problem, file=directory, field="--out", expected="another directory") from None
            try:
                yield
            finally:
                if ours and [path.name for path in self._place.iterdir()] == [LOCK]:  # nothing came about
                    lock.unlink()
                    self._place.rmdir()
                    with suppress(OSError):
                        directory.rmdir()

    def find(self, spec: RunSpec) -> tuple[RunResult, float] | None:
        """The result of a finished run, and the seconds it took then (0 where that is not known)."""
        key = self._key(spec)
        if self._fresh:
            return None
        path = self._place / f"{key}.json"
        try:
            if path.stat().st_size > MAX_FILE_BYTES:
                return None
            result = decode(json.loads(path.read_bytes()))
        except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
            return None
        self.found += 1
        return result, self._seconds.get(key, 0.0)

    def keep(self, spec: RunSpec, result: RunResult, seconds: float) -> None:
        key = self._key(spec)
        make_directory(self._place)
        replace_file(self._place / f"{key}.json", json.dumps(encode(result)).encode())
        with suppress(OSError), (self._place / SECONDS).open("a") as stream:  # nice to know, no more
            stream.write("\n" + json.dumps([key, seconds]))  # in front: the last line of an ended run may be torn

    def _key(self, spec: RunSpec) -> str:
        """The same before and after the run, whatever is imported or edited meanwhile."""
        if spec.policy not in self._identities:
            self._identities[spec.policy] = identity_of(policy_of(spec.policy))
        return run_key(spec, self._identities[spec.policy])

    def _read_seconds(self) -> dict[str, float]:
        known: dict[str, float] = {}
        try:
            lines = (self._place / SECONDS).read_text().splitlines()
        except (OSError, UnicodeError):
            return known
        for line in lines:
            try:
                key, seconds = json.loads(line)
                if isinstance(key, str) and math.isfinite(seconds):
                    known[key] = float(seconds)
            except (ValueError, TypeError):  # the last line of an ended run
                continue
        return known


# What a run depends on


def run_key(spec: RunSpec, identity: list[str] | None = None) -> str:
    """A hash of all of it; `identity` of the policy, where it is known already."""
    trace = spec.source.load()
    what = {
        "code": code_hash(),
        "trace": [trace.name, trace.digest],
        "policy": identity or identity_of(policy_of(spec.policy)),
        "seed": spec.seed,
        "protocol": spec.protocol,
        "load": spec.load,
        "timing": asdict(spec.timing) if spec.protocol == "timed" else None,
        "consolidation": asdict(spec.consolidation) if spec.consolidation else None,
        "leftover": spec.leftover,
    }
    return hashlib.sha256(json.dumps(what, sort_keys=True).encode()).hexdigest()[:32]


@cache
def code_hash() -> str:
    digest = hashlib.sha256(f"{np.__version__} {version('numba')} {version('highspy')}".encode())
    for folder in _SOURCES:
        for path in sorted((_PACKAGE / folder).glob("*.[pt]*")):  # modules and tables
            digest.update(f"{folder}/{path.name}\0".encode() + path.read_bytes())
    return digest.hexdigest()


def identity_of(policy: Policy) -> list[str]:
    """Its name and its `fingerprint`, where it has one (of weights, say); of one from outside also its code."""
    if isinstance(policy, WeightedSum):
        return [policy.name, *(text for part in policy.parts for text in identity_of(part))]
    source = Path(inspect.getsourcefile(type(policy)) or __file__).resolve()
    code = "" if source.is_relative_to(_PACKAGE) else _outside_code(source)
    return [policy.name, code, str(getattr(policy, "fingerprint", ""))]


def _outside_code(source: Path) -> str:
    """Hash of a policy's file and of every loaded module that is part of neither Python nor an installed package."""
    loaded = {getattr(module, "__file__", None) or "" for module in tuple(sys.modules.values())}
    paths = {Path(file).resolve() for file in loaded if file.endswith(".py") and Path(file).is_file()}  # some name none
    installed = [Path(place).resolve() for place in sysconfig.get_paths().values()]
    own = {path for path in paths if not any(path.is_relative_to(place) for place in (*installed, _PACKAGE))}
    digest = hashlib.sha256()
    for path in sorted({source, *own}):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


# Results as JSON


def encode(result: RunResult) -> dict[str, object]:
    """Plain fields as they are, arrays as text of their bytes: what is read back is equal to the last bit."""
    content: dict[str, object] = {f.name: getattr(result, f.name) for f in fields(result)}
    for name in ("tables", "curve", "leftover"):
        part = content[name]
        content[name] = part and {f.name: _array_text(getattr(part, f.name)) for f in fields(part)}  # type: ignore[arg-type]
    content["lost_at"] = result.lost_at and [_array_text(array) for array in result.lost_at]
    return content


def decode(content: Any) -> RunResult:
    """The result; ValueError, TypeError or KeyError where the content is not one."""
    known = {f.name: str(f.type) for f in fields(RunResult)}
    if not isinstance(content, dict) or content.keys() != known.keys():
        raise ValueError("other fields than those of a result")
    for name, kind in known.items():
        if name not in ARRAY_FIELDS and not _is_of_kind(content[name], kind):
            raise ValueError(f"{name} is no {kind}")
    arrays: dict[str, Any] = {}
    for name, made in (("tables", OpenbTables), ("curve", Curve), ("leftover", Leftover)):
        part = content[name]
        arrays[name] = part and made(**{key: _array(text) for key, text in part.items()})
    arrays["lost_at"] = content["lost_at"] and tuple(_array(text) for text in content["lost_at"])
    return RunResult(**(content | arrays))


def _is_of_kind(value: object, kind: str) -> bool:
    if value is None or isinstance(value, bool):
        return value is None and kind.endswith(" | None")
    wanted: dict[str, tuple[type, ...]] = {"str": (str,), "int": (int,), "float": (float, int)}
    return isinstance(value, wanted[kind.removesuffix(" | None")])


def _array_text(array: npt.NDArray[Any]) -> dict[str, object]:
    little = array.astype(array.dtype.newbyteorder("<"))
    data = base64.b64encode(np.ascontiguousarray(little).tobytes()).decode()
    return {"dtype": little.dtype.str, "shape": list(array.shape), "data": data}


def _array(content: dict[str, Any]) -> npt.NDArray[Any]:
    if content["dtype"] not in _DTYPES:
        raise ValueError(f"dtype {content['dtype']!r}")
    data = base64.b64decode(content["data"], validate=True)
    return np.frombuffer(data, content["dtype"]).reshape(content["shape"])
