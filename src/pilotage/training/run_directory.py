"""Where a training writes: one directory per run.

settings.json      agent and settings
train.log          what happened when
curve.csv          a row per validation
events/            TensorBoard
state.safetensors  the newest state, to go on from
best/              the checkpoint that was best in validation
summary.json       how it ended, beside random and greedy placement
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pilotage.model.errors import InputError
from pilotage.policies.checkpoints import BEST
from pilotage.training.run_names import run_names
from pilotage.training.settings import TrainingSettings, read_settings, settings_text
from pilotage.workloads.files import make_directory, remove_partial_files, replace_file

NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,99}")


def free_directory(out: Path, name: str | None, agent: str, seed: int) -> Path:
    """Where a new run goes: below `out`, under the given name or the first that the seed draws and that is free."""
    if name is not None and not NAME.fullmatch(name):
        wanted = "lower case letters, digits, dots and dashes: it also names the policy"
        raise InputError(f"{name!r} cannot name a run", field="--name", expected=wanted)
    names = iter([name]) if name is not None else run_names(agent, seed)
    path = next((out / word for word in names if not (out / word).exists()), None)
    if path is None:
        raise InputError("is there already", file=out / str(name), expected="another --name, or --resume to go on")
    return path


@dataclass(frozen=True)
class RunDirectory:
    """The files of one run."""

    path: Path
    agent: str
    settings: TrainingSettings

    @classmethod
    def fresh(cls, out: Path, name: str | None, agent: str, settings: TrainingSettings) -> RunDirectory:
        path = free_directory(out, name, agent, settings.seed)
        make_directory(path)
        replace_file(path / "settings.json", settings_text(agent, settings).encode())
        return cls(path, agent, settings)

    @classmethod
    def existing(cls, path: Path) -> RunDirectory:
        file = path / "settings.json"
        if not file.is_file():
            raise InputError("has no settings.json", file=path, expected="the directory of a training")
        return cls(path, *read_settings(file.read_bytes(), file))

    @property
    def state(self) -> Path:
        return self.path / "state.safetensors"

    @property
    def best(self) -> Path:
        return self.path / BEST

    @property
    def events(self) -> Path:
        return self.path / "events"

    @property
    def logger(self) -> logging.Logger:
        """Who wants to see the lines of the log adds a handler to it."""
        return logging.getLogger(f"pilotage.training.{self.path.name}")

    def write_curve(self, rows: list[dict[str, float]]) -> None:
        """All rows anew, so that a run that goes on has none too many."""
        columns = list(dict.fromkeys(name for row in rows for name in row))
        lines = [",".join(columns)]
        lines += [",".join("" if name not in row else f"{row[name]:.9g}" for name in columns) for row in rows]
        replace_file(self.path / "curve.csv", ("\n".join(lines) + "\n").encode())

    def write_summary(self, summary: dict[str, object]) -> None:
        replace_file(self.path / "summary.json", (json.dumps(summary, indent=2) + "\n").encode())

    @contextmanager
    def log(self) -> Iterator[logging.Logger]:
        """Writes to the log file while the block lasts. Meanwhile no other process may go on with this run."""
        logger = self.logger
        with alone_in(self.path), (self.path / "train.log").open("a") as stream:
            handler = logging.StreamHandler(stream)
            handler.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
            logger.addHandler(handler)
            logger.setLevel(logging.INFO)
            logger.propagate = False
            try:
                yield logger
            finally:
                logger.removeHandler(handler)


@contextmanager
def alone_in(path: Path) -> Iterator[None]:
    """No other process trains there while the block lasts; what one left that was killed as it wrote is removed."""
    directory = os.open(path, os.O_RDONLY)
    try:
        _lock(directory, path)
        for left in path.glob(f".{BEST}.*"):
            shutil.rmtree(left)
        remove_partial_files(path)
        yield
    finally:
        os.close(directory)


def _lock(directory: int, path: Path) -> None:
    try:
        fcntl.flock(directory, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise InputError("another process is training there", file=path, expected="to wait until it ends") from None
