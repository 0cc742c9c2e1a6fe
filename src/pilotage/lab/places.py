"""Where the lab keeps what it built, and where labs run."""

from __future__ import annotations

import os
import re
from pathlib import Path

import platformdirs

from pilotage.model.errors import InputError

DEFAULT_NAME = "default"
_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?")


def lab_cache() -> Path:
    """`PILOTAGE_CACHE`, or the user's cache directory: programs and the Go modules they are built from."""
    return Path(os.environ.get("PILOTAGE_CACHE") or platformdirs.user_cache_dir("pilotage")) / "lab"


def labs_directory() -> Path:
    """`PILOTAGE_LABS`, or the user's state directory: one directory per lab that is up."""
    given = os.environ.get("PILOTAGE_LABS")
    return Path(given) if given else Path(platformdirs.user_state_dir("pilotage")) / "labs"


def run_directory(name: str) -> Path:
    if not _NAME.fullmatch(name):
        expected = "1 to 32 small letters, digits and '-', not at its ends"
        raise InputError(f"{name[:60]!r} is no name of a lab", field="--name", expected=expected)
    return labs_directory() / name
