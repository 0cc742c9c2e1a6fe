"""`pilotage doctor`: what is installed, what is missing, what to type."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from importlib import metadata
from pathlib import Path
from threading import Thread

import pytest

from contract.commands import pilotage
from pilotage import __version__
from pilotage.cli.doctor_machine import PROGRAMS, machine_findings
from pilotage.kernels import compiling
from pilotage.kernels.compiling import cache_directory


def test_json_names_every_part_with_its_state() -> None:
    done = pilotage("doctor", "--compile-environments", "--json")
    assert done.code == 0, done.out + done.err
    found = {row["part"]: row for row in json.loads(done.out)}
    assert found["pilotage"]["detail"] == __version__
    assert {"python", "numba", "numpy", "arro3-io", "highspy", "typer", "cores", "kernels", "kernel cache"} <= set(
        found
    )
    around = {"ray", "cluster", "control groups", "zookeeper", "score plugin", *PROGRAMS}  # of this machine
    assert around <= set(found)
    assert {row["state"] for part, row in found.items() if part not in around} == {"ok"}
    assert str(cache_directory()) in found["kernels"]["detail"]
    assert "torch " in found["train"]["detail"]
    assert "onnxruntime " in found["graph"]["detail"]


def test_what_is_not_compiled_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(compiling, "cache_directory", lambda: tmp_path)
    (tmp_path / "episode.run_episode-1.nbc").touch()
    found = {row["part"]: row for row in json.loads(pilotage("doctor", "--json").out)}
    assert found["kernels"]["state"] == "ok"
    assert found["environment kernels"]["state"] == "not compiled yet"
    assert "pilotage doctor --compile-environments" in found["environment kernels"]["detail"]


def take_away(monkeypatch: pytest.MonkeyPatch, *packages: str) -> None:
    real = metadata.version

    def version(name: str) -> str:
        if name in packages:
            raise metadata.PackageNotFoundError(name)
        return real(name)

    monkeypatch.setattr(metadata, "version", version)


def test_a_missing_package_is_a_bad_answer_with_what_to_type(monkeypatch: pytest.MonkeyPatch) -> None:
    take_away(monkeypatch, "orjson")
    done = pilotage("doctor", "--json")
    assert done.code == 1
    row = next(row for row in json.loads(done.out) if row["part"] == "orjson")
    assert row == {"part": "orjson", "state": "missing", "detail": "pip install orjson"}


def test_what_only_some_commands_need_may_be_absent(monkeypatch: pytest.MonkeyPatch) -> None:
    take_away(monkeypatch, "ray", "torch", "onnx")
    monkeypatch.setenv("PATH", "")
    done = pilotage("doctor", "--json")
    assert done.code == 0
    found = {row["part"]: row for row in json.loads(done.out)}
    assert found["ray"]["state"] == found["helm"]["state"] == "not there"
    assert "pip install 'pilotage[ray]'" in found["ray"]["detail"]
    assert found["train"]["state"] == found["graph"]["state"] == "not there"
    assert "pip install 'pilotage[train]' (now without torch)" in found["train"]["detail"]


def test_programs_of_the_lab_that_are_not_built_are_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("pilotage.lab.build.lab_cache", lambda: tmp_path)
    done = pilotage("doctor", "--json")
    row = next(row for row in json.loads(done.out) if row["part"] == "lab programs")
    assert row["state"] == "not there"
    assert "pilotage lab build" in row["detail"]


# What is around the package


def around(part: str) -> tuple[str, str]:
    (found,) = [one for one in machine_findings() if one.part == part]
    return found.state, found.detail


@pytest.mark.parametrize("part", PROGRAMS)
def test_programs_are_said_with_their_place_or_the_line_to_type(
    part: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    state, detail = around(part)
    assert state == "not there"
    assert detail == ": ".join(PROGRAMS[part])
    program = tmp_path / part
    program.touch(mode=0o755)
    assert around(part) == ("ok", str(program))


def test_a_score_plugin_that_is_not_built_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("pilotage.lab.plugin_build.lab_cache", lambda: tmp_path)
    state, detail = around("score plugin")
    assert state == "not there"
    assert detail.endswith(": pilotage lab build --plugin")


def test_zookeeper_is_where_its_package_puts_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    jar = tmp_path / "zookeeper.jar"
    monkeypatch.setattr("pilotage.cli.doctor_machine.ZOOKEEPER", jar)
    assert around("zookeeper")[0] == "not there"
    assert around("zookeeper")[1].endswith(": apt-get install zookeeper")
    jar.touch()
    assert around("zookeeper") == ("ok", str(jar))


@pytest.mark.parametrize(
    ("files", "state", "said"),
    [
        ({"cgroup.controllers": "cpu", "cgroup.subtree_control": "cpu memory"}, "ok", "version 2"),
        ({"cgroup.controllers": "cpu", "cgroup.subtree_control": "memory"}, "not there", "echo +cpu > "),
        ({"cpu/cpu.cfs_quota_us": "-1"}, "ok", "version 1"),
        ({}, "not there", "sudo pilotage gang run JOB, or in pods: pilotage gang run JOB --image IMAGE"),
    ],
)
def test_control_groups_are_said_with_their_version_or_the_line_to_type(
    files: dict[str, str], state: str, said: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.setattr("pilotage.gang.quota.ROOT", tmp_path)
    found, detail = around("control groups")
    assert (found, said in detail) == (state, True), detail


@pytest.fixture
def api_server() -> Iterator[str]:
    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = json.dumps({"gitVersion": "v1.36.3"} if self.path == "/version" else {}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None: ...

    with HTTPServer(("127.0.0.1", 0), Answers) as server:
        thread = Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def kubeconfig(path: Path, server: str) -> str:
    named = {"name": "here", "cluster": {"server": server}}
    context = {"name": "here", "context": {"cluster": "here"}}
    path.write_text(json.dumps({"current-context": "here", "clusters": [named], "contexts": [context]}))
    return str(path)


def test_a_cluster_that_is_named_is_asked_for_its_version(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, api_server: str
) -> None:
    monkeypatch.setenv("KUBECONFIG", kubeconfig(tmp_path / "config", api_server))
    assert around("cluster") == ("ok", f"{api_server}, Kubernetes v1.36.3")


def test_a_cluster_that_does_not_answer_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:  # takes the connection, and never says anything
        server = f"http://127.0.0.1:{silent.getsockname()[1]}"
        monkeypatch.setenv("KUBECONFIG", kubeconfig(tmp_path / "config", server))
        monkeypatch.setattr("pilotage.cli.doctor_machine.ANSWER_SECONDS", 0.2)
        state, detail = around("cluster")
    assert state == "no answer"
    assert server in detail
    assert detail.endswith("look with: kubectl get --raw /version")
    assert around("cluster")[0] == "no answer"  # now it refuses the connection


def test_without_a_cluster_doctor_says_how_to_name_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    state, detail = around("cluster")
    assert state == "not there"
    assert "export KUBECONFIG=FILE" in detail
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "nothing"))
    assert around("cluster")[0] == "not there"
    assert str(tmp_path / "nothing") in around("cluster")[1]


def test_the_table_is_for_people() -> None:
    done = pilotage("doctor")
    assert done.code == 0
    assert "pilotage doctor" in done.out


def test_the_table_shows_paths_to_their_end(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    place = tmp_path / ("a-long-name-" * 10)
    place.mkdir()
    monkeypatch.setattr(compiling, "cache_directory", lambda: place)
    (place / "episode.run_episode-1.nbc").touch()
    monkeypatch.setenv("COLUMNS", "80")
    cells = [line.split("│")[3].strip() for line in pilotage("doctor").out.splitlines() if line.count("│") == 4]
    assert str(place) in "".join(cells)
