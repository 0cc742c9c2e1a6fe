"""What the chart says, without a cluster."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator

import pytest
import yaml

from deploy.chart import CHART, ROOT, helm, of_kind, program, rendered
from pilotage import __version__
from pilotage.kube.client import Json

ALL_PARTS = ("service.enabled=true", "dashboard.enabled=true", "pluginScheduler.enabled=true")
EVERYTHING = (*ALL_PARTS, "serviceMonitor.enabled=true", "service.binds=true")
READING = {"get", "list", "watch"}


@pytest.fixture(scope="module")
def everything() -> list[Json]:
    return rendered(*EVERYTHING)


def pods(documents: list[Json]) -> Iterator[Json]:
    for deployment in of_kind(documents, "Deployment").values():
        yield deployment["spec"]["template"]["spec"]


def containers(documents: list[Json]) -> Iterator[Json]:
    for pod in pods(documents):
        yield from (*pod.get("initContainers", ()), *pod["containers"])


def rules(documents: list[Json]) -> Iterator[Json]:
    for kind in ("ClusterRole", "Role"):
        for role in of_kind(documents, kind).values():
            yield from role["rules"]


@pytest.mark.parametrize("values", [(), EVERYTHING, ("scheduler.mode=advise",), ("tls.source=secret",)])
def test_helm_finds_nothing_to_complain_about(values: tuple[str, ...]) -> None:
    sets = [word for value in values for word in ("--set", value)]
    helm("lint", CHART, "--strict", "--kube-version", "1.36.3", *sets)


def test_no_role_grants_everything_of_anything(everything: list[Json]) -> None:
    granted = list(rules(everything))
    assert granted
    for rule in granted:
        assert "*" not in rule["verbs"] + rule["resources"] + rule["apiGroups"]
        assert not {"secrets", "pods/exec", "impersonate", "escalate"} & {*rule["verbs"], *rule["resources"]}


def test_advice_and_the_page_may_only_read() -> None:
    found = rendered("scheduler.mode=advise", "dashboard.enabled=true")
    assert {verb for rule in rules(found) for verb in rule["verbs"]} <= READING
    assert of_kind(found, "Role") == {}
    (scheduler,) = of_kind(found, "Deployment")["pilotage-scheduler"]["spec"]["template"]["spec"]["containers"]
    assert "--advise=/var/lib/pilotage/advice.csv" in scheduler["args"]
    assert "--profile=default-scheduler=pilotage-pack" in scheduler["args"]
    assert not [word for word in scheduler["args"] if "lease" in word or "leader" in word]
    assert {"name": "advice", "mountPath": "/var/lib/pilotage"} in scheduler["volumeMounts"]


def test_each_part_is_started_with_the_port_and_the_files_of_its_pod(everything: list[Json]) -> None:
    """What is mounted is named, and the port that is probed is the one that is listened on."""
    for pod in pods(everything):
        (container,) = pod["containers"]
        (port,) = container["ports"]
        mounted = [mount["mountPath"] for mount in container["volumeMounts"]]
        words = [word.partition("=")[2] for word in container["args"]]
        assert any(word.endswith(str(port["containerPort"])) for word in words) or container["name"] == "kube-scheduler"
        files = [word for word in words if word.startswith("/")]
        assert files
        assert all(any(file.startswith(place) for place in mounted) for file in files), container["name"]


def test_the_plugin_asks_the_service_of_the_chart_or_the_one_that_is_named() -> None:
    parts = ("service.enabled=true", "pluginScheduler.enabled=true")

    def arguments(*values: str) -> Json:
        text = of_kind(rendered(*values), "ConfigMap")["pilotage-plugin-scheduler"]["data"]["kube-scheduler.yaml"]
        found: Json = yaml.safe_load(text)["profiles"][0]["pluginConfig"][0]["args"]
        return found

    ours = arguments(*parts, "pluginScheduler.pluginArgs.deadline=50ms")
    assert ours.pop("deadline") == "50ms"
    assert ours == {
        "url": "https://pilotage-service.pilotage.svc:8443",
        "caFile": "/etc/pilotage/tls/ca.crt",
        "certFile": "/etc/pilotage/tls/tls.crt",
        "keyFile": "/etc/pilotage/tls/tls.key",
    }
    assert arguments(parts[1], "pluginScheduler.pluginArgs.socket=/run/s") == {"socket": "/run/s"}
    said = helm("template", "pilotage", CHART, "--kube-version", "1.36.3", "--set", parts[1], code=1)
    assert "needs service.enabled" in said


def test_the_service_writes_bindings_only_when_it_is_asked_to() -> None:
    role = of_kind(rendered("service.enabled=true"), "ClusterRole")["pilotage-service"]
    assert {verb for rule in role["rules"] for verb in rule["verbs"]} <= READING


def test_own_pods_are_left_to_the_default_scheduler(everything: list[Json]) -> None:
    assert {pod["schedulerName"] for pod in pods(everything)} == {"default-scheduler"}
    assert {pod["priorityClassName"] for pod in pods(everything)} == {"pilotage"}


def test_every_container_has_a_memory_limit_and_may_not_write_to_its_image(everything: list[Json]) -> None:
    for container in containers(everything):
        assert container["resources"]["limits"]["memory"]
        assert container["securityContext"]["readOnlyRootFilesystem"] is True
        assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}


def test_every_part_is_probed_over_tls(everything: list[Json]) -> None:
    for pod in pods(everything):
        (container,) = pod["containers"]
        for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
            assert container[probe]["httpGet"]["scheme"] == "HTTPS"


def test_every_part_has_a_network_policy_and_more_than_one_replica_a_budget(everything: list[Json]) -> None:
    parts = set(of_kind(everything, "Deployment"))
    assert set(of_kind(everything, "NetworkPolicy")) == parts
    assert set(of_kind(everything, "PodDisruptionBudget")) == parts - {"pilotage-dashboard"}


def test_requests_of_all_that_decide_are_served_like_those_of_kube_scheduler(everything: list[Json]) -> None:
    accounts = {
        name: [one["serviceAccount"]["name"] for rule in schema["spec"]["rules"] for one in rule["subjects"]]
        for name, schema in of_kind(everything, "FlowSchema").items()
    }
    assert accounts == {name: [name] for name in ("pilotage-scheduler", "pilotage-plugin-scheduler")}
    assert of_kind(rendered("flowSchema=false"), "FlowSchema") == {}


def test_nobody_may_call_in_until_it_is_said_who() -> None:
    closed = of_kind(rendered(), "NetworkPolicy")["pilotage-scheduler"]["spec"]
    assert closed["ingress"] == []
    peer = "networkPolicy.metricsFrom[0].namespaceSelector.matchLabels.name=monitoring"
    opened = of_kind(rendered(peer), "NetworkPolicy")["pilotage-scheduler"]["spec"]
    assert opened["ingress"][0]["ports"] == [{"port": 10259}]


def peers(documents: list[Json], part: str, direction: str) -> list[Json]:
    policy = of_kind(documents, "NetworkPolicy")[f"pilotage-{part}"]["spec"]
    return [peer for rule in policy["ingress"] for peer in rule["from"]] if direction == "ingress" else policy["egress"]


def test_the_plugin_scheduler_reaches_the_service(everything: list[Json]) -> None:
    (labels,) = {
        tuple(sorted(deployment["spec"]["selector"]["matchLabels"].items()))
        for name, deployment in of_kind(everything, "Deployment").items()
        if name == "pilotage-plugin-scheduler"
    }
    assert {"podSelector": {"matchLabels": dict(labels)}} in peers(everything, "service", "ingress")
    assert [one for one in peers(everything, "plugin-scheduler", "egress") if one["ports"] == [{"port": 8443}]]
    assert peers(rendered("service.enabled=true"), "service", "ingress") == []


@pytest.mark.parametrize(
    ("url", "port"),
    [("https://scores.example:9443", 9443), ("https://scores.example/v1", 443), ("http://[fd00::1]:8080/", 8080)],
)
def test_the_plugin_scheduler_reaches_a_service_elsewhere(url: str, port: int) -> None:
    found = rendered("pluginScheduler.enabled=true", f"pluginScheduler.pluginArgs.url={url}")
    assert {"ports": [{"port": port}]} in peers(found, "plugin-scheduler", "egress")


def test_the_service_may_ask_prometheus_when_it_is_told_to() -> None:
    asked = ("service.enabled=true", "service.prometheus=http://prometheus.monitoring:9090")
    place = "networkPolicy.prometheus.to[0].namespaceSelector.matchLabels.name=monitoring"
    found = peers(rendered(*asked, place), "service", "egress")
    allowed = {"ports": [{"port": 9090}], "to": [{"namespaceSelector": {"matchLabels": {"name": "monitoring"}}}]}
    assert allowed in found
    assert len(peers(rendered(asked[0]), "service", "egress")) == len(found) - 1


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("scheduler.profils.a=fgd", "profils"),
        ("scheduler.mode=watch", "scheduler.mode|/scheduler/mode"),
        ("scheduler.profiles.default-scheduler=fgd", "default-scheduler"),
        ("service.prometheus=monitoring:9090", "prometheus"),
        ("pluginScheduler.schedulerName=default-scheduler", "schedulerName"),
        ("tls.source=none", "tls.source|/tls/source"),
        ("scheduler.replicas=0", "replicas"),
    ],
)
def test_values_that_make_no_sense_are_refused_by_name(value: str, said: str) -> None:
    assert re.search(said, helm("lint", CHART, "--kube-version", "1.36.3", "--set", value, code=1))


def test_an_older_kubernetes_is_refused() -> None:
    assert "kubeVersion" in helm("template", "pilotage", CHART, "--kube-version", "1.29.0", code=1)


def test_chart_and_package_have_one_version() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert chart["version"] == chart["appVersion"] == __version__


@pytest.mark.parametrize("file", ["deploy/Containerfile", "docs/deploy.md"])
def test_images_are_tagged_as_the_chart_asks_for_them(file: str, everything: list[Json]) -> None:
    built = re.findall(r"podman build .*-t (\S+)", (ROOT / file).read_text())
    assert set(built) == {container["image"] for container in containers(everything)}


ALONE = "scheduler.enabled=false"
KUSTOMIZED = {
    "base": (),
    "advise": ("scheduler.mode=advise",),
    "service": (ALONE, "service.enabled=true"),
    "plugin-scheduler": (ALONE, "service.enabled=true", "pluginScheduler.enabled=true"),
    "dashboard": (ALONE, "dashboard.enabled=true", "dashboard.tokenSecret=pilotage-dashboard-token"),
}


@pytest.mark.parametrize("name", KUSTOMIZED)
def test_kustomize_has_what_the_chart_says(name: str) -> None:
    directory = ROOT / "deploy" / "kustomize" / name
    stored = [one for one in yaml.safe_load_all((directory / "pilotage.yaml").read_text()) if one]
    assert stored == rendered("tls.source=secret", *KUSTOMIZED[name]), "make manifests"
    done = subprocess.run([program("kustomize"), "build", directory], capture_output=True, text=True, check=True)
    built = [one for one in yaml.safe_load_all(done.stdout) if one]
    assert len(built) == len(stored) + 1  # the namespace
    assert {one["metadata"]["labels"]["app.kubernetes.io/managed-by"] for one in built} == {"kustomize"}
    assert not of_kind(built, "Secret")  # made by hand: a key in a repository is none


def test_kustomize_has_every_part_of_the_chart(everything: list[Json]) -> None:
    parts: set[str] = set()
    for name in KUSTOMIZED:
        text = (ROOT / "deploy" / "kustomize" / name / "pilotage.yaml").read_text()
        parts |= set(of_kind([one for one in yaml.safe_load_all(text) if one], "Deployment"))
    assert parts == set(of_kind(everything, "Deployment"))
