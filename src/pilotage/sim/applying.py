"""A simon configuration carried out: the sequence of `simon apply`.

The cluster's pods are scheduled first (InitSchedule). Then, where the configuration asks for them: copies of pods to
see how much more would fit (ScheduleInflation), moving pods (PostEviction, PostDeschedule, DescheduleInflation), apps.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from pilotage.kernels.gorand import GoSource
from pilotage.kernels.meters import empty_meters, measure_all
from pilotage.kernels.scene import REFUSED, RUNS
from pilotage.model.cluster import ClusterState
from pilotage.model.errors import InputError
from pilotage.model.workload import FOREVER, GPU_MILLI, IntArray, PodShape
from pilotage.policies.api import Policy, WorkloadMix
from pilotage.policies.mix import typical_pods
from pilotage.policies.simon_plugins import plugin_policy
from pilotage.sim.cluster_analysis import Analysis, analyse, occupied
from pilotage.sim.details import reason_text
from pilotage.sim.planning import Arrivals, Plan, plan
from pilotage.sim.run import Placed, Run, RunSettings
from pilotage.sim.snapshots import Seated, write_pods, write_tables
from pilotage.workloads.helm import render_chart
from pilotage.workloads.node_template import copies, parse
from pilotage.workloads.simon import App, ClusterConfig
from pilotage.workloads.simon_arrival import in_time, inflation, simon_arrival
from pilotage.workloads.simon_daemons import beside_daemons, daemons_on
from pilotage.workloads.simon_pods import SimonCluster, SimonPods, read_app, read_cluster, unpinned
from pilotage.workloads.simon_scheduler import INERT_SCORES, SchedulerConfig
from pilotage.workloads.simon_survey import UNSCHEDULED, refuse_unsupported

MARKED = "marked as unscheduled"


@dataclass(frozen=True, slots=True)
class Failure:
    """A pod that found no place."""

    pod: Seated
    reason: str


@dataclass(slots=True)
class Applied:
    """What came of a configuration."""

    name: str
    policy: str
    nodes: int
    offered: int = 0  # pods, copies for inflation left out
    analyses: list[Analysis] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    moved: int = 0
    notes: list[str] = field(default_factory=list)
    files: list[Path] = field(default_factory=list)

    def failed_shapes(self) -> list[tuple[PodShape, str, int]]:
        """Shapes of failed pods with the reason and how many there are, most first."""
        counts = Counter((failure.pod.shape, failure.reason) for failure in self.failures)
        return [(shape, reason, count) for (shape, reason), count in counts.most_common()]

    def as_dict(self) -> dict[str, object]:
        return {
            "name": self.name,
            "policy": self.policy,
            "nodes": self.nodes,
            "pods": self.offered,
            "unscheduled": len(self.failures),
            "moved": self.moved,
            "analyses": [analysis.as_dict() for analysis in self.analyses],
            "failed": [
                {
                    "pods": count,
                    "cpu_milli": shape.cpu_milli,
                    "memory_bytes": shape.memory_bytes,
                    "gpu_count": shape.gpu_count,
                    "gpu_milli": shape.gpu_milli,
                    "gpu_models": shape.gpu_models,
                    "reason": reason,
                }
                for shape, reason, count in self.failed_shapes()
            ],
            "files": [str(path) for path in self.files],
            "notes": self.notes,
        }


def apply_config(config: ClusterConfig, scheduler: SchedulerConfig, out: Path | None = None) -> Applied:
    """Carries out a configuration; snapshots go below `out`, or where the configuration says."""
    session, apps = _prepare(config, scheduler)
    session.carry_out([(app.name, part.pods) for app, part in zip(config.apps, apps, strict=True)], out)
    return session.applied


@dataclass(frozen=True, slots=True)
class Planned:
    """An answer, and what to know about it."""

    plan: Plan
    notes: list[str]


def plan_config(config: ClusterConfig, scheduler: SchedulerConfig, spec: str) -> Planned:
    """The smallest number of nodes like `spec` with which every pod, those of apps too, gets a place and stays.

    An added node holds its pods of DaemonSets as well. Pods that are marked as unscheduled are left out.
    """
    session, apps = _prepare(config, scheduler)
    nodes, notes = session.cluster.nodes, session.applied.notes
    fed = SimonPods.joined([session.fed, *(in_time(part.pods) for part in apps)])
    template = parse(spec, nodes)
    daemons = daemons_on(copies(template, 1, nodes)[0], (part.survey for part in (session.cluster, *apps)))
    notes += _planning_notes(config, fed, daemons)
    tried = fed.workload.take(np.flatnonzero(~fed.marked_P))
    if not len(tried):
        raise InputError(f"every pod is marked {UNSCHEDULED}", file=config.cluster, expected="pods to plan for")
    arrivals = Arrivals(nodes, tried, session.rank_N, session.mix, config.seed)
    return Planned(plan(arrivals, session.policy, beside_daemons(template, daemons)), notes)


def _planning_notes(config: ClusterConfig, fed: SimonPods, daemons: Mapping[str, PodShape]) -> list[str]:
    """What is not as in a run of the configuration."""
    notes = []
    if daemons:
        notes.append(f"each added node holds a pod of every DaemonSet that runs there: {', '.join(daemons)}")
    if any(0 < shape.gpu_milli < GPU_MILLI for shape in daemons.values()):
        notes.append("a part of a GPU that a DaemonSet asks for counts as a whole GPU on added nodes")
    if fed.marked_P.any():
        notes.append(f"pods marked {UNSCHEDULED}, which fail untried, are left out: {int(fed.marked_P.sum())}")
    if np.isfinite(fed.workload.duration_P).any():
        notes.append("deletion times have no effect: room is planned for all pods at once")
    steps = {
        "workloadInflationConfig": config.inflation_ratio > 1,
        "descheduleConfig": config.descheduling,
        "exportConfig": config.node_csv_prefix or config.pod_yaml_prefix,
    }
    return notes + [f"{step} has no effect beside --add-nodes" for step, wanted in steps.items() if wanted]


def _prepare(config: ClusterConfig, scheduler: SchedulerConfig) -> tuple[_Session, list[SimonCluster]]:
    """Everything read and checked, nothing placed; and what the apps bring."""
    cluster = read_cluster(config.cluster)
    if not cluster.nodes:
        raise InputError("there are no nodes", file=config.cluster, expected="at least one Node")
    apps = [_read(app, config.cluster, cluster) for app in config.apps]
    _refuse_shared_names(config.apps, apps)
    if not any(len(part.pods.workload) for part in (cluster, *apps)):
        raise InputError("there are no pods", file=config.cluster, expected="pods, or objects that make pods")
    notes = [*config.notes, *scheduler.notes]
    for part in (cluster, *apps):
        notes += refuse_unsupported(scheduler, part.survey, cluster.nodes, part.pods.workload.shapes)
    session = _Session.start(config, scheduler, cluster)
    session.applied.notes = list(dict.fromkeys(notes))
    return session, apps


def _refuse_shared_names(apps: Sequence[App], parts: Sequence[SimonCluster]) -> None:
    """Each app is read beside the cluster, where a name given twice is found; not beside the others."""
    owners: dict[str, App] = {}
    for app, part in zip(apps, parts, strict=True):
        for name in part.pods.workload.names:
            if name in owners:
                first = owners[name]
                problem = (
                    f"the pod {name!r} of app {app.name} is given twice, first in {first.path} of app {first.name}"
                )
                raise InputError(problem, file=app.path, expected="one of each name in a namespace")
            owners[name] = app


def _read(app: App, directory: Path, cluster: SimonCluster) -> SimonCluster:
    if not app.chart:
        return read_app(app.path, directory, cluster)
    with TemporaryDirectory() as place:
        rendered = Path(place, "rendered.yaml")
        rendered.write_bytes(render_chart(app.name, app.path))
        try:
            return read_app(rendered, directory, cluster)
        except InputError as error:
            file = f"{app.path} (rendered)" if str(error.file) == str(rendered) else error.file
            raise InputError(
                error.problem, file=file, row=error.row, field=error.field, expected=error.expected
            ) from error


def scheduler_policy(scheduler: SchedulerConfig) -> Policy:
    """All score plugins that tell nodes apart, as one policy. No GPU is asked for where no gpuSelMethod is set."""
    scores = [(name, weight) for name, weight in scheduler.scores if name not in INERT_SCORES]
    return plugin_policy(scores, scheduler.gpu_sel or "best", scheduler.scoring, scheduler.selecting)


@dataclass(slots=True)
class _Session:
    """The cluster on the way through the sequence."""

    config: ClusterConfig
    cluster: SimonCluster
    policy: Policy
    mix: WorkloadMix
    fed: SimonPods  # in order of arrival
    rank_N: IntArray
    source: GoSource
    applied: Applied
    seated: list[Seated] = field(default_factory=list)

    @classmethod
    def start(cls, config: ClusterConfig, scheduler: SchedulerConfig, cluster: SimonCluster) -> _Session:
        arrival, policy = simon_arrival(cluster.pods, cluster.nodes, config), scheduler_policy(scheduler)
        return cls(
            config,
            cluster,
            policy,
            _mix(cluster.pods, config),
            arrival.pods,
            arrival.rank_N,
            arrival.source,
            Applied(config.name, policy.name, len(cluster.nodes)),
        )

    def carry_out(self, apps: Sequence[tuple[str, SimonPods]], out: Path | None) -> None:
        first = self.offer(self.fed)
        self.analyse("InitSchedule")
        self.export("InitSchedule", out)
        self.inflate("ScheduleInflation")
        if self.config.new_workload is not None:
            self.mix = _mix(read_cluster(self.config.new_workload).pods, self.config)
        if self.config.descheduling and first is not None:
            self.deschedule(first, out)
            self.inflate("DescheduleInflation")
        for name, pods in apps:
            self.offer(in_time(pods))
            self.analyse(f"App {name}")

    @property
    def state(self) -> ClusterState:
        """Nodes in the order that breaks ties, which is the order of the published sums."""
        nodes = [self.cluster.nodes[n] for n in np.argsort(self.rank_N)]
        return occupied(nodes, self._placed())

    def _placed(self) -> list[Placed]:
        return [Placed(pod.shape, pod.node, pod.devices) for pod in self.seated]

    def analyse(self, tag: str) -> None:
        self.applied.analyses.append(analyse(tag, self.state, self.mix))

    def offer(self, pods: SimonPods) -> Run | None:
        """Feeds pods that have not been seen yet."""
        self.applied.offered += len(pods.workload)
        run, failures = self.schedule(pods)
        self.applied.failures += failures
        return run

    def schedule(self, pods: SimonPods) -> tuple[Run | None, list[Failure]]:
        """Seats pods. Marked ones fail untried, so that there may be no run at all."""
        marked, tried = np.flatnonzero(pods.marked_P), np.flatnonzero(~pods.marked_P)
        failures = [Failure(_seated(pods, row), MARKED) for row in marked.tolist()]
        if not len(tried):
            return None, failures
        run = self._run(pods.take(tried))
        progress, names = run.scene.progress, [node.name for node in run.state.nodes]
        for row, at in enumerate(tried.tolist()):
            pod = _seated(pods, at)
            if progress.state_P[row] == RUNS:
                node, devices = names[progress.node_P[row]], int(progress.devices_P[row])
                self.seated.append(replace(pod, node=node, devices=devices))
            elif progress.state_P[row] == REFUSED:
                failures.append(Failure(pod, reason_text(run, row)))
        return run, failures

    def _run(self, pods: SimonPods) -> Run:
        timed = bool(np.isfinite(pods.workload.duration_P).any() or pods.workload.arrival_P.any())
        settings = RunSettings(timed=timed, seed=self.config.seed, tape=False, reasons=True)
        run = Run(
            self.cluster.nodes,
            pods.workload,
            self.policy,
            settings,
            rank_N=self.rank_N,
            mix=self.mix,
            placed=self._placed(),
        )
        run.advance()
        return run

    def inflate(self, tag: str) -> None:
        """How the cluster would look with more pods of the same kind, which are gone again afterwards."""
        if self.config.inflation_ratio <= 1:
            return
        arrays = self.state.arrays
        room = int(arrays.free_NR[:, 0].sum()), int(arrays.device_left_ND.sum())
        copies = inflation(self.source, self.cluster.pods, self.config.inflation_ratio, room)
        before = list(self.seated)
        self.schedule(copies)
        self.analyse(tag)
        self.seated = before

    def deschedule(self, first: Run, out: Path | None) -> None:
        """Takes pods away and schedules them again, in the order in which they left."""
        from pilotage.sim.descheduling import budget_of, victims

        _measure_by(first, self.mix)
        rows = victims(first, self.config.descheduling, budget_of(self.config.descheduling_ratio, len(self.seated)))
        tried = np.flatnonzero(~self.fed.marked_P)
        leaving = self.fed.take(tried[rows])
        gone = set(leaving.workload.names)
        self.seated = [pod for pod in self.seated if pod.name not in gone]
        self.applied.moved = len(rows)
        self.analyse("PostEviction")
        again = leaving.map_shapes(unpinned)
        stays = replace(again.workload, arrival_P=np.zeros(len(rows)), duration_P=np.full(len(rows), FOREVER))
        _, failures = self.schedule(replace(again, workload=stays))
        self.applied.failures += failures
        self.analyse("PostDeschedule")
        self.export("PostDeschedule", out)

    def export(self, tag: str, out: Path | None) -> None:
        tables = out or (Path(self.config.node_csv_prefix) if self.config.node_csv_prefix else None)
        manifests = out or (Path(self.config.pod_yaml_prefix) if self.config.pod_yaml_prefix else None)
        if tables is not None:
            self.applied.files += write_tables(tables / tag, self.state, self.seated)
        if manifests is not None:
            without = [failure.pod for failure in self.applied.failures]
            self.applied.files += write_pods(manifests / tag, self.cluster.nodes, [*self.seated, *without])


def _mix(pods: SimonPods, config: ClusterConfig) -> WorkloadMix:
    """What typical pods are found in: all pods but those of DaemonSets, before any copy."""
    return replace(WorkloadMix.of(pods.workload.take(np.flatnonzero(~pods.daemon_P))), typical=config.typical)


def _measure_by(run: Run, mix: WorkloadMix) -> None:
    """Lets a finished run be judged by other typical pods."""
    arrays = run.state.arrays
    typical = typical_pods(replace(mix, models=run.state.models, devices=arrays.device_left_ND.shape[1]))
    meters = empty_meters(len(run.state.nodes), typical)
    measure_all(arrays, meters)
    run.scene = run.scene._replace(meters=meters)


def _seated(pods: SimonPods, row: int) -> Seated:
    workload = pods.workload
    return Seated(workload.names[row], workload.shapes[workload.shape_P[row]], created=pods.created_P[row])
