"""The stages of docs/tutorial-cluster.md, line by line, in a lab."""

from __future__ import annotations

import re
import shlex
from functools import partial
from pathlib import Path

import yaml

from deploy.chart import CHART, ROOT, helm
from deploy.kubectl import APPS, kubectl
from deploy.releases import a_release, started
from deploy.test_install import bound
from lab.labs import a_lab, eventually, pod
from pilotage.kube.client import Client, Json
from pilotage.lab.controlplane import Lab, in_lab
from pilotage.lab.nodes import add
from pilotage.model.cluster import Node
from serving.schedulers import a_configured_kube_scheduler

TEXT = (ROOT / "docs" / "tutorial-cluster.md").read_text()
WAITS = ("upgrade", "rollback")
TLS_FILES = ("caFile", "certFile", "keyFile")


def lines(stage: str) -> list[list[str]]:
    """Words of the lines for helm and kubectl in one stage."""
    section = TEXT.partition(f"**{stage}**")[2]
    section = re.split(r"^\*\*", section, maxsplit=1, flags=re.MULTILINE)[0]
    blocks = re.findall(r"^```bash\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
    found = [line for block in blocks for line in block.replace("\\\n", " ").splitlines()]
    return [shlex.split(line) for line in found if line.startswith(("helm ", "kubectl "))]


async def prepare(client: Client) -> None:
    """The nodes and the shop that the lines speak of."""
    await add(client, [Node(name, 8000, 32 * 2**30) for name in ("node-1", "node-7", "node-8")])
    await client.create("/api/v1/namespaces", {"metadata": {"name": "shop"}})
    template = {"metadata": {"labels": {"app": "web"}}, "spec": pod("web", cpu="100m")["spec"]}
    spec = {"replicas": 1, "selector": {"matchLabels": {"app": "web"}}, "template": template}
    await client.create(f"{APPS}/shop/deployments", {"metadata": {"name": "web"}, "spec": spec})


def carry_out(lab: Lab, stage: str) -> None:
    chosen = lines(stage)
    assert chosen, stage
    for program, *words in chosen:
        if program == "kubectl":
            in_lab(lab, partial(kubectl, line=words))
        else:
            waits = ["--wait", "--timeout", "180s"] if words[0] in WAITS else []
            here = [str(CHART) if word == "deploy/chart" else word for word in words]
            helm(*here, *waits, kubeconfig=lab.kubeconfig)


def of(lab: Lab, path: str) -> Json:
    return in_lab(lab, lambda client: client.get(path))


def scheduler_of_web(lab: Lab) -> str:
    name: str = of(lab, f"{APPS}/shop/deployments/web")["spec"]["template"]["spec"]["schedulerName"]
    return name


def test_the_stages_can_be_typed_as_they_stand(tmp_path: Path) -> None:
    """In a lab of its own, as the release has the name of the tutorial."""
    with a_lab(tmp_path, name="tutorial") as cluster:
        in_lab(cluster, prepare)
        go_through(cluster)


def go_through(cluster: Lab) -> None:
    carry_out(cluster, "3. Advise.")
    scheduler = f"{APPS}/pilotage/deployments/pilotage-scheduler"
    assert any("--advise" in word for word in arguments(of(cluster, scheduler)))

    carry_out(cluster, "4. Beside kube-scheduler.")
    assert scheduler_of_web(cluster) == "pilotage-plugin"
    policy = of(cluster, "/apis/networking.k8s.io/v1/namespaces/pilotage/networkpolicies/pilotage-service")
    assert {"ipBlock": {"cidr": "10.0.0.0/24"}} in policy["spec"]["ingress"][0]["from"]

    carry_out(cluster, "5. A scheduler of its own")
    assert "--node-selector=pool=pilotage" in arguments(of(cluster, scheduler))
    assert scheduler_of_web(cluster) == "pilotage"
    taints = [of(cluster, f"/api/v1/nodes/node-{n}")["spec"].get("taints") for n in (1, 7, 8)]
    assert taints == [None, *[[{"key": "pilotage", "value": "only", "effect": "NoSchedule"}]] * 2]
    in_lab(cluster, opted_in)

    carry_out(cluster, "And back.")
    assert helm("list", "--namespace", "pilotage", "--short", kubeconfig=cluster.kubeconfig).strip() == ""


def arguments(deployment: Json) -> list[str]:
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    found: list[str] = container["args"]
    return found


async def opted_in(client: Client) -> None:
    """A pod of the namespace is given to us; the API server may need a moment to know the policy."""

    async def ask() -> bool | None:
        made = await client.create("/api/v1/namespaces/shop/pods", pod("one"))
        await client.delete("/api/v1/namespaces/shop/pods/one")
        return made["spec"]["schedulerName"] == "pilotage" or None

    await eventually(ask, "a new pod of the namespace is ours")


def test_kube_scheduler_takes_the_configuration_of_the_tutorial_and_asks_over_tls(lab: Lab, tmp_path: Path) -> None:
    (block,) = re.findall(r"^```yaml\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
    written: Json = yaml.safe_load(block)
    written["profiles"] = [one for one in written["profiles"] if one["schedulerName"] != "default-scheduler"]
    (extender,) = written["extenders"]
    extender["httpTimeout"] = "30s"  # this machine has other things to do

    async def test(client: Client) -> None:
        await part.probed()
        with a_configured_kube_scheduler(lab, "tutorial", yaml.safe_dump(written)):
            await bound(client, "pilotage-score")
        _, text = await part.asked("/metrics", certified=True)
        assert 'pilotage_serve_requests_total{reason="ok",verb="prioritize"} 1.0' in text

    values = ("scheduler.enabled=false", "service.enabled=true", "service.policies[0]=best-fit")
    with a_release(lab, *values) as release, started(release, "service", tmp_path / "pod") as part:
        extender["urlPrefix"] = f"https://127.0.0.1:{part.port}/extender"
        files = {key: part.directory / "tls" / Path(extender["tlsConfig"][key]).name for key in TLS_FILES}
        extender["tlsConfig"] |= {key: str(path) for key, path in files.items()} | {"serverName": part.address}
        in_lab(lab, test)
