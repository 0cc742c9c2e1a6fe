"""The programs of the control plane, built once from their published Go modules.

`modules/` holds two Go modules that require them, with the hashes of everything they are made of (go.sum). Programs are
kept under their version and a hash of these inputs, so a second build takes no time and a new version never meets an
old program. One program is built at a time and appears by rename: an interrupted build goes on where it was.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import platform
import subprocess
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from pilotage.lab.places import lab_cache
from pilotage.lab.toolchain import find_go
from pilotage.model.errors import InputError, PilotageError
from pilotage.workloads.files import make_directory

KUBERNETES = "1.36.3"
MODULES = Path(__file__).with_name("modules")
LOG_LINES = 20

_VERSION = "k8s.io/component-base/version"
VERSION_STAMP = f"-X {_VERSION}.gitVersion=v{KUBERNETES} -X {_VERSION}.gitMajor=1 -X {_VERSION}.gitMinor=36"

Progress = Callable[[str, int], None]  # told the program and how many packages of it have been compiled


class Program(NamedTuple):
    """One program: its name, the module it is built from, its main package there, and what the linker is told."""

    name: str
    module: str
    package: str
    stamp: str = ""


PROGRAMS = (
    Program("etcd", "nodes", "./etcd"),
    Program("kwok", "nodes", "sigs.k8s.io/kwok/cmd/kwok"),
    Program("kube-apiserver", "kubernetes", "k8s.io/kubernetes/cmd/kube-apiserver", VERSION_STAMP),
    Program("kube-controller-manager", "kubernetes", "k8s.io/kubernetes/cmd/kube-controller-manager", VERSION_STAMP),
    Program("kube-scheduler", "kubernetes", "k8s.io/kubernetes/cmd/kube-scheduler", VERSION_STAMP),
)


class BuildError(PilotageError):
    """The compiler failed; its last lines are in the message."""

    exit_code = 1


def inputs_hash() -> str:
    """Of everything that decides what the programs are, but for the compiler."""
    return hash_of(PROGRAMS, MODULES, sorted(path for path in MODULES.rglob("*") if path.is_file()))


def hash_of(programs: tuple[Program, ...], root: Path, files: Iterable[Path]) -> str:
    digest = hashlib.sha256(repr((programs, platform.system(), platform.machine())).encode())
    for path in files:
        digest.update(str(path.relative_to(root)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:12]


def programs_directory() -> Path:
    return lab_cache() / "programs" / f"{KUBERNETES}-{inputs_hash()}"


def missing_programs() -> list[Program]:
    directory = programs_directory()
    return [program for program in PROGRAMS if not (directory / program.name).is_file()]


def built_programs() -> Path:
    """The directory of the programs, when all of them are there."""
    missing = missing_programs()
    if missing:
        problem = f"not built yet: {', '.join(program.name for program in missing)}"
        raise InputError(problem, file=programs_directory(), expected="pilotage lab build, once (about 8 minutes)")
    return programs_directory()


def build(progress: Progress) -> list[str]:
    """Builds what is missing; the names of the programs that were built."""
    return build_programs(missing_programs, MODULES, programs_directory(), progress)


def build_programs(
    missing: Callable[[], list[Program]], modules: Path, directory: Path, progress: Progress
) -> list[str]:
    """Builds the missing programs of some modules into a directory; their names."""
    if not missing():
        return []
    go = find_go()
    make_directory(directory)
    built = []
    with _alone(lab_cache() / "build.lock"):
        for program in missing():  # again: another process may have built them meanwhile
            _build_one(go, program, modules / program.module, directory, progress)
            built.append(program.name)
    return built


def _build_one(go: Path, program: Program, module: Path, directory: Path, progress: Progress) -> None:
    partial = directory / f".{program.name}.{os.getpid()}.partial"
    options = ["-v", "-trimpath", "-ldflags", f"-s -w {program.stamp}".strip(), "-o", str(partial)]
    try:
        with subprocess.Popen(  # noqa: S603
            [go, "build", *options, program.package],
            cwd=module,
            env=go_environment(),
            stderr=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            text=True,
        ) as process:
            lines: deque[str] = deque(maxlen=LOG_LINES)
            progress(program.name, 0)
            for count, line in enumerate(process.stderr or (), 1):
                lines.append(line)
                progress(program.name, count)
        if process.returncode != 0:
            raise BuildError(f"{program.name} was not built (code {process.returncode}):\n{''.join(lines)}")
        partial.replace(directory / program.name)
    finally:
        partial.unlink(missing_ok=True)


def go_environment() -> dict[str, str]:
    """Settings of a user's own Go may be for other projects; where modules come from and are kept is theirs to say."""
    given = dict(os.environ)
    given.setdefault("GOMODCACHE", str(lab_cache() / "modules"))
    return given | {"CGO_ENABLED": "0", "GOTOOLCHAIN": "local", "GOWORK": "off", "GOFLAGS": "-mod=readonly -modcacherw"}


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """One process at a time."""
    with path.open("w") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        yield
