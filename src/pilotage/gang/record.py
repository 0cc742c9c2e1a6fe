"""What happened in a real run, superstep by superstep, as lines of JSON. A run that was killed goes on behind them."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from pilotage.model.clock import Clock, SystemClock
from pilotage.model.errors import InputError
from pilotage.workloads.files import make_directory

FILE = "supersteps.jsonl"
MOST_BYTES = 256 * 1024 * 1024
CONTENT = "content of the job file or of the files it names"  # as messages call it


@dataclass(frozen=True)
class Superstep:
    """One superstep as it was."""

    superstep: int
    sizes: dict[str, float]
    shares: dict[str, int]  # milli CPU
    divided: bool
    resize_seconds: float  # what changing the quotas took
    predicted: float  # seconds, by the duration model and the forecast sizes
    seconds: float  # from opening to the last report, lost attempts included
    task_seconds: dict[str, float]
    lost_seconds: float  # of attempts that came to nothing
    events: tuple[str, ...]  # what went wrong, in words
    interrupted_seconds: float = 0.0  # before it: from the record of a coordinator that ended to the start of the next


class Record:
    """Appends supersteps to a file; each is on disk before the next begins."""

    def __init__(self, directory: Path, settings: dict[str, object], clock: Clock | None = None) -> None:
        make_directory(directory)
        self._path = directory / FILE
        self.interrupted_seconds = _age(self._path, clock or SystemClock())
        """Since the last record of an earlier coordinator; None where there was none."""
        self.done = _read(self._path, settings)
        lines = [json.dumps({"settings": settings}), *(json.dumps(asdict(step)) for step in self.done)]
        # Written afresh: a line that was cut off by a kill must not stand before the next one.
        partial = self._path.with_suffix(".partial")
        partial.write_text("".join(f"{line}\n" for line in lines))
        partial.replace(self._path)
        self._stream = self._path.open("a")

    def add(self, step: Superstep) -> None:
        self.done.append(step)
        self._stream.write(json.dumps(asdict(step)) + "\n")
        self._stream.flush()
        os.fsync(self._stream.fileno())

    def close(self) -> None:
        self._stream.close()


def _age(path: Path, clock: Clock) -> float | None:
    """Seconds since a file was written."""
    return max(clock.wall().timestamp() - path.stat().st_mtime, 0.0) if path.exists() else None


def read_record(directory: Path) -> list[Superstep]:
    """The supersteps of a run that was carried out before."""
    path = directory / FILE
    if not path.exists():
        raise InputError("no such file", file=path, expected="the directory of a run")
    return _read(path, None)


def _read(path: Path, settings: dict[str, object] | None) -> list[Superstep]:
    """Supersteps of a file; with settings, only of a run that had them."""
    if not path.exists():
        return []
    if path.stat().st_size > MOST_BYTES:
        raise InputError(f"is larger than {MOST_BYTES} bytes", file=path)
    found: list[Superstep] = []
    lines = path.read_text().splitlines()
    for number, line in enumerate(lines, 1):
        try:
            content = json.loads(line)
            if number == 1:
                if settings is not None and content["settings"] != settings:
                    other = [name for name in settings if content["settings"].get(name) != settings[name]]
                    words = ", ".join(CONTENT if name == "content" else name for name in other)
                    raise InputError(
                        f"is of a run with other settings: {words}",
                        file=path,
                        expected="the same command and job, or another --out",
                    )
                continue
            step = Superstep(
                **{entry.name: content[entry.name] for entry in fields(Superstep) if entry.name in content}
            )
        except (ValueError, KeyError, TypeError) as error:
            if number == len(lines):
                break  # cut off when the coordinator was killed
            raise InputError("is no record of a superstep", file=path, row=number) from error
        if step.superstep != len(found):
            raise InputError(f"superstep {step.superstep}", file=path, row=number, expected=f"{len(found)}")
        found.append(step)
    return found
