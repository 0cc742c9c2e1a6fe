"""What to compare, as people write it: options of the command line, a scenario file, or both.

A scenario file is YAML::

    apiVersion: pilotage/v1
    kind: Comparison
    traces:                       # shipped ones by name (varied-0..19 is twenty), or files relative to this one
      - openb-like
      - {nodes: nodes.csv, pods: pods.csv}
    policies: [fgd, best-fit, 2*fgd+best-fit]
    seeds: 42-46                  # or a list
    loads: [1.0, 1.3]
    protocol: openb
    baseline: best-fit
    timed: {arrivals: 1500, warmUp: 0.2, mtbfHours: 24, mttrHours: 0.5}
    consolidation: {method: fragMultiPod, budget: 0.02, everyHours: 6}
    price: {perGpuHour: 2.5, unit: EUR}

Only traces are required; an option given beside the file wins over it. Files of policies (mine.py:Tight) are relative
to the scenario too; naming one runs its code.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path

from pilotage.model.errors import InputError
from pilotage.policies.registry import find_policy
from pilotage.sim.compare import Comparison, Price
from pilotage.sim.consolidation import Consolidation
from pilotage.sim.protocols import Timing
from pilotage.sim.specs import TraceSource
from pilotage.workloads.families import expanded
from pilotage.workloads.fields import Field
from pilotage.workloads.trace import Trace
from pilotage.workloads.yaml_documents import only_document

API_VERSION, KIND = "pilotage/v1", "Comparison"
FIELDS = (
    "apiVersion",
    "kind",
    "traces",
    "policies",
    "seeds",
    "loads",
    "protocol",
    "baseline",
    "timed",
    "consolidation",
    "price",
)
MAX_BYTES = 1024 * 1024
MAX_SEEDS = 10_000
MAX_LOAD = 100.0
MAX_RUNS = 1_000_000

_OWN_FILE = re.compile(r"[^*+\s]+\.py(?=:)")  # of a policy text such as 2*mine.py:Tight+fgd
_OPTIONS = {
    "--load": "loads",
    "--baseline": "baseline",
    "--arrivals": "arrivals",
    "--warm-up": "warm_up",
    "--mtbf": "mtbf",
    "--mttr": "mttr",
    "--consolidate": "consolidate",
    "--budget": "budget",
    "--every": "every",
}  # option, field of a scenario
DEFAULT_POLICIES = ("fgd", "best-fit", "gpu-packing", "random")
DEFAULT_SEEDS = (42, 43, 44, 45, 46)


@dataclass(frozen=True)
class Scenario:
    """What was said; None = nothing. `comparison` checks it and fills in the rest."""

    traces: tuple[TraceSource, ...] | None = None
    policies: tuple[str, ...] | None = None
    seeds: tuple[int, ...] | None = None
    loads: tuple[float, ...] | None = None
    protocol: str | None = None
    baseline: str | None = None
    arrivals: int | None = None
    warm_up: float | None = None
    mtbf: float | None = None
    mttr: float | None = None
    consolidate: str | None = None
    budget: float | None = None
    every: float | None = None
    price: Price | None = None
    places: Mapping[str, Field] = field(default_factory=dict, compare=False)  # of what a file says, by option

    def under(self, other: Scenario) -> Scenario:
        """This one, but what `other` says wins."""
        given = {f.name: getattr(other, f.name) for f in fields(other) if f.name != "places"}
        said = {name: value for name, value in given.items() if value is not None}
        kept = {option: place for option, place in self.places.items() if _OPTIONS[option] not in said}
        return replace(self, **said, places={**kept, **other.places})

    def comparison(self) -> Comparison:
        """Everything checked. What is wrong is said of the option, or of the place in the file that set it."""
        try:
            return self._comparison()
        except InputError as error:
            place = self.places.get(error.field or "")
            if place is None or error.file is not None:
                raise
            raise place.error(error.problem, error.expected) from error

    def _comparison(self) -> Comparison:
        if not self.traces:
            raise InputError("no trace given", expected="--nodes FILE --pods FILE, or --trace openb-like")
        protocol = self.protocol or "openb"
        sources = distinct_traces(self.traces)
        loads = checked_loads(self.loads, protocol, [source.load() for source in sources])
        policies, seeds = self.policies or DEFAULT_POLICIES, self.seeds or self._usual_seeds(protocol, loads)
        count = len(sources) * len(policies) * len(seeds) * len(loads) * (1 if self.consolidate is None else 2)
        if count > MAX_RUNS:
            raise InputError(f"{count} runs", expected=f"at most {MAX_RUNS}")
        comparison = Comparison(
            sources=sources,
            policies=policies,
            seeds=seeds,
            protocol=protocol,
            loads=loads,
            baseline=self.baseline,
            timing=checked_timing(protocol, loads, self.arrivals, self.mtbf, self.mttr, self.warm_up),
            consolidation=self._consolidation(protocol),
            price=self.price,
        )
        _ = comparison.baseline_name  # takes part, or is refused here
        return comparison

    def _usual_seeds(self, protocol: str, loads: tuple[float, ...]) -> tuple[int, ...]:
        """One where nothing is left to chance: a trace's own times, no failures, policies that draw nothing."""
        drawn = protocol == "openb" or any(loads) or self.mtbf is not None
        return DEFAULT_SEEDS if drawn else DEFAULT_SEEDS[:1]

    def _consolidation(self, protocol: str) -> Consolidation | None:
        for name, value in (("--budget", self.budget), ("--every", self.every)):
            if value is not None and self.consolidate is None:
                raise InputError("has no effect without --consolidate", field=name)
        if self.consolidate is None:
            return None
        if protocol == "openb" and self.every is not None:
            problem = "the OpenB protocol knows no time: pods are moved once, at the end"
            raise InputError(problem, field="--every", expected="--protocol timed")
        return Consolidation(self.consolidate, 0.02 if self.budget is None else self.budget, self.every)


# From a file


def read_scenario(path: Path) -> Scenario:
    root = Field.of(only_document(path, max_bytes=MAX_BYTES))
    root.get("apiVersion").choice((API_VERSION,))
    root.get("kind").choice((KIND,))
    root.only(*FIELDS)
    timed = root.get("timed").only("arrivals", "warmUp", "mtbfHours", "mttrHours")
    moving = root.get("consolidation").only("method", "budget", "everyHours")
    policies, seeds, loads = root.get("policies"), root.get("seeds"), root.get("loads")
    texts = tuple(_OWN_FILE.sub(lambda own: str(path.parent / own[0]), text) for text in policies.string_list())
    return Scenario(
        traces=tuple(s for entry in root.get("traces").elements() for s in _sources(entry, path.parent)) or None,
        policies=policies.located(lambda: checked_policies(texts)) if policies.present else None,
        seeds=_seeds(seeds) if seeds.present else None,
        loads=tuple(entry.number(high=MAX_LOAD) for entry in loads.elements()) or None,
        protocol=root.get("protocol").choice(("openb", "timed"), "openb") if root.get("protocol").present else None,
        baseline=root.get("baseline").text("") or None,
        arrivals=timed.get("arrivals").integer(low=1) if timed.get("arrivals").present else None,
        warm_up=_given(timed.get("warmUp"), high=0.99),
        mtbf=_given(timed.get("mtbfHours"), low=0.001),
        mttr=_given(timed.get("mttrHours"), low=0.001),
        consolidate=moving.get("method").text() if moving.present else None,
        budget=_given(moving.get("budget"), high=1.0),
        every=_given(moving.get("everyHours"), low=0.001),
        price=_price(root.get("price").only("perGpuHour", "unit")),
        places={
            "--load": loads,
            "--baseline": root.get("baseline"),
            "--arrivals": timed.get("arrivals"),
            "--warm-up": timed.get("warmUp"),
            "--mtbf": timed.get("mtbfHours"),
            "--mttr": timed.get("mttrHours"),
            "--consolidate": moving.get("method"),
            "--budget": moving.get("budget"),
            "--every": moving.get("everyHours"),
        },
    )


def _given(entry: Field, *, low: float = 0.0, high: float = 1e9) -> float | None:
    return entry.number(low=low, high=high) if entry.present else None


def _sources(entry: Field, base: Path) -> tuple[TraceSource, ...]:
    if isinstance(entry.value, str):
        sources = tuple(TraceSource(name=name) for name in entry.located(lambda: expanded(entry.text())))
        for source in sources:
            entry.located(source.load)
        return sources
    entry.only("name", "nodes", "pods")
    nodes, pods, name = (entry.get(key) for key in ("nodes", "pods", "name"))
    if not (nodes.present or pods.present or name.present):
        raise entry.error("names neither a shipped trace nor files", "name, or nodes and pods")
    source = TraceSource(
        base / nodes.text() if nodes.present else None,
        base / pods.text() if pods.present else None,
        name.text() if name.present else None,
    )
    return (source,)


def _seeds(entry: Field) -> tuple[int, ...]:
    if not isinstance(entry.value, list):
        return entry.located(lambda: parse_seeds(str(entry.value)))
    numbers = ",".join(str(seed.integer(high=10**18 - 1)) for seed in entry.elements())
    return entry.located(lambda: parse_seeds(numbers))


def _price(entry: Field) -> Price | None:
    if not entry.present:
        return None
    return Price(entry.get("perGpuHour").number(high=1e6), entry.get("unit").text(""))


# From text


def parse_seeds(text: str) -> tuple[int, ...]:
    """Seeds such as "42-46", "1,5,9" or both; each at most once."""
    seeds: list[int] = []
    for part in text.split(","):
        match = re.fullmatch(r"\s*(\d{1,18})(?:\s*-\s*(\d{1,18}))?\s*", part)
        if match is None:
            raise InputError(f"cannot read {part!r}", field="--seeds", expected="numbers such as 42-46 or 1,5,9")
        first, last = int(match[1]), int(match[2] or match[1])
        if last < first:
            raise InputError(f"{part.strip()!r} runs backwards", field="--seeds", expected=f"{last}-{first}")
        if len(seeds) + last - first >= MAX_SEEDS:
            raise InputError(f"too many seeds up to {part.strip()!r}", field="--seeds", expected=f"at most {MAX_SEEDS}")
        seeds.extend(range(first, last + 1))
    if len(set(seeds)) < len(seeds):
        raise InputError("a seed is given twice", field="--seeds")
    return tuple(seeds)


def parse_policies(text: str) -> tuple[str, ...]:
    """Comma-separated policy texts."""
    return checked_policies(tuple(part.strip() for part in text.split(",") if part.strip()))


def checked_policies(texts: tuple[str, ...]) -> tuple[str, ...]:
    """Each one found and none twice."""
    if not texts:
        raise InputError("no policy given", field="--policies", expected="names such as fgd,best-fit")
    named: dict[str, str] = {}
    for text in texts:
        name = find_policy(text).name
        if name in named:
            both = "" if text == named[name] else f", as {named[name]} and as {text}"
            raise InputError(f"{name!r} is given twice{both}", field="--policies", expected="policies of other names")
        named[name] = text
    return texts


def parse_loads(text: str) -> tuple[float, ...]:
    """Loads such as "1.3" or "0.9,1.1,1.3"."""
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise InputError(f"cannot read {text!r}", field="--load", expected="numbers such as 1.3 or 0.9,1.1") from None


def parse_price(text: str) -> Price:
    """A price per GPU hour such as "2.5" or "2.5 EUR"."""
    match = re.fullmatch(r"\s*(\d{1,6}(?:\.\d{1,6})?)\s*([^\s\d.]\S{0,11})?\s*", text)
    if match is None:
        raise InputError(f"cannot read {text!r}", field="--price", expected="a price of a GPU hour such as '2.5 EUR'")
    return Price(float(match[1]), match[2] or "")


# Checks


def checked_load(load: float, protocol: str) -> float:
    """A load; 0 leaves the trace as it is (openb), or keeps its own times (timed, said by leaving --load out)."""
    if not math.isfinite(load) or load < 0 or load > MAX_LOAD or (protocol == "timed" and load == 0):
        raise InputError(f"{load}", field="--load", expected=f"a number from 0 to {MAX_LOAD:g}, such as 1.3")
    return load


def checked_loads(loads: Sequence[float] | None, protocol: str, traces: Sequence[Trace] = ()) -> tuple[float, ...]:
    """The loads asked for; else 1.3 (openb), but the trace as it is where it has its own times or asks for no GPU."""
    if loads is None:
        tuned = protocol == "openb" and (not traces or any(trace.workload.gpu_milli_P.any() for trace in traces))
        return (1.3,) if tuned else (0.0,)
    if len(set(loads)) < len(loads):
        raise InputError("a load is given twice", field="--load")
    return tuple(checked_load(load, protocol) for load in loads)


def checked_timing(
    protocol: str,
    loads: Sequence[float],
    arrivals: int | None,
    mtbf: float | None,
    mttr: float | None,
    warm_up: float | None = None,
) -> Timing:
    """Settings of timed runs; refused where they would have no effect."""
    given = {"--arrivals": arrivals, "--mtbf": mtbf, "--mttr": mttr, "--warm-up": warm_up}
    for name, value in given.items():
        if protocol == "openb" and value is not None:
            raise InputError("has no effect on runs of the OpenB protocol", field=name, expected="--protocol timed")
    if arrivals is not None and not any(loads):
        raise InputError("has no effect on the trace's own times", field="--arrivals", expected="--load beside it")
    if mttr is not None and mtbf is None:
        raise InputError("has no effect where nodes never fail", field="--mttr", expected="--mtbf beside it")
    defaults = Timing()
    return Timing(
        load=loads[0] or None,
        arrivals=arrivals,
        warm_up=defaults.warm_up if warm_up is None else warm_up,
        mtbf_hours=mtbf,
        mttr_hours=defaults.mttr_hours if mttr is None else mttr,
    )


def distinct_traces(sources: Sequence[TraceSource]) -> tuple[TraceSource, ...]:
    """The traces, every one loaded once so that errors come before any work."""
    loaded = [source.load().name for source in sources]
    for name in loaded:
        if loaded.count(name) > 1:
            raise InputError(f"two traces are named {name!r}", field="--pods", expected="files with different stems")
    return tuple(sources)


def sources_of(
    nodes: Path | None, pods: Sequence[Path] | None, names: Sequence[str] | None
) -> tuple[TraceSource, ...] | None:
    """The traces that options name; None when they name none."""
    sources = [TraceSource(nodes, path) for path in pods or ()]
    sources += [TraceSource(nodes, name=name) for text in names or () for name in expanded(text)]
    if not sources and nodes is not None:
        sources = [TraceSource(nodes)]  # manifests may hold nodes and pods together
    return tuple(sources) or None
