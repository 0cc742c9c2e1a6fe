"""Figures say what the runs say; the file is the same bytes each time and asks for nothing outside."""

from __future__ import annotations

import base64
import json
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from pilotage.model.cluster import Node
from pilotage.model.workload import FloatArray, Workload
from pilotage.report.curves import curves
from pilotage.report.drawing import packed, shown_name
from pilotage.report.figures import failures, figures_of, seeds
from pilotage.report.html import page, write_report
from pilotage.report.leftovers import MOST_COLUMNS, columns_of, strips
from pilotage.report.markup import safe_json
from pilotage.report.section import sections_of
from pilotage.sim.compare import Outcome
from pilotage.sim.results import Leftover
from pilotage.workloads.trace import Trace
from reference.strategies import checked


def unpacked(written: dict[str, str]) -> FloatArray:
    values = np.frombuffer(base64.b64decode(written["bdata"]), "<f4").astype(np.float64)
    return values.reshape([int(x) for x in written["shape"].split(",")]) if "shape" in written else values


def test_curves_are_the_mean_of_the_seeds_within_a_band_from_lowest_to_highest(outcomes: dict[str, Outcome]) -> None:
    section = sections_of(outcomes["loads"])[1]
    figure = curves(section)[0]
    band, line = figure.traces[:2]
    found = [run.curve for run in section.runs_of(section.policies[0])]
    values = np.array([curve.allocation_L for curve in found if curve is not None])
    assert_allclose(unpacked(line["y"])[-1], values[:, -1].mean(), rtol=1e-6)
    L = len(unpacked(line["x"]))
    assert_allclose([unpacked(band["y"])[L - 1], unpacked(band["y"])[L]], [values[:, -1].max(), values[:, -1].min()])
    names = [trace["name"] for trace in figure.traces if trace.get("showlegend", True)]
    assert names == ["fgd@1", "best-fit@1", "random@1", "arrived", "packing bound"]
    assert figure.traces[-1]["y"] == [section.bound] * 2


def test_points_are_differences_to_the_baseline_of_the_same_seed(outcomes: dict[str, Outcome]) -> None:
    section = sections_of(outcomes["loads"])[1]
    points = seeds(section).traces[0]
    own, base = (
        np.array([run.gpu_allocation_percent for run in section.runs_of(policy)]) for policy in ("random@1", "fgd@1")
    )
    assert points["name"] == "random@1"
    assert_allclose(unpacked(points["x"]), own - base, atol=1e-5)
    assert points["customdata"] == [1, 2, 3]


def test_bars_are_failed_pods_of_the_classes_that_fail(outcomes: dict[str, Outcome]) -> None:
    section = sections_of(outcomes["loads"])[1]
    figure = failures(section)
    assert figure is not None
    for bar in figure.traces:
        runs = section.runs_of(bar["name"])
        assert unpacked(bar["y"]).sum() == pytest.approx(np.mean([run.failed_pods for run in runs]), rel=1e-6)


def test_policies_keep_their_colour(outcomes: dict[str, Outcome]) -> None:
    for section in sections_of(outcomes["loads"]):
        shown: dict[str, set[str]] = {}
        for figure in figures_of(section):
            for trace in figure.traces:
                colour = trace.get("marker", trace.get("line", {})).get("color", "")
                if colour.startswith("--policy"):
                    shown.setdefault(trace["name"], set()).add(colour)
        assert {name: len(colours) for name, colours in shown.items()} == dict.fromkeys(section.policies, 1)


def test_what_cannot_be_drawn_is_left_out(outcomes: dict[str, Outcome]) -> None:
    titles = {kind: [figure.title for figure in figures_of(sections_of(o)[0])] for kind, o in outcomes.items()}
    assert not any("GPU" in title for title in titles["without gpus"])
    assert titles["without gpus"][-1] == "CPU left on nodes"
    assert "GPU allocated over time" in titles["timed"]


@checked(60)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 1)), min_size=1, max_size=40), st.integers(0, 2**32 - 1))
def test_strips_hold_what_is_left(kinds: list[tuple[int, int]], seed: int) -> None:
    nodes = [Node(f"n{i}", 1000, 1, gpu_count=d, gpu_model="AB"[m]) for i, (d, m) in enumerate(kinds)]
    random = np.random.default_rng(seed)
    count_N = np.array([d for d, _ in kinds])
    D = int(count_N.max())
    left_ND = np.where(np.arange(D) < count_N[:, None], random.integers(0, 1001, (len(nodes), D)), -1)
    leftover = Leftover(left_ND.astype(np.int16), random.uniform(0, 100, len(nodes)).astype(np.float32))
    trace = Trace("t", tuple(nodes), Workload.of([]), "")
    found = strips(leftover, columns_of(trace), D)
    assert found["CPU"].shape == (1, len(nodes))
    assert found["GPU"].shape == ((D, len(nodes)) if D else (0, len(nodes)))
    assert_allclose(np.nansum(found["GPU"]) * 10, left_ND[left_ND >= 0].sum(), rtol=1e-9)
    assert np.isnan(found["GPU"]).sum() == (left_ND < 0).sum()
    assert_allclose(found["CPU"].sum(), leftover.cpu_left_N.astype(np.float64).sum(), rtol=1e-9)


def test_wide_clusters_share_columns_and_keep_the_mean() -> None:
    nodes = tuple(Node(f"n{i}", 1000, 1, gpu_count=2, gpu_model="A" if i % 2 else "B") for i in range(2400))
    left_ND = np.random.default_rng(1).integers(0, 1001, (2400, 2))
    leftover = Leftover(left_ND.astype(np.int16), np.full(2400, 25, np.float32))
    found = strips(leftover, columns_of(Trace("t", nodes, Workload.of([]), "")), 2)
    assert found["GPU"].shape == (2, MOST_COLUMNS)
    assert_allclose(found["GPU"].mean() * 10, left_ND.mean())
    assert set(found["CPU"].ravel()) == {25.0}


@checked(50)
@given(st.lists(st.floats(-1e6, 1e6, width=32), max_size=20))
def test_packed_arrays_are_read_back(values: list[float]) -> None:
    assert unpacked(packed(np.array(values))).tolist() == values


@checked(100)
@given(st.text() | st.sampled_from(["</script>", "<!--<script>", "]]>", "&lt;"]))
def test_data_in_the_page_cannot_end_its_script(name: str) -> None:
    written = safe_json({"name": name})
    assert not set("<>&") & set(written)
    assert json.loads(written) == {"name": name}
    assert not set("<>\"'") & set(shown_name(name))


class Outside(HTMLParser):
    """Collects what a page would load or link to."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        loading = ("src", "href", "srcset", "data", "action", "poster")
        self.found += [value or "" for name, value in attrs if name in loading and not (value or "").startswith("#")]


def test_the_file_is_the_same_bytes_each_time_and_points_nowhere(outcomes: dict[str, Outcome], tmp_path: Path) -> None:
    first, second = (write_report(outcomes["loads"], tmp_path / name, "c") for name in ("a.html", "b.html"))
    assert first.read_bytes() == second.read_bytes()
    parser = Outside()
    parser.feed(first.read_text())
    assert parser.found == []
    assert "default-src 'none'" in first.read_text()
    assert "unsafe-eval" not in first.read_text().partition("<style>")[0]


def test_the_page_tells_how_it_was_made(outcomes: dict[str, Outcome]) -> None:
    outcome: Any = outcomes["loads"]
    html = page(outcome, "pilotage compare --policies '<x>'")
    assert "pilotage compare --policies &#x27;&lt;x&gt;&#x27;" in html
    assert all(trace.digest in html for trace in outcome.traces)
    assert all(f"<dt>{term}</dt>" in html for term in ("packing bound", "room closed", "GPUs saved", "GPU fragmented"))


def test_names_that_are_no_text_are_written_nevertheless(outcomes: dict[str, Outcome], tmp_path: Path) -> None:
    path = write_report(outcomes["timed"], tmp_path / "r.html", "pilotage compare --pods \udcff.csv")
    assert "--pods ?.csv" in path.read_text()
