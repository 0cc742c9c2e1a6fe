"""The programs of a control plane and how each is started. All of them listen on loopback only, all by TLS."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import yaml

from pilotage.lab.ports import LOOPBACK

ETCD, ETCD_PEER, API, CONTROLLERS, SCHEDULER, KWOK = PORTS = (
    "etcd",
    "etcd-peer",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kwok",
)
# kube-apiserver goes before etcd when a lab is stopped: without its store it hangs in its shutdown for a minute.
START_ORDER = (ETCD, API, CONTROLLERS, SCHEDULER, KWOK)

KUBELET_LABEL, KUBELET_ALIVE = "lab.pilotage/kubelet", "simulated"  # nodes that kwok plays the kubelet of
QPS, BURST = 2000, 4000  # of clients: the usual 50 would be the ceiling of every figure

CONTROLLER_NAMES = (
    "cronjob-controller",
    "daemonset-controller",
    "deployment-controller",
    "disruption-controller",
    "garbage-collector-controller",
    "job-controller",
    "namespace-controller",
    "node-lifecycle-controller",
    "pod-garbage-collector-controller",
    "replicaset-controller",
    "serviceaccount-controller",
    "statefulset-controller",
    "taint-eviction-controller",
)

GROUP_CONTROLLERS = ("podgroup-protection-controller",)  # lets groups go when their pods have gone
GANG_GATES = "--feature-gates=GenericWorkload=true,GangScheduling=true"

AUDIT_POLICY = """\
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
  - level: Request
    verbs: [create]
    resources: [{group: "", resources: ["pods/binding"]}]
  - level: None
"""

SCHEDULER_CONFIGURATION = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection: {{kubeconfig: kube-scheduler.kubeconfig, qps: {qps}, burst: {burst}, \
contentType: application/vnd.kubernetes.protobuf}}
leaderElection: {{leaderElect: false}}
{more}"""


@dataclass(frozen=True, slots=True)
class LabSettings:
    """How a lab is started."""

    lease_seconds: int = 200  # of a node; renewed every quarter of it, and a silent node is found dead after twice that
    kube_scheduler: bool = True  # False: only other schedulers place pods
    audit: bool = False  # every binding is written down by the API server
    native_gangs: bool = False  # serve the PodGroup API (alpha)
    scheduler_extra: str = ""  # lines added to kube-scheduler's configuration
    scheduler_file: str = ""  # a whole configuration of kube-scheduler instead, but for its connection
    plugin: bool = False  # kube-scheduler is the one with our score plugin

    @property
    def components(self) -> tuple[str, ...]:
        return tuple(name for name in START_ORDER if name != SCHEDULER or self.kube_scheduler)


def write_configuration(directory: Path, settings: LabSettings) -> None:
    scheduler = SCHEDULER_CONFIGURATION.format(qps=QPS, burst=BURST, more=settings.scheduler_extra)
    if settings.scheduler_file:
        scheduler = json.dumps(yaml.safe_load(settings.scheduler_file) | yaml.safe_load(scheduler))  # JSON is YAML
    (directory / "kube-scheduler.yaml").write_text(scheduler)
    (directory / "audit-policy.yaml").write_text(AUDIT_POLICY)
    (directory / "stages.yaml").write_bytes(Path(__file__).with_name("stages.yaml").read_bytes())


def command(name: str, programs: Path, ports: Mapping[str, int], settings: LabSettings) -> list[str | Path]:
    """The command line of one program; paths in it are relative to the lab's directory."""
    arguments = {
        ETCD: _etcd,
        API: _api_server,
        CONTROLLERS: _controllers,
        SCHEDULER: _scheduler,
        KWOK: _kwok,
    }[name](ports, settings)
    return [programs / name, *arguments]


def _etcd(ports: Mapping[str, int], settings: LabSettings) -> list[str]:
    client, peer = (f"https://{LOOPBACK}:{ports[name]}" for name in (ETCD, ETCD_PEER))
    own = [
        word
        for prefix in ("", "peer-")
        for word in (
            f"--{prefix}cert-file=etcd.crt",
            f"--{prefix}key-file=etcd.key",
            f"--{prefix}trusted-ca-file=etcd-ca.crt",
            f"--{prefix}client-cert-auth",
        )
    ]
    return [
        "--name=lab",
        "--data-dir=etcd",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=lab={peer}",
        "--unsafe-no-fsync",  # a lab's data need not survive the machine
        "--quota-backend-bytes=8589934592",
        "--auto-compaction-mode=periodic",
        "--auto-compaction-retention=5m",
        "--log-level=warn",
        *own,
    ]


def _api_server(ports: Mapping[str, int], settings: LabSettings) -> list[str]:
    arguments = [
        f"--etcd-servers=https://{LOOPBACK}:{ports[ETCD]}",
        "--etcd-cafile=etcd-ca.crt",
        "--etcd-certfile=etcd.crt",
        "--etcd-keyfile=etcd.key",
        f"--bind-address={LOOPBACK}",
        f"--advertise-address={LOOPBACK}",
        f"--secure-port={ports[API]}",
        "--tls-cert-file=server.crt",
        "--tls-private-key-file=server.key",
        "--client-ca-file=ca.crt",
        "--anonymous-auth=false",
        "--service-account-issuer=https://kubernetes.default.svc",
        "--service-account-key-file=service-accounts.pub",
        "--service-account-signing-key-file=service-accounts.key",
        "--authorization-mode=Node,RBAC",
        "--service-cluster-ip-range=10.96.0.0/16",
        "--endpoint-reconciler-type=none",  # loopback is no address for the endpoints of a service
        "--event-ttl=1h",
        "--profiling=false",
    ]
    if settings.audit:
        arguments += [
            "--audit-policy-file=audit-policy.yaml",
            "--audit-log-path=audit.log",
            "--audit-log-mode=blocking",
        ]
    if settings.native_gangs:
        arguments += [GANG_GATES]
        arguments += ["--runtime-config=scheduling.k8s.io/v1alpha2=true"]
    return arguments


def _controllers(ports: Mapping[str, int], settings: LabSettings) -> list[str]:
    names = CONTROLLER_NAMES + (GROUP_CONTROLLERS if settings.native_gangs else ())
    return [
        *([GANG_GATES] if settings.native_gangs else []),
        "--kubeconfig=kube-controller-manager.kubeconfig",
        f"--controllers={','.join(names)}",
        f"--bind-address={LOOPBACK}",
        f"--secure-port={ports[CONTROLLERS]}",
        "--tls-cert-file=server.crt",
        "--tls-private-key-file=server.key",
        "--authentication-skip-lookup",
        "--leader-elect=false",
        f"--kube-api-qps={QPS}",
        f"--kube-api-burst={BURST}",
        "--concurrent-deployment-syncs=20",
        "--concurrent-replicaset-syncs=20",
        "--concurrent-job-syncs=20",
        "--node-monitor-period=2s",
        f"--node-monitor-grace-period={2 * settings.lease_seconds}s",
        "--node-startup-grace-period=60s",
        "--profiling=false",
    ]


def _scheduler(ports: Mapping[str, int], settings: LabSettings) -> list[str]:
    arguments = [
        "--config=kube-scheduler.yaml",
        f"--bind-address={LOOPBACK}",
        f"--secure-port={ports[SCHEDULER]}",
        "--tls-cert-file=server.crt",
        "--tls-private-key-file=server.key",
        "--client-ca-file=ca.crt",  # so that the administrator may read its metrics
        "--authentication-skip-lookup",
    ]
    return arguments + ([GANG_GATES] if settings.native_gangs else [])


def _kwok(ports: Mapping[str, int], settings: LabSettings) -> list[str]:
    return [
        "--kubeconfig=kwok.kubeconfig",
        "--config=stages.yaml",
        "--manage-all-nodes=false",
        f"--manage-nodes-with-label-selector={KUBELET_LABEL}={KUBELET_ALIVE}",
        f"--node-lease-duration-seconds={settings.lease_seconds}",
        f"--server-address={LOOPBACK}:{ports[KWOK]}",
    ]
