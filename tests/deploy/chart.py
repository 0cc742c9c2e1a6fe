"""The chart, rendered by the real helm, and its accounts in a lab."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import yaml

from pilotage.kube.access import read_kubeconfig
from pilotage.kube.client import Client, Json
from pilotage.kube.errors import KubeError
from pilotage.lab.build import KUBERNETES
from pilotage.lab.certificates import write_private
from pilotage.lab.controlplane import Lab
from pilotage.lab.namespaces import ensure
from pilotage.model.clock import SystemClock

ROOT = Path(__file__).resolve().parent.parent.parent
CHART = ROOT / "deploy" / "chart"
NAMESPACE = "pilotage"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
TOKEN_SECONDS = 3600
RIGHTS = ("ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")


def program(name: str) -> str:
    """One of the programs that `make tools` builds, beside this interpreter or on PATH."""
    found = shutil.which(name, path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}")
    assert found is not None, f"{name} is not there: make tools"
    return found


def helm(*arguments: object, kubeconfig: Path | None = None, code: int = 0) -> str:
    environment = {**os.environ, "KUBECONFIG": str(kubeconfig or os.devnull)}
    done = subprocess.run(
        [program("helm"), *map(str, arguments)], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == code, f"helm {arguments}: {done.stdout[-2000:]}{done.stderr[-2000:]}"
    return done.stdout + done.stderr


def rendered(*values: str, release: str = "pilotage") -> list[Json]:
    sets = [word for value in values for word in ("--set", value)]
    text = helm("template", release, CHART, "--namespace", NAMESPACE, "--kube-version", KUBERNETES, *sets)
    return [document for document in yaml.safe_load_all(text) if document]


def of_kind(documents: list[Json], kind: str) -> dict[str, Json]:
    return {found["metadata"]["name"]: found for found in documents if found["kind"] == kind}


def path_of(document: Json) -> str:
    """The collection that a document of the chart's rights belongs to."""
    plural = f"{document['kind'].lower()}s"
    namespace = document["metadata"].get("namespace")
    place = f"/namespaces/{namespace}" if namespace else ""
    return f"{RBAC}{place}/{plural}" if "Role" in document["kind"] else f"/api/v1{place}/{plural}"


async def put_rights(client: Client, documents: list[Json]) -> None:
    """Accounts, roles and bindings, whatever was there before."""
    await ensure(client, "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
    for document in documents:
        if document["kind"] not in RIGHTS:
            continue
        path = path_of(document)
        try:
            await client.create(path, document)
        except KubeError as error:
            if error.status != 409:
                raise
            await client.patch(f"{path}/{document['metadata']['name']}", document)


async def write_account(client: Client, lab: Lab, account: str, namespace: str = NAMESPACE) -> Path:
    """A kubeconfig with a token of a service account, as a pod of it would have."""
    wanted: Json = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest"}
    wanted |= {"spec": {"expirationSeconds": TOKEN_SECONDS}}
    answer = await client.create(f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token", wanted)
    admin = json.loads(lab.kubeconfig.read_bytes())
    admin["users"][0]["user"] = {"token": answer["status"]["token"]}
    return write_private(lab.kubeconfig_of(f"{namespace}-{account}"), json.dumps(admin).encode())


_accounts: dict[tuple[Path, str], Path] = {}


async def account_of(lab: Lab, account: str, documents: list[Json]) -> Path:
    """A kubeconfig of what an account of these documents may do, and nothing else; made once for each lab."""
    if (lab.directory, account) not in _accounts:
        async with Client(read_kubeconfig(lab.kubeconfig, None, SystemClock())) as client:
            await put_rights(client, documents)
            _accounts[lab.directory, account] = await write_account(client, lab, account)
    return _accounts[lab.directory, account]


async def scheduler_account(lab: Lab) -> Path:
    return await account_of(lab, "pilotage-scheduler", rendered())
