"""A control plane: started, looked at, stopped.

What a lab is, is its directory: `lab.json` names ports and processes, beside it are keys, logs and data. `down` stops
what is recorded there and removes the directory; nothing is left.
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import shutil
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from pilotage.kube.access import read_kubeconfig
from pilotage.kube.client import Client
from pilotage.kube.errors import KubeError, UnreachableError
from pilotage.lab import components
from pilotage.lab.build import KUBERNETES, built_programs
from pilotage.lab.certificates import Authority, new_key, private_pem, public_pem, write_private
from pilotage.lab.components import LabSettings
from pilotage.lab.kubeconfigs import write_kubeconfig
from pilotage.lab.places import labs_directory, run_directory
from pilotage.lab.plugin_build import built_plugin
from pilotage.lab.ports import LOOPBACK, answers, expect_free, free_ports
from pilotage.lab.processes import Started, last_lines, start, stop
from pilotage.model.clock import Clock, SystemClock
from pilotage.model.errors import InputError, PilotageError
from pilotage.workloads.files import make_directory, replace_file

RECORD = "lab.json"
READY_SECONDS = 120.0  # that one program may take to be ready
POLL_SECONDS = 0.05

# Users of a lab and their groups. system:masters are exempt from the API server's fairness, kube-scheduler is not.
USERS = {
    "admin": ("system:masters",),
    "kube-scheduler": (),
    "kube-controller-manager": ("system:masters",),  # its own role is for controllers with an account each
    "kwok": ("system:masters",),
}

Progress = Callable[[str], None]
T = TypeVar("T")


class LabError(PilotageError):
    """A program of the lab ended or does not answer; the last lines of its log are in the message."""

    exit_code = 1


@dataclass(frozen=True)
class Lab:
    """A lab that was started."""

    name: str
    directory: Path
    settings: LabSettings
    ports: dict[str, int]
    processes: dict[str, Started] = field(default_factory=dict)

    @property
    def kubeconfig(self) -> Path:
        return self.kubeconfig_of("admin")

    def kubeconfig_of(self, user: str) -> Path:
        return self.directory / f"{user}.kubeconfig"

    def log(self, component: str) -> Path:
        return self.directory / f"{component}.log"

    def write(self) -> None:
        record = {
            "kubernetes": KUBERNETES,
            "settings": asdict(self.settings),
            "ports": self.ports,
            "processes": [asdict(process) for process in self.processes.values()],
        }
        replace_file(self.directory / RECORD, json.dumps(record, indent=1).encode())

    def ended(self, component: str, what: str = "ended") -> str:
        """A message about a program, with the end of its log."""
        log = self.log(component)
        return f"{component} {what}; the last lines of {log}:\n{last_lines(log)}"

    def states(self) -> dict[str, str]:
        """Of each program: runs, or has ended."""
        return {
            name: "runs" if name in self.processes and self.processes[name].alive else "ended"
            for name in self.settings.components
        }

    def started(self, name: str) -> Lab:
        """This lab with one program started (again)."""
        programs = built_plugin() if name == components.SCHEDULER and self.settings.plugin else built_programs()
        arguments = components.command(name, programs, self.ports, self.settings)
        process = start(name, arguments, self.log(name), self.directory)
        lab = replace(self, processes={**self.processes, name: process})
        lab.write()
        return lab


def in_lab(lab: Lab, do: Callable[[Client], Awaitable[T]], user: str = "admin") -> T:
    """Carries out requests as a user of the lab."""

    async def run() -> T:
        async with Client(read_kubeconfig(lab.kubeconfig_of(user), None, SystemClock())) as client:
            return await do(client)

    return asyncio.run(run())


def find_lab(name: str) -> Lab:
    """The lab of this name, from its record."""
    directory = run_directory(name)
    try:
        record: dict[str, Any] = json.loads((directory / RECORD).read_bytes())
        processes = {entry["name"]: Started(**entry) for entry in record["processes"]}
        return Lab(name, directory, LabSettings(**record["settings"]), dict(record["ports"]), processes)
    except FileNotFoundError:
        up = ", ".join(lab_names()) or "none is up"
        raise InputError(
            f"no lab {name!r} is up", field="--name", expected=f"pilotage lab up, or one of: {up}"
        ) from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        problem = f"is no record of a lab ({type(error).__name__})"
        raise InputError(problem, file=directory / RECORD, expected="what lab up wrote") from error


def lab_names() -> list[str]:
    directory = labs_directory()
    return sorted(path.parent.name for path in directory.glob(f"*/{RECORD}")) if directory.is_dir() else []


def up(
    name: str,
    settings: LabSettings = LabSettings(),
    *,
    port: int | None = None,
    progress: Progress = lambda text: None,
    clock: Clock | None = None,
) -> Lab:
    """Starts a lab and returns when its API server, controllers and nodes' programs are ready."""
    clock = clock or SystemClock()
    built_programs()
    if settings.plugin:
        built_plugin()
    if port is not None:
        expect_free(port, "--port")
    lab = _claim(name, settings, port, clock)
    try:
        for component in settings.components:
            progress(f"starting {component}")
            lab = lab.started(component)
            if component in (components.ETCD, components.API):  # the others need these
                wait_ready(lab, component, clock)
        for component in settings.components:
            wait_ready(lab, component, clock)
    except BaseException:
        _stop_all(lab, clock)
        shutil.rmtree(lab.directory, ignore_errors=True)
        raise
    return lab


def down(name: str, clock: Clock | None = None) -> Lab:
    """Stops the lab and removes its directory."""
    lab = find_lab(name)
    _stop_all(lab, clock or SystemClock())
    left = [process.name for process in lab.processes.values() if process.alive]
    if left:
        raise LabError(f"could not be stopped: {', '.join(left)}")
    shutil.rmtree(lab.directory)
    return lab


def _stop_all(lab: Lab, clock: Clock) -> None:
    for component in reversed(components.START_ORDER):
        if component in lab.processes:
            stop(lab.processes[component], clock)


def _claim(name: str, settings: LabSettings, port: int | None, clock: Clock) -> Lab:
    """A directory for its owner alone, and ports. Of two commands that start the same lab, one gets it."""
    directory = run_directory(name)
    make_directory(directory.parent)
    with _locked(directory.parent):
        if (directory / RECORD).exists():
            problem = f"the lab {name!r} is up already"
            raise InputError(problem, field="--name", expected="another name, or pilotage lab down before")
        shutil.rmtree(directory, ignore_errors=True)  # of one that was killed before it wrote its record
        directory.mkdir(mode=0o700)
        others = {taken for other in lab_names() for taken in find_lab(other).ports.values()}
        ports = dict(zip(components.PORTS, free_ports(len(components.PORTS), others), strict=True))
        lab = Lab(name, directory, settings, ports | ({components.API: port} if port is not None else {}))
        _write_files(lab, clock)
        lab.write()
    return lab


@contextmanager
def _locked(directory: Path) -> Iterator[None]:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _write_files(lab: Lab, clock: Clock) -> None:
    directory = lab.directory
    authority, store = Authority("pilotage-lab", clock.wall()), Authority("pilotage-lab-etcd", clock.wall())
    accounts = new_key()
    server, etcd = authority.issue("kube-apiserver"), store.issue("etcd")
    for name, data in (
        ("ca.crt", authority.pem),
        ("server.crt", server.certificate),
        ("server.key", server.key),
        ("etcd-ca.crt", store.pem),
        ("etcd.crt", etcd.certificate),
        ("etcd.key", etcd.key),
        ("service-accounts.key", private_pem(accounts)),
        ("service-accounts.pub", public_pem(accounts)),
    ):
        write_private(directory / name, data)
    address = f"https://{LOOPBACK}:{lab.ports[components.API]}"
    for user, groups in USERS.items():
        called = f"system:{user}" if user.startswith("kube-") else user
        who = authority.issue(called, *groups)
        write_kubeconfig(lab.kubeconfig_of(user), f"pilotage-lab-{lab.name}", address, authority.pem, who)
    components.write_configuration(directory, lab.settings)


def wait_ready(lab: Lab, component: str, clock: Clock) -> None:
    """Until the program answers; a LabError with the end of its log when it ended, or takes too long."""
    deadline = clock.now() + READY_SECONDS
    while True:
        if not lab.processes[component].alive:
            raise LabError(lab.ended(component))
        if _is_ready(lab, component):
            return
        if clock.now() > deadline:
            raise LabError(lab.ended(component, f"is not ready after {READY_SECONDS:g} s"))
        clock.wait(POLL_SECONDS)


def _is_ready(lab: Lab, component: str) -> bool:
    if component != components.API:
        return answers(lab.ports[component])
    return asyncio.run(_api_server_ready(lab.kubeconfig))


async def _api_server_ready(kubeconfig: Path) -> bool:
    try:
        async with Client(read_kubeconfig(kubeconfig, None, SystemClock())) as client:
            return await client.text("/readyz") == "ok"
    except (KubeError, UnreachableError):
        return False
