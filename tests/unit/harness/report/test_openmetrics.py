# SPDX-License-Identifier: Apache-2.0
"""A summary as OpenMetrics text: what Prometheus' own parsers read from it, and what the dashboard asks of it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from math import inf
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.core import Metric
from prometheus_client.openmetrics import parser as openmetrics_parser
from prometheus_client.parser import text_string_to_metric_families as of_text_format
from typer.testing import CliRunner

from sojourn.hardware.machine.files import CHECKOUT
from sojourn.harness.cli import app
from sojourn.harness.report.experiments import experiments, find_runs
from sojourn.harness.report.openmetrics import GAUGES, openmetrics
from sojourn.harness.store.manifest import reseal
from sojourn.scoring.schema.scores import Scores
from tests.unit.harness.conftest import Series

DASHBOARD = CHECKOUT / "docs" / "examples" / "grafana-dashboard.json"
#: Labels that Prometheus adds to what it scrapes.
SCRAPED = {"instance", "job"}


def read(text: str) -> dict[str, Metric]:
    families = list(openmetrics_parser.text_string_to_metric_families(text))
    assert all(family.type == "gauge" for family in families)
    return {family.name: family for family in families}


def values(family: Metric, **labels: str) -> list[float]:
    return [it.value for it in family.samples if labels.items() <= it.labels.items()]


def written(folder: Path, *more: str) -> str:
    file = folder / "sojourn.prom"
    done = CliRunner().invoke(app, ["summary", str(folder), f"--openmetrics={file}", *more])
    assert done.exit_code == 0, done.output
    assert [path.name for path in folder.glob("sojourn*")] == ["sojourn.prom"]
    return file.read_text()


def test_a_missing_folder_is_refused_before_the_summary_is_written(series: Series, tmp_path: Path) -> None:
    results = series([1, 2])[0].parent
    done = CliRunner().invoke(app, ["summary", str(results), f"--openmetrics={tmp_path / 'nodir' / 'x.prom'}"])
    assert (done.exit_code, done.stdout) == (1, "") and not (results / "summary").exists()
    assert done.stderr == f"sojourn: --openmetrics: {tmp_path / 'nodir'}: no such folder; create it\n"


def test_a_run_that_cannot_be_read_is_named_and_counted(series: Series) -> None:
    damaged, *rest = series([1, 2, 3])
    (damaged / "manifest.json").write_text("{")
    results = damaged.parent
    file = results / "sojourn.prom"
    done = CliRunner().invoke(app, ["summary", str(results), f"--openmetrics={file}"])
    assert done.exit_code == 0 and "2 of 2 runs are valid" in done.stdout, done.output
    named, counted = done.stderr.splitlines()
    assert named.startswith(f"sojourn: excluded: unreadable: {damaged}: manifest.json: ")
    assert counted == "sojourn: 1 run excluded, in no figure"
    assert "1 unreadable" in (page := (results / "summary" / "report.html").read_text()) and damaged.name in page
    assert values(read(file.read_text())["sojourn_runs"], state="unreadable", experiment="") == [1]
    for run in rest:
        (run / "manifest.json").write_text("{")
    refused = CliRunner().invoke(app, ["summary", str(results)])
    assert refused.exit_code == 1 and refused.stderr.count("\n") == 1 and str(damaged) in refused.stderr


def test_the_text_has_every_figure_with_its_interval(series: Series) -> None:
    paths = series([1, 2, 3, 4, 5.5, 6], void=[9])
    families = read(written(paths[0].parent))
    assert set(families) == set(GAUGES)
    (one,) = experiments(find_runs(paths))
    count = 0
    for it in one.figures():
        for contender, estimate in [("alone", it.figure.alone), *it.figure.contended.items()]:
            if estimate:
                count += 1
                where = {"contender": contender, "metric": it.metric, "service": "o2tv", "queue": "fq_codel flows 1"}
                assert values(families["sojourn_estimate"], **where) == [estimate.value]
                assert values(families["sojourn_interval_low"], **where) == [estimate.low]
                assert values(families["sojourn_interval_high"], **where) == [estimate.high]
                assert values(families["sojourn_estimate_runs"], **where) == [6]
    assert count == len(families["sojourn_estimate"].samples) > 20
    assert values(families["sojourn_estimate"], metric="stall_s", unit="s", contender="prague") == [
        pytest.approx(21.5 / 6, abs=1e-4)
    ]
    runs = families["sojourn_runs"]
    assert values(runs, state="valid") == [6] and values(runs, state="invalid") == [1]


def test_one_run_has_no_interval(series: Series) -> None:
    (path,) = series([1])
    families = read(written(path.parent))
    assert families["sojourn_estimate"].samples and not families["sojourn_interval_low"].samples


def test_the_report_is_where_its_label_says(series: Series, tmp_path: Path) -> None:
    series([1], qdisc="dualpi2")
    (path,) = series([1])
    infos = read(written(path.parent, f"--output={tmp_path / 'pages'}"))["sojourn_experiment_info"].samples
    for info in infos:
        page, _, anchor = info.labels["report"].partition("#")
        text = (path.parent / page).read_text()
        before = text[: text.index(f'id="{anchor}"')]
        assert before.rpartition("<h3>")[2].startswith(f"{info.labels['experiment']}</h3>")
    assert {info.labels["queue"] for info in infos} == {"fq_codel flows 1", "dualpi2"}


def test_the_collector_of_node_exporter_reads_it_as_well(series: Series) -> None:
    (path,) = series([1])
    text = written(path.parent)
    assert {family.name for family in of_text_format(text)} == set(read(text))


def test_another_user_can_read_the_file(series: Series) -> None:
    (path,) = series([1])
    written(path.parent)
    assert (path.parent / "sojourn.prom").stat().st_mode & 0o444 == 0o444


def test_odd_names_and_infinite_values_stay_valid(series: Series) -> None:
    (path,) = series([1], service='a"b\\c\nd\x1b[2K')
    document = Scores.model_validate_json((path / "scores.json").read_bytes())
    for phase in document.phases:
        phase.rtt_p99_ms = inf
    (path / "scores.json").write_text(document.model_dump_json())
    reseal(path, "scores.json")
    text = openmetrics(experiments(find_runs([path])), "report.html")
    family = read(text)["sojourn_estimate"]
    assert values(family, metric="rtt_p99_ms", contender="prague") == [inf] and "\x1b" not in text
    assert {it.labels["service"] for it in family.samples} == {'a"b\\c\\nd\\x1b[2K'}


def test_the_oracle_refuses_what_is_no_openmetrics() -> None:
    for text in ("# TYPE a gauge\na 1\n", '# TYPE a gauge\na{b="c" 1\n# EOF\n'):
        with pytest.raises(ValueError):
            read(text)


def expressions(part: Any) -> Iterator[str]:
    """Every query in a dashboard."""
    if isinstance(part, dict):
        yield from (value for name, value in part.items() if name in ("expr", "query") and isinstance(value, str))
    for inner in part.values() if isinstance(part, dict) else part if isinstance(part, list) else ():
        yield from expressions(inner)


def test_the_dashboard_asks_for_these_metrics_and_their_labels() -> None:
    dashboard = json.loads(DASHBOARD.read_text())
    queries = [text for text in expressions(dashboard) if "sojourn_" in text]
    assert {name for text in queries for name in re.findall(r"\bsojourn_\w+", text)} == set(GAUGES)
    for text in queries:
        known = SCRAPED | {label for name in re.findall(r"\bsojourn_\w+", text) for label in GAUGES[name].labels}
        used = set(re.findall(r'(\w+)=~?"', text))
        used |= {
            label for names in re.findall(r"(?:by|on|group_left) \(([^)]*)\)", text) for label in names.split(", ")
        }
        used |= set(re.findall(r"label_values\(.*, (\w+)\)", text))
        assert used and used <= known, text
    legends = {label for panel in dashboard["panels"] for target in panel["targets"]
               for label in re.findall(r"{{(\w+)}}", target["legendFormat"])}  # fmt: skip
    assert legends and legends <= set(GAUGES["sojourn_estimate"].labels)
    variables = {it["name"] for it in dashboard["templating"]["list"]}
    assert set(re.findall(r"\$\{?(\w+)", json.dumps(dashboard))) - {"__all", "__value"} == variables
