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
    assert reached[-1] == f"{run.name}/report.html" and "#victim_mbps" in reached
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/{run.name}/report.html")
    assert "measurement: invalid" in page.locator(".headline").inner_text().lower()
    context.close()
