"""Scores of one policy, devices by the rule of another: every pair takes the course of the naive simulation."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilotage.kernels.devices import DEVICE_RULES
from pilotage.model.cluster import Node
from pilotage.model.workload import FloatArray, IntArray, Pod, PodShape, Workload
from pilotage.policies.api import DecisionBatch, DeviceRule, FeatureSchema, Normalise, Policy, Scope, WorkloadMix
from pilotage.policies.checking import check_policy
from pilotage.policies.device_choice import DeviceChoice
from pilotage.policies.registry import find_policy
from pilotage.sim.run import Run, RunSettings
from reference import fragmentation as slow
from reference.choices import SlowPolicy
from reference.openb_run import openb_run
from reference.strategies import checked, node_lists, shapes

PAIRS = [*product(["fgd@1"], ["best", "worst", "random"]), *product(["best-fit@1", "random@1"], ["fgd"])]


@dataclass(frozen=True)
class Uncompiled:
    """The same choice without rules that kernels understand; its `score` names the device, so the rule is not asked."""

    choice: DeviceChoice

    @property
    def name(self) -> str:
        return self.choice.name

    @property
    def features(self) -> FeatureSchema:
        return self.choice.features

    @property
    def scope(self) -> Scope:
        return self.choice.scope

    @property
    def normalise(self) -> Normalise:
        return self.choice.normalise

    @property
    def device_rule(self) -> DeviceRule:
        return "best" if self.choice.device_rule == "fgd" else self.choice.device_rule

    def prepare(self, mix: WorkloadMix) -> Uncompiled:
        return Uncompiled(self.choice.prepare(mix))

    def score(self, batch: DecisionBatch, out_BN: FloatArray, device_BN: IntArray) -> None:
        self.choice.score(batch, out_BN, device_BN)


@pytest.mark.parametrize(("name", "rule"), PAIRS)
@given(
    node_lists(),
    st.lists(shapes(["n0", "n1"], most=3), min_size=1, max_size=6),
    st.lists(st.integers(0, 5), min_size=1, max_size=25),
    st.integers(0, 2**31),
)
@checked(40)
def test_scores_and_devices_are_those_of_the_twin(
    name: str, rule: DeviceRule, nodes: list[Node], kinds: list[PodShape], order: list[int], seed: int
) -> None:
    workload = Workload.of(Pod(f"p{i}", kinds[kind % len(kinds)]) for i, kind in enumerate(order))
    pods = list(workload)
    twin = SlowPolicy((name,), slow.typical_pods([pod.shape for pod in pods]), device_rule=rule)
    events = openb_run(nodes, pods, twin, seed)
    choice = DeviceChoice(find_policy(name), rule)
    ways: tuple[Policy, ...] = (choice, Uncompiled(choice))
    for policy in ways:
        run = Run(nodes, workload, policy, RunSettings(seed=seed))
        assert (run.rules is None) is (policy is not choice)
        run.advance()
        assert run.scene.progress.node_P.tolist() == [event.node for event in events]
        assert run.scene.progress.devices_P.tolist() == [event.devices for event in events]


@pytest.mark.parametrize("rule", DEVICE_RULES)
@pytest.mark.parametrize("name", ["fgd", "best-fit"])
def test_any_choice_keeps_the_contract(name: str, rule: DeviceRule) -> None:
    choice = DeviceChoice(find_policy(name), rule)
    check_policy(choice)
    assert (choice.name, choice.features) == (find_policy(name).name, find_policy(name).features)


@pytest.mark.parametrize("name", ["best-fit", "pilotage-pack"])
def test_each_rule_gives_its_own_device(name: str) -> None:
    """300, 400 and 1000 milli are left, and typical pods want 300: 100 milli from the first would waste the rest."""
    nodes = [Node("n", 100_000, 2**40, gpu_count=3)]
    asked = [(700, 0b001), (600, 0b010), (100, 0), *[(300, 0)] * 100]
    workload = Workload.of(
        Pod(f"p{i}", PodShape(1, 1, gpu_milli=milli, gpu_count=1, gpu_devices=devices))
        for i, (milli, devices) in enumerate(asked)
    )
    rules: tuple[DeviceRule, ...] = ("best", "worst", "fgd")
    chosen = []
    for rule in rules:
        run = Run(nodes, workload, DeviceChoice(find_policy(name), rule), RunSettings())
        run.advance()
        chosen.append(run.scene.progress.devices_P[:3].tolist())
    assert chosen == [[0b001, 0b010, 0b001], [0b001, 0b010, 0b100], [0b001, 0b010, 0b010]]
