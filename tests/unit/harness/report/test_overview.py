# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from sojourn.harness.report.experiments import answers, experiments, find_runs
from sojourn.harness.report.heat_map import HarmField
from sojourn.harness.report.overview import overview
from sojourn.harness.store.manifest import reseal

Series = Callable[..., list[Path]]


def test_a_row_per_experiment_and_contender_the_worst_harm_first(series: Series) -> None:
    series([1, 2, 3, 4, 5], void=[9])
    series([5], qdisc="dualpi2")
    folder = series([], void=[1, 2], qdisc="pie")[0].parent
    rows = overview(HarmField(experiments(find_runs([folder]))), folder)
    assert [(row.queue, row.contender, row.runs.text, row.runs.notes) for row in rows] == [
        ("dualpi2", "prague", "1 valid", ("5 needed",)),
        ("fq_codel flows 1", "prague", "5 valid", ("1 invalid",)),
        ("fq_codel flows 1", "cubic", "5 valid", ("1 invalid",)),
        ("dualpi2", "cubic", "1 valid", ("5 needed",)),
        ("pie", "cubic", "0 valid", ("2 invalid", "5 needed")),
        ("pie", "prague", "0 valid", ("2 invalid", "5 needed")),
    ]
    assert [(row.badge.kind, row.badge.word, row.harm.text, row.seen) for row in rows[-2:]] == [
        ("measurement", "invalid", "–", "–")
    ] * 2
    worst = rows[0]
    # By hand: 36 lines per second of 10 not stalled, of 720 alone.
    assert (worst.harm.text, worst.seen, worst.badge.word) == ("0.75", "180 lines (720 alone)", "severe")
    assert (worst.delay.text, worst.delay.notes, worst.stalls.text) == ("85", ("22 alone",), "1")
    assert rows[1].harm.notes, "an interval of five runs"
    assert all((folder / row.page).exists() for row in rows)


def test_a_contender_in_two_timelines_is_in_two_rows(series: Series) -> None:
    series([1])
    folder = series([9], buffer_s=9.0)[0].parent
    for file in folder.glob("*/options.json"):
        options = json.loads(file.read_text())
        if options.pop("buffer_s") == 9:
            # The same options, and another contender first.
            options["phases"][1]["contender"] = "bbr"
        file.write_text(json.dumps(options))
        reseal(file.parent, file.name)
    groups = experiments(find_runs([folder]))
    rows = [row for row in overview(HarmField(groups), folder) if row.contender == "prague"]
    assert len(groups) == 2 and sorted(row.harm.text for row in rows) == ["0.55", "0.95"]


def test_a_picture_is_of_a_phase_with_the_contender_and_nothing_else_of_the_report(series: Series) -> None:
    (run,) = series([1])
    picture = '" data-phase="{}"{}><img src="data:image/jpeg;base64,{}"'
    hostile = '" data-phase="cubic"><img src="data:text/html,<script>"'
    page = picture.format("prague", "", "AA==") + picture.format("prague", ' class="worst"', "BB==") + hostile
    (run / "report.html").write_text(page)
    reseal(run, "report.html")
    pictures = {
        row.contender: row.picture for row in overview(HarmField(experiments(find_runs([run.parent]))), run.parent)
    }
    assert pictures == {"prague": "data:image/jpeg;base64,BB==", "cubic": ""}


def test_the_answers_name_queues_or_count_experiments_and_say_how_sure_they_are(series: Series) -> None:
    one = experiments(find_runs(series([1, 2, 3, 4, 5])))
    assert answers(one) == [
        "With cubic: no visible harm, but delay P99 rises by 38 ms.",
        "With prague: severe harm 0.65 (0.56 to 0.74).",
    ]
    both = experiments(find_runs([series([5], qdisc="dualpi2")[0].parent]))
    assert answers(both) == [
        "With cubic: no visible harm in fq_codel flows 1 and dualpi2 (but more delay in fq_codel flows 1 and dualpi2).",
        "With prague: severe harm in fq_codel flows 1 and dualpi2.",
        "Not a result yet: 1 run of an experiment, 5 are needed.",
    ]
    of_one_queue = experiments(find_runs([series([5], rate_down_bps=20_000_000)[0].parent]))
    assert answers(of_one_queue)[:2] == [
        "With cubic: no visible harm in 3 of 3 experiments (of these, more delay in 3).",
        "With prague: severe harm in 3 of 3 experiments.",
    ]
    assert answers([]) == []
