"""The directory of an evolution: what it was asked for, what happened, and the best parameters so far.

settings.json      settings, workloads with their yardsticks, start
generations.jsonl  a line per generation; all that is needed to go on
curve.csv          a row per validation
events/            TensorBoard
best/              the checkpoint that was best in validation
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, get_args

import numpy as np

from pilotage.model.errors import InputError
from pilotage.model.workload import FloatArray
from pilotage.policies.architectures import Architecture
from pilotage.policies.checkpoints import Checkpoint, Origin, write_checkpoint
from pilotage.policies.json_fields import JsonField
from pilotage.policies.priced import LAYOUT, PARAMETERS, parts_of
from pilotage.sim.seeds import VALIDATION
from pilotage.sim.specs import TraceSource
from pilotage.training.evolution import EvolutionSettings, Generation, Workloads, seeds_of
from pilotage.training.strategies import Method
from pilotage.training.trials import BASELINES, Yardstick
from pilotage.workloads.files import make_directory, replace_file

SETTINGS, GENERATIONS = "settings.json", "generations.jsonl"
MAX_BYTES = 256 * 1024 * 1024
MAX_WORKLOADS = 10_000
SUMMARIES = {
    "packing": "least loss of the learned value of what is left, with prices of leftovers from the pods' sizes",
    "balance": "evens out the use of nodes by the learned value of what is left",
}


@dataclass(frozen=True)
class EvolutionDirectory:
    """The files of one evolution."""

    path: Path
    name: str  # of the policy
    settings: EvolutionSettings
    workloads: Workloads
    start: FloatArray
    steps: FloatArray | None = None

    def create(self) -> None:
        make_directory(self.path)
        content = {
            "agent": "evolution",
            "name": self.name,
            "settings": asdict(self.settings),
            "given": [self._described(source) for source in self.workloads.given],
            "varied": [self._described(source) for source in self.workloads.varied],
            "start": _by_part(self.start),
        }
        if self.steps is not None:
            content["steps"] = _by_part(self.steps)
        replace_file(self.path / SETTINGS, (json.dumps(content, indent=1) + "\n").encode())

    def _described(self, source: TraceSource) -> dict[str, object]:
        yardstick = self.workloads.yardsticks[source]
        place = {
            "nodes": None if source.nodes is None else str(source.nodes.absolute()),
            "pods": None if source.pods is None else str(source.pods.absolute()),
            "trace": source.name,
        }
        known = {key: value for key, value in place.items() if value is not None}
        return {**known, "digest": source.load().digest, "baseline": yardstick.baseline, "bound": yardstick.bound}

    @classmethod
    def existing(cls, path: Path) -> EvolutionDirectory:
        """As it was created; traces that have changed since are refused."""
        file = path / SETTINGS
        root = JsonField.of(_content(file), file)
        root.get("agent").same_as("evolution", "the directory of an evolution")
        root.only(("agent", "name", "settings", "given", "varied", "start", "steps"))
        given, varied = (tuple(map(_workload, root.get(key).elements(MAX_WORKLOADS))) for key in ("given", "varied"))
        workloads = Workloads(tuple(dict(given)), tuple(dict(varied)), dict([*given, *varied]))
        steps = _parameters(root.get("steps")) if "steps" in root.mapping() else None
        settings, start = _settings(root.get("settings")), _parameters(root.get("start"))
        return cls(path, root.get("name").text(), settings, workloads, start, steps)

    def past(self) -> list[Generation]:
        """What was written down; a last line that was cut off by a kill does not count."""
        file = self.path / GENERATIONS
        if not file.exists():
            return []
        whole = _content(file).rpartition(b"\n")[0].splitlines()
        found = [_generation(JsonField.of(line, file), number) for number, line in enumerate(whole)]
        replace_file(file, b"".join(line + b"\n" for line in whole))
        return found

    def write_down(self, generation: Generation) -> None:
        with (self.path / GENERATIONS).open("ab") as stream:
            stream.write(json.dumps(asdict(generation)).encode() + b"\n")
            stream.flush()
            os.fsync(stream.fileno())

    @property
    def events(self) -> Path:
        return self.path / "events"

    def _given_names(self) -> list[str]:
        return [source.load().name for source in self.workloads.given]

    def figures(self, generation: Generation) -> dict[str, float]:
        """What a generation shows, by name."""
        found = {"spread": generation.spread}
        if generation.values:
            found |= {"fitness_best": -min(generation.values), "fitness_mean": -float(np.mean(generation.values))}
        if generation.validation is not None:
            found |= {"validation": generation.validation}
            found |= {f"room_closed/{name}": s for name, s in zip(self._given_names(), generation.shares, strict=True)}
        return found

    def write_curve(self, generations: Sequence[Generation]) -> None:
        lines = [",".join(["generation", "spread", "validation", *self._given_names()])]
        lines += [
            ",".join(f"{value:.9g}" for value in (g.number, g.spread, g.validation, *g.shares))
            for g in generations
            if g.validation is not None
        ]
        replace_file(self.path / "curve.csv", ("\n".join(lines) + "\n").encode())

    def write_best(self, parameters: FloatArray, validation: float, generations: int) -> None:
        objective = self.settings.objective
        first, last = seeds_of(self.settings, 0)[0], seeds_of(self.settings, generations)[-1]
        traces = [source.load() for source in (*self.workloads.given, *self.workloads.varied)]
        origin = Origin(
            training={
                "agent": "evolution",
                **asdict(self.settings),
                "generations": generations,
                "given": self._given_names(),
                "varied": [source.load().name for source in self.workloads.varied],
            },
            seeds={
                "training": [first, last],
                "validation": [VALIDATION[0], VALIDATION[self.settings.validation_seeds - 1]],
            },
            data_hash=hashlib.sha256("".join(trace.digest for trace in traces).encode()).hexdigest(),
            scores={"validation": validation},
        )
        tensors = {part: values[None] for part, values in parts_of(parameters).items()}
        checkpoint = Checkpoint(self.name, Architecture("prices", valuations=1), tensors, SUMMARIES[objective], origin)
        write_checkpoint(self.path / "best", checkpoint)


def _settings(root: JsonField) -> EvolutionSettings:
    usual = asdict(EvolutionSettings())
    root.only(tuple(usual))
    values: dict[str, Any] = {
        "objective": root.get("objective").choice(tuple(BASELINES), "objective"),
        "method": root.get("method").choice(get_args(Method), "method"),
    }
    for name, value in usual.items():
        if isinstance(value, int):
            values[name] = root.get(name).integer(0, 10**9)
        elif isinstance(value, float):
            values[name] = root.get(name).number()
    return EvolutionSettings(**values)


def _workload(root: JsonField) -> tuple[TraceSource, Yardstick]:
    root.only(("nodes", "pods", "trace", "digest", "baseline", "bound"))
    paths = {key: Path(root.get(key).text(4096)) for key in ("nodes", "pods") if key in root.mapping()}
    name = root.get("trace").text() if "trace" in root.mapping() else None
    source = TraceSource(paths.get("nodes"), paths.get("pods"), name)
    if source.load().digest != root.get("digest").value:
        raise root.error("the trace has changed since the training began", "the same trace, or a new training")
    return source, Yardstick(root.get("baseline").number(), root.get("bound").number())


def _by_part(vector: FloatArray) -> dict[str, list[float]]:
    return {part: values.tolist() for part, values in parts_of(vector).items()}


def _parameters(root: JsonField) -> FloatArray:
    return np.concatenate([_numbers(root.get(part), size) for part, size in LAYOUT.items()])


def _numbers(root: JsonField, wanted: int | None = None) -> FloatArray:
    values = np.array([element.number() for element in root.elements(PARAMETERS)])
    if wanted is not None and len(values) != wanted:
        raise root.wrong(f"{wanted} numbers")
    return values


def _generation(root: JsonField, number: int) -> Generation:
    root.get("number").same_as(number, f"generation {number}: one line each, in order")
    validation = root.get("validation")
    return Generation(
        number=number,
        values=tuple(_numbers(root.get("values")).tolist()),
        spread=root.get("spread").number(),
        validation=None if validation.value is None else validation.number(),
        shares=tuple(_numbers(root.get("shares")).tolist()),
    )


def _content(file: Path) -> bytes:
    try:
        if file.stat().st_size > MAX_BYTES:
            raise InputError("too large", file=file, expected=f"at most {MAX_BYTES} bytes")
        return file.read_bytes()
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", file=file) from error
