"""What `pilotage doctor` finds around the package: programs, control groups, a cluster."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

OK = "ok"
OPTIONAL = "not there"  # what only some commands need
NO_ANSWER = "no answer"
ANSWER_SECONDS = 5.0
ZOOKEEPER = Path("/usr/share/java/zookeeper.jar")  # where Debian's package puts it
CONTROL_GROUPS = "for gang run with processes of this machine"
CLUSTER = "for schedule, serve, record, explain and dashboard"

# Programs on PATH: what they are for, and what to type.
PROGRAMS = {
    "helm": ("for charts in apply, and to install ours", "make tools in a clone, or see helm.sh/docs/intro/install"),
    "stress-ng": ("for tasks of gang jobs that only use CPU", "apt-get install stress-ng"),
    "prometheus": ("for serve --prometheus without one in the cluster", "apt-get install prometheus"),
    "chromium": ("for make picture and the tests of pages", "apt-get install chromium"),
}


class Finding(NamedTuple):
    """One line of the table."""

    part: str
    state: str
    detail: str


def machine_findings() -> list[Finding]:
    programs = [_program(name) for name in PROGRAMS]
    return [*programs, _lab_programs(), _plugin(), _zookeeper(), _control_groups(), _cluster()]


def _program(name: str) -> Finding:
    use, line = PROGRAMS[name]
    found = shutil.which(name)
    return Finding(name, OK, found) if found else Finding(name, OPTIONAL, f"{use}: {line}")


def _lab_programs() -> Finding:
    from pilotage.lab.build import built_programs

    return _built("lab programs", built_programs, "for pilotage lab, a control plane of its own: pilotage lab build")


def _plugin() -> Finding:
    from pilotage.lab.plugin_build import built_plugin

    use = "for lab up --plugin and bench plugin: pilotage lab build --plugin"
    return _built("score plugin", built_plugin, use)


def _built(part: str, where: Callable[[], Path], use: str) -> Finding:
    from pilotage.model.errors import PilotageError

    try:
        return Finding(part, OK, str(where()))
    except PilotageError:
        return Finding(part, OPTIONAL, use)


def _zookeeper() -> Finding:
    if ZOOKEEPER.exists():
        return Finding("zookeeper", OK, str(ZOOKEEPER))
    use = "for a server of your own for gang run --zookeeper"
    return Finding("zookeeper", OPTIONAL, f"{use}: apt-get install zookeeper")


def _control_groups() -> Finding:
    from pilotage.gang.quota import ROOT, version_here
    from pilotage.model.errors import PilotageError

    try:
        return Finding("control groups", OK, f"version {version_here(ROOT)}, {ROOT} can be written")
    except PilotageError:
        line = "sudo pilotage gang run JOB, or in pods: pilotage gang run JOB --image IMAGE"
        if (ROOT / "cgroup.subtree_control").exists() and os.access(ROOT, os.W_OK):
            line = f"echo +cpu > {ROOT}/cgroup.subtree_control"
        return Finding("control groups", OPTIONAL, f"{CONTROL_GROUPS}: {line}")


def _cluster() -> Finding:
    """That of KUBECONFIG or of the home directory, asked for its version."""
    import asyncio

    from pilotage.kube.access import find_access
    from pilotage.kube.client import Client
    from pilotage.model.errors import InputError, PilotageError

    async def version() -> str:
        async with asyncio.timeout(ANSWER_SECONDS), Client(access) as client:
            return str((await client.get("/version")).get("gitVersion"))

    try:
        access = find_access(None)
    except InputError as error:
        return Finding(
            "cluster", OPTIONAL, f"{CLUSTER}: {error}; export KUBECONFIG=FILE, or one to try: pilotage lab up"
        )
    try:
        return Finding("cluster", OK, f"{access.server}, Kubernetes {asyncio.run(version())}")
    except (PilotageError, TimeoutError) as error:
        said = str(error) or f"{access.server}: nothing in {ANSWER_SECONDS:g} seconds"
        return Finding("cluster", NO_ANSWER, f"{CLUSTER}: {said}; look with: kubectl get --raw /version")
