"""Runs on a Ray cluster: the same runs, the same results, on many machines.

Traces and policies are sent, so the machines need no files, only the same version of this program (checked). A task
whose worker or machine dies is repeated by Ray. Ray sends objects as pickles between its machines: use a cluster that
only you can reach.
"""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pilotage.model.errors import InputError, PilotageError
from pilotage.policies.api import Policy
from pilotage.policies.weighted import WeightedSum
from pilotage.sim.engines import Finished, Task
from pilotage.sim.run_store import code_hash
from pilotage.sim.specs import policy_of
from pilotage.workloads.trace import Trace

RETRIES = 10  # of a task whose worker died
LOOPBACK = "127.0.0.1"
SECONDS_TO_ANSWER = 10.0


@dataclass(frozen=True)
class RayEngine:
    """`address` of a Ray cluster as ray.init takes it; None starts one on this machine, closed to others."""

    address: str | None = None
    jobs: int | None = None  # of the one started here

    def finished(self, tasks: Sequence[Task]) -> Iterator[list[Finished]]:
        if not tasks:
            return
        ray = self.connected()
        try:
            yield from _results(ray, tasks)
        finally:
            ray.shutdown()

    def connected(self) -> Any:
        """The module `ray`, connected; whoever asks shuts it down."""
        ray = _import_ray(self.address)
        self._connect(ray)
        return ray

    def _connect(self, ray: Any) -> None:
        self._expect_answer()
        settings: dict[str, object] = {"log_to_driver": False, "configure_logging": False}
        if self.address is None:
            settings |= {"num_cpus": self.jobs, "include_dashboard": False, "_node_ip_address": LOOPBACK}
        try:
            ray.init(address=self.address or "local", **settings)
        except (ConnectionError, ValueError, RuntimeError) as error:
            raise self._no_cluster(error) from error

    def _expect_answer(self) -> None:
        """Ray itself tries for minutes where nobody listens."""
        host, colon, port = (self.address or "").rpartition(":")
        if not colon or not (port.isascii() and port.isdigit()) or "/" in host:
            return
        try:
            socket.create_connection((host, int(port)), timeout=SECONDS_TO_ANSWER).close()
        except OSError as error:
            raise self._no_cluster(error) from error

    def _no_cluster(self, error: Exception) -> InputError:
        problem = f"no Ray cluster at {self.address}: {' '.join(str(error).split())[:200]}"
        return InputError(problem, field="--address", expected="HOST:PORT of its head, or auto")


def _import_ray(address: str | None) -> Any:
    """Ray reads its environment when it is imported."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing about the run leaves the cluster
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # silences a note about GPUs
    if address is None or address.startswith(("127.", "localhost")):
        # Otherwise Ray takes loopback for a mistake and looks for the cluster at the machine's outer address.
        os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
    try:
        import ray
    except ImportError as error:
        problem = "Ray is not installed"
        raise InputError(problem, field="--engine", expected="pip install 'pilotage[ray]'") from error
    return ray


def _results(ray: Any, tasks: Sequence[Task]) -> Iterator[list[Finished]]:
    specs = [spec for task in tasks for spec in task]
    traces = {source: ray.put(source.load()) for source in {spec.source: None for spec in specs}}
    policies = {text: policy_of(text) for text in {spec.policy: None for spec in specs}}
    for policy in policies.values():
        _send_by_value(ray, policy)
    remote = ray.remote(max_retries=RETRIES)(execute_elsewhere)
    pending = [
        remote.remote(task, traces[task[0].source], [policies[spec.policy] for spec in task], code_hash())
        for task in tasks
    ]
    while pending:
        done, pending = ray.wait(pending)
        try:
            yield ray.get(done[0])
        except ray.exceptions.RayTaskError as error:
            raise (error.cause if isinstance(error.cause, PilotageError) else error) from error
        except ray.exceptions.RayError as error:
            raise PilotageError(f"a task was lost {RETRIES + 1} times: {str(error).splitlines()[0]}") from error


def _send_by_value(ray: Any, policy: Policy) -> None:
    """A policy from a user's file is sent with its code: other machines do not have the file."""
    for part in policy.parts if isinstance(policy, WeightedSum) else (policy,):
        module = sys.modules[type(part).__module__]
        if not module.__name__.startswith("pilotage."):
            ray.cloudpickle.register_pickle_by_value(module)


def execute_elsewhere(task: Task, trace: Trace, policies: Sequence[Policy], code: str) -> list[Finished]:
    if code != code_hash():
        raise PilotageError("a machine of the Ray cluster has another version of Pilotage; results would differ")
    return [(spec, *spec.execute(trace, policy)) for spec, policy in zip(task, policies, strict=True)]
