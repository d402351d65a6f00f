# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sojourn.bottleneck import units
from sojourn.bottleneck.units import UnitError


@pytest.mark.parametrize(
    ("text", "bps"),
    [
        ("10mbit", 10_000_000),
        ("0.5Mbit", 500_000),
        ("1gbit", 10**9),
        ("100kibit", 102_400),
        ("8000", 8000),
        ("1mbps", 8_000_000),  # tc's mbps is megabytes per second
        ("1e6bit", 1_000_000),
    ],
)
def test_rates_as_tc_reads_them(text: str, bps: int) -> None:
    assert units.parse_rate(text) == bps


@pytest.mark.parametrize(
    ("text", "us"),
    [("5ms", 5000), ("0.57ms", 570), ("100us", 100), ("2s", 2_000_000), ("15", 15), ("1msec", 1000)],
)
def test_times_as_tc_reads_them(text: str, us: int) -> None:
    assert units.parse_time(text) == us


@pytest.mark.parametrize(
    ("text", "size"),
    [("3000", 3000), ("150kb", 153_600), ("150k", 153_600), ("4Mb", 4_194_304), ("8kbit", 1024)],
)
def test_sizes_as_tc_reads_them(text: str, size: int) -> None:
    assert units.parse_size(text) == size


@given(st.integers(0, 2**40))
def test_what_is_written_is_read_back(value: int) -> None:
    assert units.parse_rate(units.format_rate(value)) == value
    assert units.parse_time(units.format_time(value)) == value
    assert units.parse_time_ns(units.format_time_ns(value)) == value


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("fast", '"fast" is not a rate such as 500kbit, 10mbit or 1gbit'),
        ("-5mbit", '"-5mbit" is not a rate'),
        ("", '"" is not a rate'),
        ("10ms", '"10ms" is not a rate'),
        ("10", '"10" has no unit; write 10mbit'),
        ("0mbit", '"0mbit" is out of range; give 100kbit to 10gbit'),
        ("99kbit", "out of range"),
        ("11gbit", "out of range"),
    ],
)
def test_impossible_rate_is_one_clear_line(text: str, message: str) -> None:
    with pytest.raises(UnitError) as error:
        units.rate_option(text)
    assert message in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("soon", '"soon" is not a time such as 500us, 5ms or 1s'),
        ("-1ms", '"-1ms" is not a time'),
        ("20", '"20" has no unit; write 20ms'),
        ("3s", '"3s" is out of range; give 0 to 2s'),
    ],
)
def test_impossible_rtt_is_one_clear_line(text: str, message: str) -> None:
    with pytest.raises(UnitError) as error:
        units.rtt_option(text)
    assert message in str(error.value)


def test_a_time_needs_a_unit_unless_it_is_zero() -> None:
    assert (units.time_option("2ms"), units.time_option("0")) == (2000, 0)
    with pytest.raises(UnitError, match=r'^"30" has no unit; write 30s$'):
        units.time_option("30", "s")


def test_limits_of_the_options_are_allowed() -> None:
    assert units.rate_option("0.1mbit") == 100_000
    assert units.rate_option("10gbit") == 10_000_000_000
    assert (units.rtt_option("0"), units.rtt_option("0ms"), units.rtt_option("2s")) == (0, 0, 2_000_000)


@pytest.mark.parametrize("text", ["10Mbps", "10 mbps", "500kbps"])
def test_an_option_in_bytes_a_second_is_refused(text: str) -> None:
    """Who writes Mbps means bits; tc would take bytes."""
    with pytest.raises(units.UnitError, match=rf'^"{text}" is in bytes per second, as in tc; give bits'):
        units.rate_option(text)
