# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from sojourn.hardware.kernel_build import kconfig
from sojourn.hardware.machine.cache import BuildError


def test_parse_reads_values_and_refusals() -> None:
    text = '# a comment\nCONFIG_A=y\n# CONFIG_B is not set\n\nCONFIG_C="fd:0,fd:1"\nCONFIG_D=-1\n'
    assert kconfig.parse(text) == {
        "CONFIG_A": "y",
        "CONFIG_B": "n",
        "CONFIG_C": '"fd:0,fd:1"',
        "CONFIG_D": "-1",
    }


def test_parse_names_a_line_it_cannot_read() -> None:
    with pytest.raises(BuildError, match="'CONFIG_A y'"):
        kconfig.parse("CONFIG_A y\n")


def test_unmet_names_options_that_are_not_so() -> None:
    wanted = kconfig.parse("CONFIG_A=y\nCONFIG_B=y\nCONFIG_C=y\n# CONFIG_D is not set\n# CONFIG_E is not set\n")
    got = kconfig.parse("CONFIG_A=y\nCONFIG_B=m\nCONFIG_E=y\n")
    assert kconfig.unmet(wanted, got) == ["CONFIG_B=y (is m)", "CONFIG_C=y (is n)", "CONFIG_E=n (is y)"]


def test_an_option_is_met_by_its_newer_name() -> None:
    wanted = kconfig.parse(kconfig.fragment(["base"]))
    assert wanted["CONFIG_PROC_SYSCTL"] == wanted["CONFIG_SYSCTL"] == "y"  # each source takes the one that it knows
    before, since, without = ({k: v for k, v in wanted.items() if k != gone} for gone in (
        "", "CONFIG_PROC_SYSCTL", "CONFIG_SYSCTL"))  # fmt: skip
    assert kconfig.unmet(wanted, before) == kconfig.unmet(wanted, since) == []
    assert kconfig.unmet(wanted, without) == ["CONFIG_SYSCTL=y (is n)"]


@pytest.mark.parametrize(
    "option",
    [
        "NET_SCH_DUALPI2",
        "NET_SCH_FQ_CODEL",
        "NET_SCH_CODEL",
        "NET_SCH_PIE",
        "NET_SCH_FQ_PIE",
        "NET_SCH_RED",
        "NET_SCH_CAKE",
        "NET_SCH_FQ",
        "NET_SCH_SFQ",
        "NET_SCH_HTB",
        "NET_SCH_TBF",
        "NET_SCH_NETEM",
        "IFB",
        "NET_SCH_INGRESS",
        "NET_ACT_MIRRED",
        "NET_CLS_U32",
        "NET_CLS_FLOWER",
        "NET_CLS_MATCHALL",
        "NET_ACT_PEDIT",
        "NF_TABLES",
        "NFT_NUMGEN",
        "WIREGUARD",
        "INET_ESP",
        "NET_FOU",
        "NET_IPIP",
        "TCP_CONG_DCTCP",
        "TCP_CONG_BBR",
        "TCP_CONG_CUBIC",
        "TCP_CONG_PRAGUE",
        "INET_TCP_DIAG",
        "VLAN_8021Q",
        "BRIDGE",
    ],
)
def test_every_router_has_what_the_experiments_need(option: str) -> None:
    assert kconfig.parse(kconfig.fragment(kconfig.ROUTER))[f"CONFIG_{option}"] == "y"


def test_only_the_virtual_fragment_is_about_user_mode_linux() -> None:
    physical = kconfig.parse(kconfig.fragment(kconfig.ROUTER))
    virtual = kconfig.parse(kconfig.fragment(kconfig.VIRTUAL))
    assert {"CONFIG_HOSTFS", "CONFIG_UML_NET_VECTOR", "CONFIG_UML_TIME_TRAVEL_SUPPORT"} <= set(virtual) - set(physical)
    assert not [option for option in physical if "UML" in option]
