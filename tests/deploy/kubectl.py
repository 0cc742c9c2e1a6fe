"""What kubectl does with the lines of the documentation, by the API: there is no kubectl in a lab."""

from __future__ import annotations

import re
from collections.abc import Callable, Coroutine

import yaml

from deploy.chart import ROOT
from lab.labs import eventually
from pilotage.kube.client import STRATEGIC_PATCH, Client, Json
from pilotage.kube.errors import KubeError

APPS = "/apis/apps/v1/namespaces"
ADMISSION = "/apis/admissionregistration.k8s.io/v1"


class Words:
    """The words of a command, options taken out."""

    def __init__(self, words: list[str]) -> None:
        self.plain: list[str] = []
        self.options: dict[str, str] = {}
        self.after: list[str] = []  # behind --
        if "--" in words:
            self.after, words = words[words.index("--") + 1 :], words[: words.index("--")]
        rest = iter(words)
        for word in rest:
            if word.startswith("-"):
                self.options[word] = next(rest)
            else:
                self.plain.append(word)

    @property
    def namespace(self) -> str:
        return self.options["--namespace"]


async def kubectl(client: Client, line: list[str]) -> None:
    """Does it, or looks that what it names is there. A line that it does not know is a failure."""
    words = Words(line)
    verbs: dict[str, Callable[[Client, Words], Coroutine[object, object, None]]] = {
        "apply": _apply,
        "auth": _may_not,
        "create": _create_namespace,
        "exec": _read_file,
        "get": _get,
        "label": _label,
        "patch": _patch,
        "port-forward": _port,
        "rollout": _rolled_out,
        "taint": _taint,
    }
    await verbs[words.plain[0]](client, words)


async def _apply(client: Client, words: Words) -> None:
    for document in yaml.safe_load_all((ROOT / words.options["--filename"]).read_text()):
        plural = re.sub("y$", "ie", document["kind"].lower()) + "s"
        await client.create(f"{ADMISSION}/{plural}", document)


async def _may_not(client: Client, words: Words) -> None:
    _, _, verb, what = words.plain
    resource, _, part = what.partition("/")
    asked = {"verb": verb, "resource": resource, "subresource": part, "namespace": "default"}
    review = {"spec": {"user": words.options["--as"], "resourceAttributes": asked}}
    found = await client.create("/apis/authorization.k8s.io/v1/subjectaccessreviews", review)
    assert found["status"]["allowed"] is False


async def _create_namespace(client: Client, words: Words) -> None:
    _, kind, name = words.plain
    assert kind == "namespace"
    await client.create("/api/v1/namespaces", {"metadata": {"name": name}})


async def _deployment(client: Client, words: Words) -> Json:
    (name,) = [word.removeprefix("deploy/") for word in words.plain if word.startswith("deploy/")]
    return await client.get(f"{APPS}/{words.namespace}/deployments/{name}")


async def _read_file(client: Client, words: Words) -> None:
    containers = (await _deployment(client, words))["spec"]["template"]["spec"]["containers"]
    (container,) = [one for one in containers if one["name"] == words.options["-c"]]
    program, path = words.after
    assert program == "cat"
    assert any(word.endswith(f"={path}") for word in container["args"])
    assert any(path.startswith(f"{mount['mountPath']}/") for mount in container["volumeMounts"])


async def _port(client: Client, words: Words) -> None:
    (container,) = (await _deployment(client, words))["spec"]["template"]["spec"]["containers"]
    assert [port["containerPort"] for port in container["ports"]] == [int(words.plain[-1])]


async def _get(client: Client, words: Words) -> None:
    _, kind, name = words.plain
    found = await client.get(f"/api/v1/namespaces/{words.namespace}/{kind}s/{name}")
    path = words.options["--output"].removeprefix("jsonpath=").strip("{}")
    for key in re.findall(r"\.((?:\\.|[^.\\])+)", path):
        found = found[key.replace("\\", "")]
    assert found


async def _label(client: Client, words: Words) -> None:
    _, kind, *names, label = words.plain
    key, _, value = label.partition("=")
    for name in names:
        await client.patch(f"/api/v1/{kind.rstrip('s')}s/{name}", {"metadata": {"labels": {key: value}}})


async def _taint(client: Client, words: Words) -> None:
    key, value, effect = re.split("[=:]", words.plain[-1])
    found, _ = await client.list_all("/api/v1/nodes", labelSelector=words.options["--selector"])
    assert found
    for node in found:
        taint = {"key": key, "value": value, "effect": effect}
        await client.patch(f"/api/v1/nodes/{node['metadata']['name']}", {"spec": {"taints": [taint]}})


async def _patch(client: Client, words: Words) -> None:
    _, kind, name = words.plain
    assert kind == "deployment"
    patch = yaml.safe_load(words.options["--patch"])
    await client.patch(f"{APPS}/{words.namespace}/deployments/{name}", patch, STRATEGIC_PATCH)


async def _rolled_out(client: Client, words: Words) -> None:
    async def ready() -> bool | None:
        try:
            found = await _deployment(client, words)
        except KubeError:
            return None
        return found["status"].get("readyReplicas") == found["spec"]["replicas"] or None

    await eventually(ready, f"all of {words.plain[-1]} are ready")
