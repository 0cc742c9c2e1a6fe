"""kube-scheduler with our score plugin, built like the other programs and from the same modules.

Its sources are `plugin/` of a checkout; an installed package brings a copy. What it has in common with kube-scheduler
is compiled already when that was built on this machine.
"""

from __future__ import annotations

from pathlib import Path

from pilotage.lab.build import KUBERNETES, VERSION_STAMP, Program, Progress, build_programs, hash_of
from pilotage.lab.components import SCHEDULER
from pilotage.lab.places import lab_cache
from pilotage.model.errors import InputError

PLUGIN = Program(SCHEDULER, ".", ".", VERSION_STAMP)


def plugin_sources() -> Path:
    for path in (Path(__file__).with_name("plugin"), Path(__file__).parents[3] / "plugin"):
        if (path / "go.mod").is_file():
            return path
    expected = "plugin/ of a checkout, or a package built from one"
    raise InputError("the sources of the score plugin are not there", file=Path(__file__), expected=expected)


def plugin_directory() -> Path:
    """Where the program is, or will be: under its version and a hash of its sources, tests left out."""
    root = plugin_sources()
    files = [root / "go.mod", root / "go.sum", *root.rglob("*.go")]
    digest = hash_of((PLUGIN,), root, sorted(path for path in files if not path.name.endswith("_test.go")))
    return lab_cache() / "programs" / f"plugin-{KUBERNETES}-{digest}"


def build_plugin(progress: Progress) -> list[str]:
    """Builds it unless it is there; the names of the programs that were built."""
    return build_programs(_missing, plugin_sources(), plugin_directory(), progress)


def built_plugin() -> Path:
    """The directory of the program, when it is there."""
    if _missing():
        expected = "pilotage lab build --plugin, once (half a minute beside the others)"
        raise InputError("kube-scheduler with the score plugin is not built yet", expected=expected)
    return plugin_directory()


def _missing() -> list[Program]:
    return [] if (plugin_directory() / PLUGIN.name).is_file() else [PLUGIN]
