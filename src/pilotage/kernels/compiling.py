"""How kernels are compiled, and where the machine code is kept.

numba's disk cache looks at the file of the compiled function alone, so an edit in one kernel would not reach its
callers in another file. Therefore the cache directory carries a hash of all sources that kernels are made of.
"""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import numba
import numpy as np
import platformdirs
from numba.core.event import Event, Listener, register

Function = TypeVar("Function", bound=Callable[..., object])

_PACKAGE = Path(__file__).resolve().parent.parent
_OLD_CACHES_KEPT = 8  # several checkouts side by side
_COMPILATION = "numba:compile"  # numba tells of it when a function is not in the cache
LOGGER = logging.getLogger("pilotage.kernels")


def kernel_sources() -> list[Path]:
    """The files whose edit must lead to a new compilation."""
    return sorted([*(_PACKAGE / "kernels").glob("[!_]*.py"), *(_PACKAGE / "model").glob("[!_]*.py")])


def source_hash(sources: list[Path] | None = None) -> str:
    digest = hashlib.sha256(f"{numba.__version__} {np.__version__}".encode())
    for path in kernel_sources() if sources is None else sources:
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


@cache
def cache_directory() -> Path:
    """`PILOTAGE_CACHE`, or the user's cache directory; one folder per state of the sources, old ones removed."""
    base = Path(os.environ.get("PILOTAGE_CACHE") or platformdirs.user_cache_dir("pilotage")) / "kernels"
    path = base / source_hash()
    try:
        path.mkdir(parents=True, exist_ok=True, mode=0o700)
        os.utime(path)
        found = path.stat()
        mine = found.st_uid == os.getuid() and not found.st_mode & 0o022
    except OSError:  # a read-only home
        mine = False
    if not mine:  # numba runs what it finds there, so a folder that somebody else has or writes to is no place for it
        return Path(tempfile.mkdtemp(prefix="pilotage-kernels-"))
    _remove_old_caches(base)
    return path


def _remove_old_caches(base: Path) -> None:
    with suppress(OSError):  # another process may be removing the same folders
        folders = sorted((p for p in base.iterdir() if p.is_dir()), key=lambda p: p.stat().st_mtime, reverse=True)
        for old in folders[_OLD_CACHES_KEPT:]:
            shutil.rmtree(old, ignore_errors=True)


@contextmanager
def _numba_cache_in(path: Path) -> Iterator[None]:
    """Only while our functions are declared: other packages in the process keep their own setting."""
    config: Any = numba.config
    before, config.CACHE_DIR = config.CACHE_DIR, str(path)
    try:
        yield
    finally:
        config.CACHE_DIR = before


class _FirstCompilation(Listener):
    """Says in the log that kernels are compiled, once in a process: a first command seems to hang while they are."""

    told = False

    def on_start(self, event: Event) -> None:
        if not self.told and event.data["dispatcher"].py_func.__module__.startswith("pilotage."):
            self.told = True
            LOGGER.info("compiling kernels: half a minute or so, only this once")

    def on_end(self, event: Event) -> None:
        """Nothing to say."""


register(_COMPILATION, _FirstCompilation())  # type: ignore[no-untyped-call]


def kernel(function: Function) -> Function:
    """Compiles on first call, keeps the result on disk, releases the interpreter lock while running."""
    return _compile(function)


def inlined(function: Function) -> Function:
    """A kernel that becomes part of its callers.

    Kernels take tuples of arrays, and an ordinary call copies them word by word: several hundred words for a whole
    scene, far more work than most functions do. Rarely taken and long branches stay ordinary kernels.
    """
    return _compile(function, forceinline=True)


def inner(function: Function) -> Function:
    """A kernel that only kernels call. Unwrapping a scene for Python takes longer to compile than most functions."""
    return _compile(function, no_cpython_wrapper=True)


def inlined_inner(function: Function) -> Function:
    return _compile(function, forceinline=True, no_cpython_wrapper=True)


def _compile(function: Function, **options: Any) -> Function:
    with _numba_cache_in(cache_directory()):
        # No reference counting (_nrt): kernels allocate nothing, and counting the arrays of a scene costs more than
        # the work itself.
        options |= {"_nrt": False, "no_cfunc_wrapper": True}
        compiled: Function = numba.njit(cache=True, nogil=True, error_model="numpy", **options)(function)
    return compiled
