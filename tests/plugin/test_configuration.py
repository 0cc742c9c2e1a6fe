"""Configurations of kube-scheduler: what a lab takes, and what the plugin refuses at the start."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
import yaml

from contract.commands import pilotage
from pilotage.lab.plugin_build import PLUGIN, built_plugin
from pilotage.lab.plugin_figures import plugin_profiles
from plugin.conftest import Beside


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is not one document of kind KubeSchedulerConfiguration"),
        ("kind: Pod", "is not one document of kind KubeSchedulerConfiguration"),
        ("kind: KubeSchedulerConfiguration\napiVersion: v1", "kubescheduler.config.k8s.io/v1"),
        ("a: [", "file.yaml"),
    ],
)
def test_a_file_that_is_no_configuration_is_named(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "file.yaml").write_text(text)
    done = pilotage("lab", "up", "--scheduler-config", tmp_path / "file.yaml")
    assert done.code == 2
    assert said in done.err
    assert "file.yaml" in done.err


def test_wrong_arguments_end_kube_scheduler_at_its_start(beside: Beside, tmp_path: Path) -> None:
    content = yaml.safe_load(plugin_profiles(tmp_path / "s"))
    content["profiles"][1]["pluginConfig"][0]["args"] |= {"deadline": "1h", "failures": 0, "sokcet": "/s"}
    content["clientConnection"] = {"kubeconfig": str(beside.lab.kubeconfig_of("kube-scheduler"))}
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(content))
    done = subprocess.run(
        [built_plugin() / PLUGIN.name, "--config", tmp_path / "config.yaml", "--secure-port=0"],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        cwd=tmp_path,
    )
    assert done.returncode == 1
    for said in ("plugin Pilotage", "sokcet", "deadline: 1h", "failures: 0"):
        assert said in done.stderr
