"""One mutant beside its tests, in a process of its own that imports the changed module instead of the file."""

from __future__ import annotations

import importlib
import os
import resource
import signal
import sys
import time
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import spec_from_file_location
from pathlib import Path
from types import ModuleType

KILLED, SURVIVED, ENDLESS = "killed", "survived", "endless"
ENVIRONMENT = {
    "NUMBA_DISABLE_JIT": "1",  # a mutant need not be compiled
    "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
    "PYTHONDONTWRITEBYTECODE": "1",
    "OPENBLAS_NUM_THREADS": "1",
}


def prepare(preload: list[str]) -> None:
    """What all mutants share is imported once, and a failing example is not made smaller."""
    os.environ |= ENVIRONMENT
    for name in preload:
        importlib.import_module(name)
    from hypothesis import Phase, settings

    settings.register_profile("mutation", phases=(Phase.explicit, Phase.generate), report_multiple_bugs=False)
    settings.load_profile("mutation")
    assert not any(name.startswith("pilotage.") for name in sys.modules)


def outcome(path: Path, source: str, tests: list[str], seconds: float, memory: int) -> tuple[str, float]:
    """What the tests say of `source` in the place of the file `path`, and how long it took."""
    began = time.perf_counter()
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        _become(path, source, tests, seconds, memory)
    _, status = os.waitpid(child, 0)
    took = time.perf_counter() - began
    if os.WIFSIGNALED(status):
        return (ENDLESS if os.WTERMSIG(status) == signal.SIGALRM else KILLED), took
    return (KILLED if os.WEXITSTATUS(status) else SURVIVED), took


def _become(path: Path, source: str, tests: list[str], seconds: float, memory: int) -> None:
    """The child: never returns."""
    code = 1
    try:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, seconds)
        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
        silence = os.open(os.devnull, os.O_WRONLY)
        os.dup2(silence, 1)
        os.dup2(silence, 2)
        sys.meta_path.insert(0, _Finder(path, source))
        import pytest

        code = int(pytest.main(["-x", "-q", "-p", "no:cacheprovider", *tests]))
    finally:
        os._exit(code)


class _Finder(MetaPathFinder):
    """Finds one module, with other source."""

    def __init__(self, path: Path, source: str) -> None:
        self.path, self.source = path, source
        parts = path.with_suffix("").parts
        self.name = ".".join(parts[parts.index("pilotage") :])

    def find_spec(self, fullname: str, path: object, target: ModuleType | None = None) -> ModuleSpec | None:
        if fullname != self.name:
            return None
        return spec_from_file_location(fullname, self.path, loader=_Loader(fullname, self.path, self.source))


class _Loader(SourceFileLoader):
    def __init__(self, name: str, path: Path, source: str) -> None:
        super().__init__(name, str(path))
        self.source = source.encode()

    def get_data(self, path: str) -> bytes:
        return self.source

    def path_stats(self, path: str) -> dict[str, float]:
        raise OSError("no bytecode of the file as it is")
