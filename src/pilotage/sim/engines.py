"""Where many runs are carried out: this process, processes of this machine, or a Ray cluster.

An engine is given tasks, runs that share a trace and an arrival order, and yields each one's results when it is done,
in any order. What comes out of a run does not depend on where it ran.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from itertools import groupby
from typing import Protocol

from pilotage.policies.api import compiled_rules
from pilotage.sim.results import RunResult
from pilotage.sim.specs import RunSpec, policy_of

# A process takes about two seconds to start and load the kernels; it has to have more than that to do.
SECONDS_WORTH_A_PROCESS = 2.0
DECISIONS_PER_SECOND = {True: 200_000, False: 4_000}  # compiled or not; rough, only to tell small work from large
MOST_SECONDS_OF_A_TASK = 2.0  # what a kill may cost; longer runs are tasks of their own

Finished = tuple[RunSpec, RunResult, float]  # with the seconds it took
Task = tuple[RunSpec, ...]


class Engine(Protocol):
    """Carries out tasks."""

    def finished(self, tasks: Sequence[Task]) -> Iterator[list[Finished]]: ...


def execute_task(task: Task) -> list[Finished]:
    return [(spec, *spec.execute()) for spec in task]


def tasks_of(specs: Sequence[RunSpec]) -> list[Task]:
    """Neighbours that share an arrival order go together, as long as that does not take long."""
    tasks: list[Task] = []
    for _, neighbours in groupby(specs, key=lambda spec: (spec.source, spec.load, spec.seed)):
        task: Task = ()
        for spec in neighbours:
            if task and sum(map(expected_seconds, (*task, spec))) > MOST_SECONDS_OF_A_TASK:
                tasks.append(task)
                task = ()
            task += (spec,)
        tasks.append(task)
    return tasks


def expected_seconds(spec: RunSpec) -> float:
    compiled = compiled_rules(policy_of(spec.policy)) is not None
    return len(spec.source.load().workload) * max(spec.load, 1.0) / DECISIONS_PER_SECOND[compiled]


@dataclass(frozen=True)
class LocalEngine:
    """`jobs` processes, or this one where the work is not worth starting others."""

    jobs: int = 1

    def finished(self, tasks: Sequence[Task]) -> Iterator[list[Finished]]:
        seconds = sum(expected_seconds(spec) for task in tasks for spec in task)
        workers = min(self.jobs, len(tasks), int(seconds / SECONDS_WORTH_A_PROCESS))
        if workers <= 1:
            yield from map(execute_task, tasks)
            return
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(workers, mp_context=context) as pool:
            try:
                for done in as_completed([pool.submit(execute_task, task) for task in tasks]):
                    yield done.result()
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise
