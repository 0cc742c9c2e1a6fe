"""A real run put together: job, controller, meeting, workers, record; and what came of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING

import numpy as np

from pilotage.gang.crew import Crew, Workforce
from pilotage.gang.dividing import even_units
from pilotage.gang.embedded import EmbeddedMeeting
from pilotage.gang.execution import Execution, Limits, Plan, Shares
from pilotage.gang.job import Job, controller_rows
from pilotage.gang.meeting import Meeting
from pilotage.gang.own_directory import alone_in, mark_of, run_of
from pilotage.gang.problem import Problem
from pilotage.gang.quota import Quota, make_quota
from pilotage.gang.record import Record, Superstep
from pilotage.gang.scenario_mpc import Planner, ScenarioMpc
from pilotage.model.workload import IntArray
from pilotage.workloads.files import replace_file
from pilotage.workloads.result_files import dump

if TYPE_CHECKING:
    from pilotage.gang.cluster_link import ClusterPlace


@dataclass(frozen=True)
class RealRun:
    """What is run and how."""

    job: Job
    file: Path
    controller: str
    supersteps: int | None
    limits: Limits
    quotas: bool
    zookeeper: str | None
    place: ClusterPlace | None = None  # None: workers are processes of this machine
    patience: float = 60.0
    """Seconds to wait for a ZooKeeper that is away."""

    def execute(self, out: Path) -> list[Superstep]:
        """Carries it out, or the rest of it. However it ends, no worker, no quota and no barrier is left."""
        length = controller_rows(self.job, 0, self.supersteps)
        outlook = self.job.outlook()
        problem = self.job.problem(outlook, 0, length)
        size_TJ = outlook.sizes.rows(outlook.before, length).actual_THJ[:, 0]
        settings: dict[str, object] = {
            "job": self.job.name,
            "controller": self.controller,
            "supersteps": length,
            "content": self.job.fingerprint(),
        }
        with ExitStack() as stack:
            stack.enter_context(alone_in(out))
            mark = mark_of(out)
            record = Record(out, settings)
            stack.callback(record.close)
            quotas: dict[str, Quota] = {}
            for task in self.job.names if self.quotas and self.place is None else ():
                quotas[task] = make_quota(f"{self.job.name}-{mark}-{task}")
                stack.callback(quotas[task].remove)
            meeting, arguments, token = self._meeting(mark)
            stack.callback(meeting.close)
            crew: Workforce
            if self.place is None:
                crew = Crew(self.file, arguments, token, mark, quotas)
            else:
                from pilotage.gang.cluster_crew import ClusterCrew

                crew = ClusterCrew(self.job, arguments, token, run_of(out), self.place)
            stack.callback(crew.close)
            execution = Execution(self.job.names, meeting, crew, record, self.limits)
            stack.callback(execution.stop)
            shares = Shares(self.job.budget.least, self.job.budget.step)
            plan, paid = self._plan(problem)
            execution.run(plan, size_TJ, predictor(problem), shares, paid)
        return record.done

    def _meeting(self, mark: str) -> tuple[Meeting, list[str], str]:
        """The meeting, how workers find it, and the token of this run."""
        if self.zookeeper is None:
            embedded = EmbeddedMeeting()
            return embedded, ["--connect", embedded.address], embedded.token
        from pilotage.gang.zookeeper import ZooKeeperMeeting

        token = f"{mark}-{token_hex(8)}"
        meeting = ZooKeeperMeeting(self.zookeeper, self.job.name, token, self.patience)
        return meeting, ["--zookeeper", self.zookeeper, "--patience", f"{self.patience:g}"], token

    def _plan(self, problem: Problem) -> tuple[Plan, Callable[[float], None]]:
        """Who divides, and whom to tell what a new division has cost."""
        if self.controller == "pilotage":
            planner = Planner(ScenarioMpc(), problem)
            return planner.plan, planner.paid
        equal_J = even_units(problem.room)
        return lambda t, current_J: equal_J if current_J is None else None, lambda seconds: None

    def figures(self, steps: Sequence[Superstep], other: Sequence[Superstep] | None = None) -> dict[str, object]:
        """What `--json` prints; beside another run, its time over the same supersteps and the ratio of both."""
        measured = sum(step.seconds for step in steps)
        predicted = sum(step.predicted for step in steps)
        redivisions = sum(step.divided for step in steps[1:])
        return {
            "job": self.job.name,
            "controller": self.controller,
            "meeting": "embedded" if self.zookeeper is None else "zookeeper",
            "supersteps": len(steps),
            "seconds": round(measured, 3),
            "predicted_seconds": round(predicted, 3),
            "redivisions": redivisions,
            "resize_seconds": round(sum(step.resize_seconds for step in steps), 6),
            "lost_seconds": round(sum(step.lost_seconds for step in steps), 3),
            "interrupted_seconds": round(sum(step.interrupted_seconds for step in steps), 3),
            "failures": [event for step in steps for event in step.events],
        } | ({} if other is None else _beside(steps, other))

    def write(self, out: Path, figures: Mapping[str, object], command: str) -> None:
        replace_file(out / "results.json", dump({**figures, "made_by": {"command": command}}))


def _beside(steps: Sequence[Superstep], other: Sequence[Superstep]) -> dict[str, object]:
    both = min(len(steps), len(other))
    own_seconds, other_seconds = (sum(step.seconds for step in run[:both]) for run in (steps, other))
    return {
        "against_supersteps": both,
        "against_seconds": round(other_seconds, 3),
        "ratio": round(own_seconds / other_seconds, 4) if other_seconds else None,
    }


def predictor(problem: Problem) -> Callable[[int, IntArray], float]:
    """Seconds of a superstep as the plan has them: by the duration model and the sizes forecast right before it."""
    tasks = np.arange(problem.tasks)

    def predict(t: int, unit_J: IntArray) -> float:
        return float(problem.duration_THJC[t, 0, tasks, unit_J].max())

    return predict
