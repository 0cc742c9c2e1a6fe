"""Who carries out trials: this process, processes of this machine, or a Ray cluster. The figures are the same."""

from __future__ import annotations

import multiprocessing
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import Any, Protocol, Self

from pilotage.model.errors import PilotageError
from pilotage.sim.engines import DEATHS, end_with_parent
from pilotage.sim.ray_engine import RETRIES, RayEngine
from pilotage.sim.run_store import code_hash
from pilotage.training.trials import Figures, Trial
from pilotage.workloads.trace import Trace

Task = Sequence[Trial]  # of one candidate


def carry_out(task: Task) -> list[Figures]:
    return [trial.carry_out() for trial in task]


class Workers(Protocol):
    """Carries out tasks; results are in the order of the tasks."""

    def __enter__(self) -> Self: ...
    def __exit__(self, *problem: object) -> None: ...
    def figures(self, tasks: Sequence[Task]) -> list[list[Figures]]: ...


class LocalWorkers:
    """`jobs` processes that stay for the whole training; 1: this process."""

    def __init__(self, jobs: int = 1) -> None:
        self.jobs = jobs
        self._pool: ProcessPoolExecutor | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *problem: object) -> None:
        self._stop()

    def _stop(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
            self._pool = None

    def figures(self, tasks: Sequence[Task]) -> list[list[Figures]]:
        if self.jobs == 1:
            return [carry_out(task) for task in tasks]
        for _ in range(DEATHS):
            if self._pool is None:
                context = multiprocessing.get_context("spawn")
                self._pool = ProcessPoolExecutor(self.jobs, mp_context=context, initializer=end_with_parent)
            try:
                return list(self._pool.map(carry_out, tasks))
            except BrokenProcessPool:
                self._stop()  # a process was killed: the generation is run again
        raise PilotageError(f"processes were killed {DEATHS} times; fewer --jobs need less memory")


class RayWorkers:
    """Machines of a Ray cluster; a task whose worker dies is repeated by Ray."""

    def __init__(self, engine: RayEngine) -> None:
        self.engine = engine
        self._ray: Any = None
        self._traces: dict[object, Any] = {}

    def __enter__(self) -> Self:
        self._ray = self.engine.connected()
        self._remote = self._ray.remote(max_retries=RETRIES)(_carry_out_elsewhere)
        return self

    def __exit__(self, *problem: object) -> None:
        self._ray.shutdown()

    def figures(self, tasks: Sequence[Task]) -> list[list[Figures]]:
        for source in {trial.source for task in tasks for trial in task} - self._traces.keys():
            self._traces[source] = self._ray.put(source.load())
        pending = [
            self._remote.remote(task, code_hash(), *(self._traces[trial.source] for trial in task)) for task in tasks
        ]
        try:
            found: list[list[Figures]] = self._ray.get(pending)
        except self._ray.exceptions.RayTaskError as error:
            raise (error.cause if isinstance(error.cause, PilotageError) else error) from error
        except self._ray.exceptions.RayError as error:
            raise PilotageError(f"a task was lost {RETRIES + 1} times: {str(error).splitlines()[0]}") from error
        return found


def _carry_out_elsewhere(task: Task, code: str, *traces: Trace) -> list[Figures]:
    if code != code_hash():
        raise PilotageError("a machine of the Ray cluster has another version of Pilotage; results would differ")
    return [trial.carry_out(trace) for trial, trace in zip(task, traces, strict=True)]
