"""Scheduler configurations of simon: KubeSchedulerConfiguration, plugins merged as kube-scheduler 1.20.5 does it.

Read strictly. Whatever could not work, or would give other decisions than asked for because it is not simulated, is
refused with the reason. What depends on the pods as well is for `simon_survey.refuse_unsupported` to say.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pilotage.policies.simon_plugins import DIM_EXTS, GPU_SEL_METHODS, NORMS, PUBLISHED, SCORE_PLUGINS, DotProduct
from pilotage.workloads.fields import Field
from pilotage.workloads.simon import MAX_CONFIG_BYTES
from pilotage.workloads.yaml_documents import only_document

KIND, GROUP = "KubeSchedulerConfiguration", "kubescheduler.config.k8s.io"
VERSIONS = tuple(f"{GROUP}/{version}" for version in ("v1beta1", "v1beta2", "v1beta3", "v1"))
PROFILE = "simon-scheduler"
GPU_SHARE = "Open-Gpu-Share"
RANDOM = "RandomScore"

# Score plugins that are enabled unless disabled, with their weights.
DEFAULT_SCORES = {
    "NodeResourcesBalancedAllocation": 1,
    "ImageLocality": 1,
    "InterPodAffinity": 1,
    "NodeResourcesLeastAllocated": 1,
    "NodeAffinity": 1,
    "NodePreferAvoidPods": 10000,
    "PodTopologySpread": 2,
    "TaintToleration": 1,
}
# Those of them that give every node the same score, unless pods or nodes say something they look at.
INERT_SCORES = (
    "ImageLocality",
    "InterPodAffinity",
    "NodeAffinity",
    "NodePreferAvoidPods",
    "PodTopologySpread",
    "TaintToleration",
)
SIMULATED_FILTERS = ("NodeUnschedulable", "NodeName", "TaintToleration", "NodeAffinity", "NodeResourcesFit")
NOT_SIMULATED_SCORES = (
    "NodeResourcesMostAllocated",
    "RequestedToCapacityRatio",
    "NodeLabel",
    "SelectorSpread",
    "ServiceAffinity",
)
OTHER_PLUGINS = (
    GPU_SHARE,
    "DefaultBinder",
    "DefaultPreemption",
    "NodeName",
    "NodePorts",
    "NodeResourcesFit",
    "NodeUnschedulable",
    "PrioritySort",
    "VolumeBinding",
    "VolumeRestrictions",
    "VolumeZone",
    "EBSLimits",
    "GCEPDLimits",
    "NodeVolumeLimits",
    "AzureDiskLimits",
    "CinderLimits",
)
PLUGINS = frozenset((*SCORE_PLUGINS, *DEFAULT_SCORES, *NOT_SIMULATED_SCORES, *OTHER_PLUGINS))

POINTS = (
    "queueSort",
    "preFilter",
    "filter",
    "postFilter",
    "preScore",
    "score",
    "reserve",
    "permit",
    "preBind",
    "bind",
    "postBind",
)
_WITHOUT_EFFECT = (
    "leaderElection",
    "clientConnection",
    "parallelism",
    "healthzBindAddress",
    "metricsBindAddress",
    "enableProfiling",
    "enableContentionProfiling",
    "podInitialBackoffSeconds",
    "podMaxBackoffSeconds",
)


@dataclass(frozen=True, slots=True)
class SchedulerConfig:
    """How pods are placed."""

    scores: tuple[tuple[str, int], ...]  # enabled score plugins and weights, those of the defaults first
    gpu_sel: str = ""  # "" where Open-Gpu-Share is not enabled, so that no pod can get a GPU
    missing_gpu_points: tuple[str, ...] = ()  # of filter and reserve: where Open-Gpu-Share is not enabled
    scoring: DotProduct = PUBLISHED  # settings of DotProductScore
    selecting: DotProduct = PUBLISHED  # settings of Open-Gpu-Share
    percentage: int = 0  # of nodes to score; 0 = kube-scheduler's choice
    file: str = ""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Point:
    """One extension point."""

    enabled: dict[str, Field]
    disabled: dict[str, Field]

    def disables(self, plugin: str) -> bool:
        return plugin in self.disabled or "*" in self.disabled


def read_scheduler_config(path: Path) -> SchedulerConfig:
    root = Field.of(only_document(path, max_bytes=MAX_CONFIG_BYTES))
    root.get("kind").choice((KIND,))  # first: a file of the wrong kind has the wrong version too
    root.get("apiVersion").choice(VERSIONS)
    root.only("apiVersion", "kind", "percentageOfNodesToScore", "profiles", "extenders", *_WITHOUT_EFFECT)
    notes = root.without_effect(*_WITHOUT_EFFECT)
    for extender in root.get("extenders").elements():
        raise extender.error("extenders ask another program, which is not simulated", "no extenders")
    profile = _profile(root.get("profiles"), notes)
    plugins = profile.get("plugins").only(*POINTS)
    points = {point: _point(plugins.get(point)) for point in POINTS}
    _refuse_missing_filters(points["filter"])
    if "Simon" not in points["bind"].enabled or not points["bind"].disables("DefaultBinder"):
        notes.append("plugins.bind: pods are bound by the simulation, as by the plugin Simon")
    scores = _scores(points["score"], points["preScore"])
    settings = _plugin_settings(profile.get("pluginConfig"))
    missing = tuple(point for point in ("filter", "reserve") if GPU_SHARE not in points[point].enabled)
    uses_matching = any(name == "DotProductScore" for name, _ in scores)
    return SchedulerConfig(
        scores=scores,
        gpu_sel="" if missing else _gpu_sel(settings.get(GPU_SHARE), profile),
        missing_gpu_points=missing,
        scoring=_matching(settings.get("DotProductScore"), profile, needed=uses_matching),
        selecting=_matching(settings.get(GPU_SHARE), profile),
        percentage=root.get("percentageOfNodesToScore").integer(0, high=100),
        file=str(path),
        notes=tuple(notes),
    )


def _profile(profiles: Field, notes: list[str]) -> Field:
    found = [profile.only("schedulerName", "plugins", "pluginConfig") for profile in profiles.elements()]
    named = [profile for profile in found if profile.get("schedulerName").value == PROFILE]
    if len(named) != 1:
        raise profiles.error(f"{len(named)} profiles are called {PROFILE}", "one, which all pods go by")
    notes += [f"{profile.path} has no effect: no pod goes by it" for profile in found if profile is not named[0]]
    return named[0]


def _point(point: Field) -> _Point:
    return _Point(_named(point.only("enabled", "disabled").get("enabled")), _named(point.get("disabled"), star=True))


def _named(entries: Field, *, star: bool = False) -> dict[str, Field]:
    named: dict[str, Field] = {}
    for entry in entries.elements():
        name = entry.only("name", "weight").get("name").text()
        if name not in PLUGINS and not (star and name == "*"):
            raise entry.get("name").unknown("plugin", name, PLUGINS)
        if name in named:
            raise entry.get("name").error(f"{name} is given twice", "it once")
        named[name] = entry
    return named


def _refuse_missing_filters(point: _Point) -> None:
    for name, entry in point.disabled.items():
        if name == "*" or name in SIMULATED_FILTERS:
            problem = f"{name} disabled as a filter: pods would be placed where they do not fit"
            raise entry.get("name").error(problem, "filters left as they are")


def _scores(score: _Point, pre_score: _Point) -> tuple[tuple[str, int], ...]:
    merged = {name: weight for name, weight in DEFAULT_SCORES.items() if not score.disables(name)}
    for name, entry in score.enabled.items():
        place = entry.get("name")
        if name in merged:
            raise place.error(f"{name} is enabled already, by default", f"{name} under disabled as well")
        if name in NOT_SIMULATED_SCORES:
            raise place.error(f"{name} is not simulated", "another score plugin")
        if name not in SCORE_PLUGINS and name not in DEFAULT_SCORES:
            raise place.error(f"{name} gives no scores", " or ".join(SCORE_PLUGINS))
        if name == RANDOM and RANDOM not in pre_score.enabled:
            problem = f"{RANDOM} draws its node in preScore, where it is not enabled: no node would ever get a score"
            raise place.error(problem, f"{RANDOM} under plugins.preScore.enabled as well")
        weight = entry.get("weight")
        merged[name] = weight.integer(1, low=1) if weight.present else 1
    return tuple(merged.items())


def _plugin_settings(entries: Field) -> dict[str, Field]:
    """Arguments by plugin; methods are checked wherever they are given."""
    settings: dict[str, Field] = {}
    for entry in entries.elements():
        entry.only("name", "args")
        name, args = entry.get("name").text(), entry.get("args")
        if name not in PLUGINS:
            raise entry.get("name").unknown("plugin", name, PLUGINS)
        if name not in (*SCORE_PLUGINS, GPU_SHARE) or name in DEFAULT_SCORES:
            if args.value:
                raise args.error(f"arguments of {name} are not simulated", "its defaults")
            continue
        if name in settings:
            raise entry.get("name").error(f"{name} is given twice", "it once")
        args.only("dimExtMethod", "normMethod", *(("gpuSelMethod",) if name == GPU_SHARE else ()))
        _dot_product(args)
        settings[name] = args
    return settings


def _gpu_sel(args: Field | None, profile: Field) -> str:
    if args is None or not args.get("gpuSelMethod").value:
        place = args or profile.get("pluginConfig")
        raise place.error(f"{GPU_SHARE} has no gpuSelMethod", " or ".join(GPU_SEL_METHODS))
    return args.get("gpuSelMethod").choice(GPU_SEL_METHODS, kind="gpuSelMethod")


def _matching(args: Field | None, profile: Field, *, needed: bool = False) -> DotProduct:
    if args is None:
        if needed:
            place = profile.get("pluginConfig")
            raise place.error("DotProductScore has no dimExtMethod and normMethod", "its arguments in pluginConfig")
        return PUBLISHED
    return _dot_product(args)


def _dot_product(args: Field) -> DotProduct:
    dim_ext = args.get("dimExtMethod").choice(DIM_EXTS, "merge", kind="dimExtMethod")
    norm = args.get("normMethod").choice(NORMS, "max", kind="normMethod")
    return DotProduct(dim_ext, norm)  # type: ignore[arg-type]  # they are of the lists that the types are made from
