"""Where many runs are carried out: this process, processes of this machine, or a Ray cluster.

An engine is given tasks, runs that share a trace and an arrival order, and yields each one's results when it is done,
in any order. What comes out of a run does not depend on where it ran.
"""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from itertools import groupby
from multiprocessing.connection import wait
from typing import Protocol

from pilotage.model.errors import PilotageError
from pilotage.policies.api import compiled_rules
from pilotage.sim.results import RunResult
from pilotage.sim.specs import RunSpec, policy_of

# A process takes about two seconds to start and load the kernels; it has to have more than that to do.
SECONDS_WORTH_A_PROCESS = 2.0
DECISIONS_PER_SECOND = {True: 200_000, False: 4_000}  # compiled or not; rough, only to tell small work from large
DEATHS = 3  # of processes, after which the machine is taken to be too small
MOST_SECONDS_OF_A_TASK = 2.0  # what a kill may cost; longer runs are tasks of their own

Finished = tuple[RunSpec, RunResult, float]  # with the seconds it took
Task = tuple[RunSpec, ...]


class Engine(Protocol):
    """Carries out tasks."""

    def finished(self, tasks: Sequence[Task]) -> Iterator[list[Finished]]: ...


def end_with_parent() -> None:
    """A process whose parent was killed has nobody to answer to: it ends too, at once."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_end_after, args=(parent.sentinel,), daemon=True).start()


def _end_after(sentinel: int) -> None:
    wait([sentinel])
    os._exit(1)


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
    """`jobs` processes; None: as many as there are cores, but none beside this one where that is not worth it."""

    jobs: int | None = 1

    def finished(self, tasks: Sequence[Task]) -> Iterator[list[Finished]]:
        workers = min(self.jobs or self._worthwhile(tasks), len(tasks))
        if workers <= 1:
            yield from map(execute_task, tasks)
            return
        left = list(tasks)
        for _ in range(DEATHS):
            try:
                for task, results in _in_processes(left, workers):
                    left.remove(task)
                    yield results
                return
            except BrokenProcessPool:
                continue  # a process was killed, perhaps for want of memory: what it had not finished is run again
        raise PilotageError(
            f"processes were killed {DEATHS} times; finished runs are kept, fewer --jobs need less memory"
        )

    def _worthwhile(self, tasks: Sequence[Task]) -> int:
        seconds = sum(expected_seconds(spec) for task in tasks for spec in task)
        return min(os.cpu_count() or 1, int(seconds / SECONDS_WORTH_A_PROCESS))


def _in_processes(tasks: Sequence[Task], workers: int) -> Iterator[tuple[Task, list[Finished]]]:
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, mp_context=context, initializer=end_with_parent) as pool:
        try:
            asked = {pool.submit(execute_task, task): task for task in tasks}
            for done in as_completed(asked):
                yield asked[done], done.result()
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
