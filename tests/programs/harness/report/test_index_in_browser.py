# SPDX-License-Identifier: Apache-2.0
"""The index works in a real browser, without a network."""

from __future__ import annotations

from typing import Any

import pytest

from sojourn.harness.report.index import write_index
from tests.unit.harness.report.test_index import Series


@pytest.mark.lab
def test_the_page_works_offline_and_by_keyboard(series: Series, chromium: Any) -> None:
    """In a real browser without a network: only the page itself is fetched, and Tab and Enter lead to a run."""
    run, *_ = series([1, 2, 3, 4, 5], void=[9])
    context = chromium.new_context(offline=True)
    page, asked = context.new_page(), []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(write_index(run.parent).as_uri())
    assert asked == [page.url]
    assert page.locator("table.heat td[style]").count() >= 10
    reached = []
    for _ in range(60):
        page.keyboard.press("Tab")
        reached.append(page.evaluate("document.activeElement.getAttribute('href')"))
        if reached[-1] == f"{run.name}/report.html":
            break
    assert reached[-1] == f"{run.name}/report.html" and {"#overview", "#e0"} <= set(reached)
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/{run.name}/report.html")
    assert "measurement: invalid" in page.locator(".headline").inner_text().lower()
    context.close()


@pytest.mark.lab
def test_the_overview_sorts_and_filters_and_one_metric_is_shown(series: Series, chromium: Any) -> None:
    series([1, 2])
    folder = series([5], qdisc="dualpi2")[0].parent
    page = chromium.new_page()
    page.goto(write_index(folder).as_uri())
    rows = page.locator(".overview tbody tr:visible")

    def queues() -> list[str]:
        return [
            f"{row.locator('td').nth(0).inner_text()} {row.locator('td').nth(1).inner_text()}" for row in rows.all()
        ]

    fq = "fq_codel flows 1"
    assert queues() == ["dualpi2 prague", f"{fq} prague", f"{fq} cubic", "dualpi2 cubic"], "the worst harm first"
    page.get_by_role("button", name="runs").click()
    assert queues()[:2] == ["dualpi2 prague", "dualpi2 cubic"]
    page.get_by_role("button", name="runs").click()
    assert queues()[:2] == [f"{fq} prague", f"{fq} cubic"]
    page.get_by_label("Filter").fill("DUAL prague")
    assert queues() == ["dualpi2 prague"] and page.get_by_text("1 of 4 rows").is_visible()
    page.locator("#harm summary").click()
    assert page.locator(".map:visible").count() == 1
    page.get_by_label("Metric").select_option("victim_mbps")
    assert page.locator(".map:visible h3").inner_text().endswith("goodput of the victim")
    page.close()
