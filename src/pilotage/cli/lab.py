"""`pilotage lab`: a real Kubernetes control plane on this machine, without containers."""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, TypeVar

import typer

from pilotage.cli.options import (
    JsonOption,
    NodesOption,
    PodsOption,
    TraceOption,
    console,
    print_json,
    progress_bar,
    results,
)
from pilotage.model.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from pilotage.kube.client import Client
    from pilotage.model.cluster import Node

T = TypeVar("T")
CHURN = 0.1  # of the pods, each time

app = typer.Typer(help="A real Kubernetes control plane on this machine, without containers.", no_args_is_help=True)
nodes_app = typer.Typer(help="Fake nodes of a lab.", no_args_is_help=True)
app.add_typer(nodes_app, name="nodes")

NameOption = Annotated[str, typer.Option("--name", metavar="NAME", help="Which lab; several can be up.")]
NodeNames = Annotated[list[str], typer.Argument(metavar="NODE...", help="Names of nodes.")]


@app.command(epilog="Example: pilotage lab build")
def build(
    *,
    plugin: Annotated[
        bool, typer.Option("--plugin", help="Also a kube-scheduler with the Pilotage score plugin.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Build the programs of the control plane, once: about 8 minutes on two cores."""
    from pilotage.lab.build import build, programs_directory
    from pilotage.lab.plugin_build import build_plugin, plugin_directory

    screen = console()
    shown = ""

    with screen.status("building") as status:

        def progress(name: str, packages: int) -> None:
            nonlocal shown
            status.update(f"building {name}: {packages} packages compiled")
            if name != shown and not screen.is_terminal:
                screen.print(f"building {name}")
            shown = name

        found = [(programs_directory(), build(progress))]
        if plugin:
            found.append((plugin_directory(), build_plugin(progress)))
    if as_json:
        more = {"plugin_directory": str(found[1][0])} if plugin else {}
        print_json({"directory": str(found[0][0]), "built": [name for _, built in found for name in built], **more})
        return
    for directory, built in found:
        results().print(f"{'built ' + ', '.join(built) if built else 'nothing to build'}: {directory}", soft_wrap=True)


@app.command(epilog="Example: pilotage lab up --nodes 10")
def up(
    *,
    name: NameOption = "default",
    nodes: Annotated[int, typer.Option("--nodes", min=0, max=20_000, help="Nodes of 64 CPUs to begin with.")] = 0,
    port: Annotated[
        int | None, typer.Option("--port", min=1, max=65535, help="Of the API server.  [default: a free one]")
    ] = None,
    kube_scheduler: Annotated[
        bool, typer.Option("--kube-scheduler/--no-kube-scheduler", help="Whether kube-scheduler runs too.")
    ] = True,
    lease: Annotated[
        int, typer.Option("--lease", min=20, max=86_400, help="Seconds of a node's lease: long ones for many nodes.")
    ] = 200,
    audit: Annotated[bool, typer.Option("--audit", help="The API server writes down every binding.")] = False,
    native_gangs: Annotated[bool, typer.Option("--native-gangs", help="Serve the PodGroup API (alpha).")] = False,
    plugin: Annotated[
        bool, typer.Option("--plugin", help="kube-scheduler is the one with the Pilotage score plugin.")
    ] = False,
    scheduler_config: Annotated[
        Path | None, typer.Option("--scheduler-config", metavar="FILE", help="A KubeSchedulerConfiguration.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Start a lab: etcd, kube-apiserver, kube-controller-manager, kube-scheduler, kwok. All on loopback."""
    from pilotage.lab.components import LabSettings
    from pilotage.lab.controlplane import up
    from pilotage.lab.scheduler_files import read_scheduler_file

    settings = LabSettings(
        lease_seconds=lease,
        kube_scheduler=kube_scheduler,
        audit=audit,
        native_gangs=native_gangs,
        plugin=plugin,
        scheduler_file=read_scheduler_file(scheduler_config) if scheduler_config else "",
    )
    screen = console()
    with screen.status("starting") as status:
        lab = up(name, settings, port=port, progress=status.update)
    if nodes:
        _add(name, _plain_nodes(nodes))
    if as_json:
        print_json({"name": name, "kubeconfig": str(lab.kubeconfig), "ports": lab.ports})
    else:
        results().print(f"lab {name} is up; for kubectl:\nexport KUBECONFIG={lab.kubeconfig}", soft_wrap=True)


@app.command(epilog="Example: pilotage lab down")
def down(
    *,
    name: NameOption = "default",
    everything: Annotated[bool, typer.Option("--all", help="Every lab of this user.")] = False,
) -> None:
    """Stop a lab and remove all that it was."""
    from pilotage.lab.controlplane import down, lab_names

    names = lab_names() if everything else [name]
    for one in names:
        with console().status(f"stopping {one}"):
            down(one)
        results().print(f"lab {one} is gone")


@app.command(epilog="Example: pilotage lab status")
def status(*, name: NameOption = "default", as_json: JsonOption = False) -> None:
    """What runs. Exit code 1 when a program has ended, with the last lines of its log."""
    from rich.table import Table

    from pilotage.lab.controlplane import find_lab

    lab = find_lab(name)
    states = lab.states()
    if as_json:
        rows = [
            {"program": part, "state": state, "pid": lab.processes[part].pid if part in lab.processes else None}
            for part, state in states.items()
        ]
        print_json({"name": name, "kubeconfig": str(lab.kubeconfig), "ports": lab.ports, "programs": rows})
    else:
        table = Table("program", "state", "process", "port", title=f"lab {name}")
        for part, state in states.items():
            pid = str(lab.processes[part].pid) if part in lab.processes else "-"
            table.add_row(part, state, pid, str(lab.ports[part]))
        results().print(table)
    ended = [part for part, state in states.items() if state == "ended"]
    for part in ended:
        console().print(lab.ended(part), soft_wrap=True)
    if ended:
        raise typer.Exit(1)


@app.command(epilog="Example: kubectl --kubeconfig $(pilotage lab kubeconfig) get nodes")
def kubeconfig(*, name: NameOption = "default") -> None:
    """Print where the kubeconfig of a lab's administrator is."""
    from pilotage.lab.controlplane import find_lab

    typer.echo(find_lab(name).kubeconfig)


@nodes_app.command("add", epilog="Example: pilotage lab nodes add 4 --gpus 8 --model V100M32 --taint gpu:NoSchedule")
def add_nodes(
    count: Annotated[int | None, typer.Argument(min=1, max=20_000, help="How many equal nodes.")] = None,
    *,
    name: NameOption = "default",
    cpu: Annotated[str, typer.Option("--cpu", help="Of each.")] = "64",
    memory: Annotated[str, typer.Option("--memory", help="Of each.")] = "256Gi",
    pods: Annotated[int, typer.Option("--pods-per-node", min=1, max=100_000, help="Most pods of each.")] = 110,
    gpus: Annotated[int, typer.Option("--gpus", min=0, max=62, help="Devices of each.")] = 0,
    model: Annotated[str, typer.Option("--model", help="Of its GPUs.")] = "",
    taint: Annotated[
        list[str] | None, typer.Option("--taint", metavar="K=V:EFFECT", help="Repeatable, as for kubectl.")
    ] = None,
    label: Annotated[list[str] | None, typer.Option("--label", metavar="K=V", help="Repeatable.")] = None,
    prefix: Annotated[str | None, typer.Option("--prefix", help="Names are PREFIX-0 and so on.")] = None,
    nodes: NodesOption = None,
    trace: TraceOption = None,
    servers_per_rack: Annotated[
        int | None, typer.Option("--servers-per-rack", min=1, metavar="N", help="Label nodes with zones and racks.")
    ] = None,
) -> None:
    """Add nodes: equal ones by number, or those of a node list or a shipped trace."""
    from pilotage.workloads.topology import labelled

    if (count is None) == (nodes is None and trace is None):
        raise InputError("what is to be added?", expected="a number of nodes, --nodes FILE or --trace NAME")
    if count is None:
        wanted = _listed_nodes(nodes, trace)
    else:
        template = _template(cpu, memory, pods, gpus, model, taint or [], label or [])
        wanted = _plain_nodes(count, template, prefix or ("gpu-node" if gpus else "node"), name)
    _add(name, labelled(wanted, servers_per_rack) if servers_per_rack is not None else wanted)


@nodes_app.command("remove", epilog="Example: pilotage lab nodes remove node-0 node-1")
def remove_nodes(names: NodeNames, *, name: NameOption = "default") -> None:
    """Delete nodes; what runs there is lost, as on a real cluster."""
    from pilotage.lab.nodes import remove

    _with_client(name, lambda client: remove(client, names))
    results().print(f"removed {_nodes(len(names))}")


@nodes_app.command("fail", epilog="Example: pilotage lab nodes fail node-3")
def fail_nodes(
    names: NodeNames,
    *,
    name: NameOption = "default",
    recovered: Annotated[bool, typer.Option("--recover", help="The other way: they come back.")] = False,
) -> None:
    """Let the kubelets of nodes fall silent; the control plane notices within seconds."""
    from pilotage.lab.nodes import fail, recover
    from pilotage.model.clock import SystemClock

    if recovered:
        _with_client(name, lambda client: recover(client, names))
    else:
        _with_client(name, lambda client: fail(client, names, SystemClock()))
    results().print(f"{_nodes(len(names))} {'recovered' if recovered else 'failed'}")


def _template(cpu: str, memory: str, pods: int, gpus: int, model: str, taints: list[str], labels: list[str]) -> Node:
    from pilotage.lab.nodes import parse_taint
    from pilotage.model.cluster import Node
    from pilotage.model.resources import cpu_milli, whole

    if model and not gpus:
        raise InputError("a model without devices", field="--model", expected="--gpus 1 or more beside it")
    pairs = [text.partition("=") for text in labels]
    for key, equals, _ in pairs:
        if not key or not equals:
            raise InputError(f"{key!r} is no label", field="--label", expected="key=value")
    return Node(
        name="node",
        cpu_milli=cpu_milli(cpu),
        memory_bytes=whole(memory),
        pods=pods,
        gpu_count=gpus,
        gpu_model=model,
        labels=tuple(sorted((key, value) for key, _, value in pairs)),
        taints=tuple(parse_taint(text) for text in taints),
    )


def _plain_nodes(count: int, template: Node | None = None, prefix: str = "node", lab: str | None = None) -> list[Node]:
    from pilotage.lab.nodes import names, numbered

    taken: list[str] = _with_client(lab, names) if lab is not None else []
    return numbered(template or _template("64", "256Gi", 110, 0, "", [], []), count, prefix, taken)


def _listed_nodes(file: Path | None, trace: str | None) -> list[Node]:
    from pilotage.workloads.trace import load_nodes

    if file is not None and trace is not None:
        raise InputError("nodes were given twice", expected="--nodes FILE or --trace NAME")
    return list(load_nodes(file, trace))


def _nodes_there(lab: str) -> list[Node]:
    from pilotage.lab.nodes import described

    return _with_client(lab, described)


def _add(lab: str, nodes: list[Node] | tuple[Node, ...]) -> None:
    from pilotage.lab.nodes import add

    screen = console()
    with progress_bar(screen, "nodes") as progress:
        _with_client(lab, lambda client: add(client, nodes, progress))
    screen.print(f"added {_nodes(len(nodes))}")


def _nodes(count: int) -> str:
    return f"{count} node{'' if count == 1 else 's'}"


def _with_client(lab: str, do: Callable[[Client], Awaitable[T]]) -> T:
    """Carries out requests as the administrator of a lab."""
    from pilotage.lab.controlplane import find_lab, in_lab

    return in_lab(find_lab(lab), do)


@app.command(epilog="Example: pilotage lab load --trace openb-like --count 500 --scheduler-name pilotage")
def load(
    *,
    name: NameOption = "default",
    pods: PodsOption = None,
    trace: TraceOption = None,
    count: Annotated[int | None, typer.Option("--count", min=1, max=1_000_000, help="Only the first pods.")] = None,
    scheduler_name: Annotated[
        str, typer.Option("--scheduler-name", help="Who is to place them.")
    ] = "default-scheduler",
    form: Annotated[
        Literal["pods", "jobs", "deployments", "mixed"], typer.Option("--as", help="What is made of the pods.")
    ] = "pods",
    speed: Annotated[
        float, typer.Option("--speed", min=0.0, max=1e9, help="Times as fast as the trace's times; 0: at once.")
    ] = 0.0,
    cpu_load: Annotated[float, typer.Option("--cpu-load", min=0, max=10, help="Until this share is asked for.")] = 0.0,
    mem_load: Annotated[float, typer.Option("--mem-load", min=0, max=10, help="The same for memory.")] = 0.0,
    pod_load: Annotated[float, typer.Option("--pod-load", min=0, max=10, help="The same for pods.")] = 0.0,
    resets: Annotated[
        int, typer.Option("--resets", min=0, max=10_000, help="Take all away and begin again, so many times.")
    ] = 0,
    churns: Annotated[
        int, typer.Option("--churn", min=0, max=10_000, help="So many times, replace a tenth of the pods by others.")
    ] = 0,
    namespace: Annotated[str, typer.Option("--namespace", help="Where; made if missing.")] = "load",
    in_order: Annotated[bool, typer.Option("--in-order", help="One at a time: creation in the trace's order.")] = False,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="What was made, as a pod list (.csv or .parquet).")
    ] = None,
    cleaned: Annotated[bool, typer.Option("--clean", help="Take away what an earlier load made, and no more.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Make pods in a lab: those of a trace, of a generator, or of an earlier load's file, up to a load if wanted."""
    from pilotage.lab.churning import churn
    from pilotage.lab.load import Limits, LoadSettings, clean, create, until_settled, up_to
    from pilotage.model.clock import SystemClock
    from pilotage.workloads import openb
    from pilotage.workloads.trace import load_pods

    clock = SystemClock()
    settings = LoadSettings(namespace, scheduler_name, form, speed, in_order)
    if cleaned:
        removed = _with_client(name, lambda client: clean(client, settings, clock))
        if as_json:
            print_json({"removed": removed})
        else:
            results().print(f"removed {removed} pods")
        return
    if pods is None and trace is None:
        raise InputError("no trace was given", expected="--pods FILE, --trace NAME, or --clean")
    workload = load_pods(pods, trace)
    workload = workload.take(range(min(count, len(workload)))) if count is not None else workload
    limits = Limits(cpu_load, mem_load, pod_load)
    workload = up_to(workload, _nodes_there(name), limits) if limits != Limits() else workload
    if speed > 0 and not workload.timed:
        raise InputError("the pods have no times", field="--speed", expected="a timed trace, without load limits")
    screen = console()
    made = 0
    for round_ in range(resets + 1):
        if round_:
            _with_client(name, lambda client: until_settled(client, settings, len(workload), clock))
            _with_client(name, lambda client: clean(client, settings, clock))
        with progress_bar(screen, "objects") as progress:
            made = _with_client(name, lambda client: create(client, workload, settings, clock, progress))
    replaced = 0
    for number in range(churns):
        _with_client(name, lambda client: until_settled(client, settings, len(workload), clock))
        chance = random.Random(number)  # noqa: S311
        replaced += _with_client(name, lambda client: churn(client, settings, CHURN, chance))  # noqa: B023
    if out is not None:
        openb.write_pods(out, workload, lossy=True)
    if as_json:
        print_json({"objects": made, "pods": len(workload), "rounds": resets + 1, "replaced": replaced})
    else:
        results().print(f"made {made} objects, {len(workload)} pods" + (f", replaced {replaced}" if churns else ""))
