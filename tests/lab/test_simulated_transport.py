# SPDX-License-Identifier: Apache-2.0
"""The simulated lab: repeatable to the bit, true to the network asked for, and it cleans up after a hung guest."""

from __future__ import annotations

import hashlib
import json
import time
from concurrent.futures import ThreadPoolExecutor
from math import sqrt
from pathlib import Path
from typing import cast

import polars as pl
import psutil
import pytest

from sojourn.bottleneck import delivery_trace
from sojourn.bottleneck.cell import Cell
from sojourn.bottleneck.delivery_trace import DeliveryTrace
from sojourn.bottleneck.impairment import Impairment
from sojourn.bottleneck.qdiscs import marks
from sojourn.bottleneck.shaper import RateStep
from sojourn.bottleneck.spec import Direction, Hop
from sojourn.hardware import simulation
from sojourn.hardware.images.guest import ensure_guest
from sojourn.hardware.kernel_build.build import ensure_kernel
from sojourn.hardware.machine.ip import IP_VERSIONS
from sojourn.hardware.simulation import SimulationError
from sojourn.harness.matrix import dumbbell
from sojourn.harness.matrix.cells import simulated
from sojourn.harness.matrix.cells.guest import plan
from sojourn.scoring.packets import pcapng
from sojourn.scoring.schema.columns import FLOWS
from sojourn.scoring.transport.bottleneck_seen import active_queues
from sojourn.traffic import ports
from sojourn.traffic.program import PROGRAMS, Program
from sojourn.traffic.spec import Call, Flow, Probe, RecordedCall, ShortFlows
from tests.refusals import refusal
from tests.test_window_law import prague as law
from tests.tiers import first

pytestmark = pytest.mark.lab

RTT = 20_000


def way(mbit: float, qdisc: str, delay_us: int = 0) -> Direction:
    return Direction(rate_bps=round(mbit * 1e6), qdisc=qdisc, path=Impairment(delay_us=delay_us))


def cell(*contenders: str, qdisc: str = "dualpi2", seconds: float = 10, rtt_us: int = RTT, **more: object) -> Cell:
    flows = tuple(Flow(contender=name, rtt_us=rtt_us) for name in contenders)
    return Cell.model_validate({"name": "test", "flows": flows, "hops": [Hop(down=way(50, qdisc))],
                                "seconds": seconds, **more})  # fmt: skip


def run(cell: Cell, tmp_path: Path, name: str = "run", seed: int = 1, pcap: bool = False) -> Path:
    folder = tmp_path / name
    folder.mkdir()
    simulated.run_cell(cell, folder, seed=seed, pcap=pcap)
    return folder


def hashes(folder: Path) -> dict[str, str]:
    return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in folder.iterdir()}


def goodput(folder: Path, flow: int, start_s: float, end_s: float) -> float:
    """Mbit/s of received bytes between two times, s."""
    rows = pl.read_csv(folder / "flows.csv").filter(pl.col("flow") == flow, pl.col("t_s").is_between(start_s, end_s))
    return (rows["received_bytes"][-1] - rows["received_bytes"][0]) * 8e-6 / (rows["t_s"][-1] - rows["t_s"][0])


def needs(contender: str) -> None:
    """Skip the test if this machine cannot compile the program of `contender`."""
    if missing := PROGRAMS[contender].missing_tools():
        pytest.skip(f"needs {missing}")


def heard_and_told(folder: Path) -> tuple[int, int]:
    """The packets that the only flow's sender takes as marked CE, and those that the queue down tells of."""
    lines = [json.loads(line) for line in (folder / "queues.jsonl").read_text().splitlines()]
    last = next(line["qdiscs"] for line in reversed(lines) if line["dev"] == "lan" and line["hop"] == 0)
    return pl.read_csv(folder / "flows.csv")["delivered_ce"][-1], sum(marks(qdisc) or 0 for qdisc in last)


@pytest.mark.parametrize(
    "qdisc",
    [
        "dualpi2", "fq_codel flows 1", "fq_codel flows 1 noecn ce_threshold 1ms", "codel ecn", "pie ecn", "fq_pie ecn",
        "red limit 400000 min 30000 max 90000 avpkt 1000 burst 55 probability 0.05 ecn", "cake bandwidth 45mbit",
        "sfq redflowlimit 100000 min 8000 max 60000 avpkt 1000 burst 30 probability 0.1 ecn",
    ],
)  # fmt: skip
def test_a_queue_tells_the_marks_that_the_sender_hears_of(qdisc: str, tmp_path: Path) -> None:
    folder = run(cell("prague", qdisc=qdisc), tmp_path)
    heard, told = heard_and_told(folder)
    assert told > 0
    # As many packets as the deepest of these queues holds are on their way at the end.
    assert heard == pytest.approx(told, rel=0.02, abs=66), "but for those in flight at the end"


def test_dctcp_that_hears_of_no_sce_echoes_a_mark_on(tmp_path: Path) -> None:
    """As with the receiver of the SCE kernel: until a packet comes that carries no mark."""
    box = Hop(down=way(1000, "cake bandwidth 50mbit flowblind sce"))
    exact, on = (
        heard_and_told(run(cell("dctcp", hops=[box, *behind]), tmp_path, str(len(behind))))
        for behind in ((), dumbbell.before_sce_receiver(["dctcp"]))
    )
    assert exact[0] == pytest.approx(exact[1], rel=0.02, abs=2) and exact[1] > 20
    assert on[0] > 3 * on[1] > 0


def test_a_seed_gives_the_same_bytes_alone_and_beside_another_cell(tmp_path: Path) -> None:
    everything = cell(
        "prague", "cubic", qdisc="pie",
        probes=[Probe(rtt_us=RTT), Probe(rtt_us=RTT, ecn="ect1")], short_flows=ShortFlows(rtt_us=RTT, count=20),
        call=Call(rtt_us=RTT),
    )  # fmt: skip
    alone = hashes(run(everything, tmp_path, "alone"))
    with ThreadPoolExecutor() as pool:
        second = pool.submit(run, everything, tmp_path, "a-much-longer-name-of-a-folder", 1)
        other = pool.submit(run, everything, tmp_path, "other", 2)
    print(json.dumps(alone, indent=1))
    csv = {"flows.csv", "probes.csv", "short.csv", "talks.csv"}
    assert set(alone) == {"cell.json", "setup.log", "counters.json", "queues.jsonl", *csv}
    assert hashes(second.result()) == alone
    different = hashes(other.result())
    assert not [name for name, digest in different.items() if digest == alone[name]]


def test_a_processor_of_another_generation_gives_the_same_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, written = cell("prague", "cubic", seconds=3), simulated.script.script

    def told(mask: str, name: str) -> dict[str, str]:
        """What the cell gives where the job's programs see a processor without the features of `mask`."""
        line = f"export GLIBC_TUNABLES=glibc.cpu.hwcaps={mask}\n"
        monkeypatch.setattr(simulated.script, "script", lambda *a, **k: written(*a, **k).replace("\n", f"\n{line}", 1))
        return {file: content for file, content in hashes(run(asked, tmp_path, name)).items() if file != "setup.log"}

    word = simulation.ANY_PROCESSOR.partition("hwcaps=")[2]
    older = f"{word},-AVX512BW,-AVX512CD,-AVX512DQ,-AVX512VL,-AVX,-BMI1,-BMI2,-FMA,-LZCNT,-MOVBE,-SSSE3,-SSE4_1,-POPCNT"
    assert told(word, "any") == told(older, "older")
    if "avx2" in Path("/proc/cpuinfo").read_text():
        assert told("", "unmasked") != told("-AVX512F,-AVX2,-AVX", "old"), "nothing to be masked any more"


def test_captures_change_nothing_and_hold_what_the_counters_tell(tmp_path: Path) -> None:
    asked = cell(
        "prague", "cubic-noecn", qdisc="fq_codel flows 1", seconds=5, probes=[Probe(rtt_us=RTT, round_trip=True)]
    )
    captured, plain = run(asked, tmp_path, "captured", pcap=True), hashes(run(asked, tmp_path, "plain"))
    told = hashes(captured)
    assert set(told) - set(plain) == set(simulated.CAPTURES)
    assert {name for name in plain if plain[name] != told[name]} == {"setup.log"}
    client, server = (pcapng.read(captured / name).packets for name in simulated.CAPTURES)
    counted = json.loads((captured / "counters.json").read_text())
    came = client.filter(pl.col("sport").is_between(ports.FIRST_SENDER, ports.FIRST_SENDER + 1))
    assert came.filter(pl.col("ecn") == 3).height == counted["receiver"]["IpExtInCEPkts"] > 100
    assert counted["host0"]["TcpExtTCPDeliveredCE"] == pytest.approx(counted["receiver"]["IpExtInCEPkts"], abs=70)
    # Behind the bottleneck are the packets before it, less those in it and those that it dropped, and marked.
    entered = server.filter(pl.col("sport").is_between(ports.FIRST_SENDER, ports.FIRST_SENDER + 1))
    assert 0 <= entered.height - came.height < 200 and not entered.filter(pl.col("ecn") == 3).height


def test_over_ipv6_everything_is_as_over_ipv4(tmp_path: Path) -> None:
    """Marks, delays and rates; a full packet carries 20 bytes less."""
    found = {}
    for version in IP_VERSIONS:
        everything = cell(
            "prague", "cubic", ip_version=version, hops=[Hop(down=way(50, "dualpi2"), up=way(20, "dualpi2"))],
            probes=[Probe(rtt_us=RTT), Probe(rtt_us=RTT, ecn="ect1", round_trip=True)],
            short_flows=ShortFlows(rtt_us=RTT, count=20), call=Call(rtt_us=RTT, ecn="ect1"),
        )  # fmt: skip
        folder = run(everything, tmp_path, f"over-{version}")
        probes, short, talks = (pl.read_csv(folder / f"{name}.csv") for name in ("probes", "short", "talks"))
        found[version] = {
            "both flows": goodput(folder, 0, 2, 9.9) + goodput(folder, 1, 2, 9.9),
            "L": probes.filter(probe=1)["delay_us"].median(), "short": short.height, "talk": talks["bytes"].sum(),
            "marks": pl.read_csv(folder / "flows.csv").filter(flow=0)["delivered_ce"].max(),
        }  # fmt: skip
    print(found)
    four, six = (found[version] for version in IP_VERSIONS)
    assert (six["short"], six["talk"]) == (four["short"], four["talk"])
    assert six["both flows"] == pytest.approx(four["both flows"], rel=0.1)
    assert six["L"] == pytest.approx(four["L"], abs=1000) and six["marks"] == pytest.approx(four["marks"], rel=0.3)


def test_flows_and_steps_happen_when_asked(tmp_path: Path) -> None:
    asked = cell(
        seconds=20,
        flows=[
            Flow(contender="cubic", rtt_us=RTT),
            Flow(contender="cubic", rtt_us=80_000, start_s=5, stop_s=9, up=True),
        ],
        hops=[
            Hop(),
            Hop(
                down=way(50, "fq_codel"),
                up=way(10, "fq_codel", 5000),
                schedule=[RateStep(at_s=10, rate_bps=20_000_000), RateStep(at_s=15, rate_bps=40_000_000)],
            ),
        ],
    )  # fmt: skip
    folder = run(asked, tmp_path)
    # 1448 of the 1514 bytes that the shaper counts are payload.
    for mbit, start, end in ((50, 2.5, 5), (20, 11, 15), (40, 16, 20)):
        assert goodput(folder, 0, start, end) == pytest.approx(mbit * 1448 / 1514, rel=0.07)
    assert 5 < goodput(folder, 1, 6, 9) < 10 * 1448 / 1514
    frame = pl.read_csv(folder / "flows.csv")
    rows = frame.filter(pl.col("flow") == 1)
    assert (rows["t_s"].min(), rows["t_s"].max()) == (5.05, 9.0)
    assert frame.filter(pl.col("flow") == 0, pl.col("min_rtt_us") > 0)["min_rtt_us"].min() == pytest.approx(
        25_000, 0.01
    )
    assert rows["min_rtt_us"].max() == pytest.approx(85_000, rel=0.01)
    queues = [json.loads(line) for line in (folder / "queues.jsonl").read_text().splitlines()]
    assert {(line["hop"], line["dev"]) for line in queues} == {(0, "lan"), (0, "wan"), (1, "lan"), (1, "wan")}
    assert {queues[0]["t"], queues[-1]["t"]} == {0, 20}
    last = next(q for q in queues[-2]["qdiscs"] if q["kind"] == "fq_codel")
    assert (queues[-2]["hop"], queues[-2]["dev"]) == (1, "lan") and last["bytes"] > 60e6


def test_a_long_command_of_a_step_is_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hop = Hop(down=way(50, "fq_codel"), schedule=[RateStep(at_s=1, rate_bps=10_000_000)])
    asked = cell("cubic", hops=[hop], seconds=3)
    script = simulated.script.script(asked, 1).replace(" htb rate", f"{1000 * ' '}htb rate")
    assert max(map(len, script.splitlines())) > 1000
    monkeypatch.setattr(simulated.script, "script", lambda *_, **__: script)
    assert goodput(run(asked, tmp_path), 0, 1.5, 3) == pytest.approx(10 * 1448 / 1514, rel=0.07)


def test_probes_meet_half_the_rtt_and_the_queue(tmp_path: Path) -> None:
    folder = run(cell("cubic-noecn", probes=[Probe(rtt_us=RTT), Probe(rtt_us=RTT, ecn="ect1")]), tmp_path)
    probes = pl.read_csv(folder / "probes.csv")
    first = probes.row(0, named=True)
    assert first["delay_us"] == pytest.approx(RTT / 2, abs=2)  # sent before there is a queue
    classic, scalable = (probes.filter(pl.col("probe") == n)["delay_us"].drop_nulls() for n in (0, 1))
    assert len(classic) > 950 and len(scalable) == 1000
    assert classic.median() > 20_000 and scalable.median() < 12_000  # the C queue fills, the L queue does not


def test_a_call_fills_the_queue_that_its_codepoint_names(tmp_path: Path) -> None:
    """2 Mbit/s each way on an idle line of 5; the round trips beside it in the L queue, there and back."""
    hop = Hop(down=way(5, "dualpi2"), up=way(5, "dualpi2"))
    probes = [Probe(rtt_us=RTT, ecn="ect1", round_trip=True)]
    folder = run(cell(hops=[hop], call=Call(bitrate_bps=2_000_000, ecn="ect1", rtt_us=RTT), probes=probes), tmp_path)
    talks, trips = pl.read_csv(folder / "talks.csv"), pl.read_csv(folder / "probes.csv")["delay_us"]
    for n in (0, 1):
        sent = talks.filter(pl.col("talk") == n)
        assert sent["bytes"].sum() * 8 / 10 == pytest.approx(2e6, rel=0.05) and not sent["delay_us"].null_count()
        # A frame's packets leave at once: the shaper lets one or two pass, each further one waits 2 ms more.
        assert sent["delay_us"].min() == pytest.approx(10_000, abs=10) and sent["delay_us"].quantile(0.9) > 17_000
    assert len(trips) == 1000 and not trips.null_count()
    assert trips.min() == pytest.approx(RTT, abs=5) and 25_000 < trips.quantile(0.9) < 60_000
    last = [json.loads(line) for line in (folder / "queues.jsonl").read_text().splitlines()][-2:]
    for dev in last:
        dualpi2 = next(q for q in dev["qdiscs"] if q["kind"] == "dualpi2")
        assert dualpi2["pkts-in-l"] > 2000 and dualpi2["pkts-in-c"] < 100


def test_a_recorded_call_arrives_whole_and_only_its_long_packets_are_in_l(tmp_path: Path) -> None:
    hop = Hop(down=way(20, "dualpi2"), up=way(20, "dualpi2"))
    call = RecordedCall(ecn="ect1", ecn_above_bytes=1024, rtt_us=RTT)
    asked = cell(hops=[hop], call=call)
    folder = run(asked, tmp_path)
    talks = pl.read_csv(folder / "talks.csv")
    assert not talks["delay_us"].null_count()
    planned = [line.split() for line in plan.plan(asked, 1).splitlines() if line.startswith("burst")]
    assert talks.height == sum(int(packets) for _, _, packets, _ in planned)
    assert talks["bytes"].sum() == sum(int(packets) * int(size) for _, _, packets, size in planned)
    last = [json.loads(line) for line in (folder / "queues.jsonl").read_text().splitlines()][-2:]
    for dev in last:
        sent = talks.filter(pl.col("talk") == ("lan", "wan").index(dev["dev"]))["bytes"]
        counted = next(q for q in dev["qdiscs"] if q["kind"] == "dualpi2")
        in_l, in_c = (sent > 996).sum(), (sent <= 996).sum()
        assert (counted["pkts-in-l"], counted["pkts-in-c"]) == pytest.approx((in_l, in_c), abs=10) and in_l > 200
    # A burst of up to 41 kB takes 16 ms at 20 Mbit/s.
    delays = talks.filter(pl.col("talk") == 0)["delay_us"]
    assert delays.min() == pytest.approx(RTT / 2, abs=20) and 16_000 < delays.max() < 40_000


def test_short_flows_complete(tmp_path: Path) -> None:
    folder = run(cell(short_flows=ShortFlows(rtt_us=RTT, count=30, mean_gap_s=0.1)), tmp_path)
    short = pl.read_csv(folder / "short.csv")
    assert len(short) == 30 and short["fct_s"].null_count() == 0
    assert short["fct_s"].min() > 2 * RTT / 1e6  # handshake, then request and data
    assert (short["bytes"] * 8e-6 / short["fct_s"]).max() < 50


def test_short_flows_that_remember_a_threshold_take_longer(tmp_path: Path) -> None:
    def median_s(remember: bool) -> float:
        short = ShortFlows(
            contender="cubic-noecn", rtt_us=RTT, count=60, mean_gap_s=0.1, remember_ssthresh=remember
        )  # fmt: skip
        folder = run(cell("cubic", short_flows=short), tmp_path, str(remember))
        return float(pl.read_csv(folder / "short.csv")["fct_s"].median())  # type: ignore[arg-type]

    # The one before was told to slow down by a queue that is not this one's.
    assert median_s(True) > 1.1 * median_s(False)


def test_marks_reach_the_sender_and_a_mangler_hides_them(tmp_path: Path) -> None:
    clean = pl.read_csv(run(cell("prague"), tmp_path, "clean") / "flows.csv")
    assert clean["delivered_ce"].max() > 100 and clean["retrans"].max() == 0
    hops = [Hop(mangle="ect1-to-not-ect"), Hop(down=way(50, "dualpi2"))]
    mangled = pl.read_csv(run(cell("prague", hops=hops), tmp_path, "mangled") / "flows.csv")
    assert mangled["delivered_ce"].max() == 0 and mangled["retrans"].max() > 0
    hops = [Hop(mangle="to-ect1", mangled_flows=[1]), Hop(down=way(50, "dualpi2"))]
    deaf, heard = (run(cell("cubic", name, hops=hops), tmp_path, name) for name in ("cubic-noecn", "cubic"))
    assert goodput(deaf, 1, 5, 10) > 10 * goodput(deaf, 0, 5, 10)
    # One that negotiated ECN hears L's marks: gaming does not pay, as sce-l4s-bakeoff found.
    assert goodput(heard, 1, 5, 10) < goodput(heard, 0, 5, 10) / 2


def test_a_tunnel_carries_the_marks_and_its_replay_window_drops(tmp_path: Path) -> None:
    def through(window: int) -> Path:
        hops = [Hop(down=way(50, "dualpi2"))]
        tunnelled = cell("prague", "cubic", hops=hops, tunnel="ipsec", replay_window=window)
        return run(tunnelled, tmp_path, f"window-{window}")

    off, narrow = through(0), through(32)
    last = pl.read_csv(off / "flows.csv").group_by("flow").last().sort("flow")
    assert last["delivered_ce"].min() > 10 and last["retrans"].max() == 0
    # In the 15 ms that CUBIC's packets queue more than 32 of Prague's overtake them: they come too late.
    assert pl.read_csv(narrow / "flows.csv").filter(pl.col("flow") == 1)["retrans"].max() > 50
    assert goodput(narrow, 1, 5, 10) < goodput(off, 1, 5, 10) / 2
    late = {folder: pl.read_csv(folder / "replay.csv")["late"][0] for folder in (off, narrow)}
    assert late[off] == 0 and late[narrow] > 50


@pytest.mark.parametrize(
    ("tunnel", "queues"), first(2, [("wireguard", 1), ("fou-auto", 2), ("ipsec", 1), ("openvpn", 1)])
)
def test_a_queue_cannot_tell_the_flows_inside_a_tunnel_apart(tunnel: str, queues: int, tmp_path: Path) -> None:
    """No hash of the inner flow leaks: fq_codel has one queue for a tunnel whose outer headers are one flow's."""
    hops = [Hop(), Hop(down=way(10, "fq_codel")), Hop()]
    folder = run(cell("prague", "cubic", hops=hops, tunnel=tunnel), tmp_path)
    assert active_queues(json.loads(line) for line in (folder / "queues.jsonl").read_text().splitlines()) == queues
    last = pl.read_csv(folder / "flows.csv").group_by("flow").last().sort("flow")
    # OpenVPN alone does not carry the ECN field.
    assert (last["delivered_ce"].min() > 10) == (tunnel != "openvpn")  # type: ignore[operator]
    assert goodput(folder, 0, 5, 10) + goodput(folder, 1, 5, 10) > 8


def test_iperf3_sees_what_our_endpoints_see(tmp_path: Path) -> None:
    asked = cell("prague", "cubic", qdisc="fq_codel flows 1", seconds=30)
    ours, theirs = run(asked, tmp_path, "bulk"), tmp_path / "iperf3"
    theirs.mkdir()
    simulated.run_cell(asked, theirs, seed=1, endpoints="iperf3")
    assert goodput(theirs, 0, 10, 28) == pytest.approx(goodput(ours, 0, 10, 28), rel=0.05)


def guests() -> list[int]:
    return [p.pid for p in psutil.process_iter(["name"]) if p.info["name"] in ("linux", "uml-userspace")]


def test_a_hung_guest_is_killed_and_says_what_it_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        simulated.script, "script", lambda *_, **__: "#!/bin/sh\necho stuck here >&2\nwhile :; do :; done\n"
    )
    before, start = set(guests()), time.monotonic()
    with refusal(SimulationError, "no-answer", "cell test, seed 1: ", " 8 s: ", "stuck here", one_line=False):
        simulated.run_cell(cell("cubic"), tmp_path, seed=1, timeout_s=8)
    assert time.monotonic() - start < 60
    assert not {pid for pid in set(guests()) - before if tmp_path.name in cwd(pid)}


def cwd(pid: int) -> str:
    try:
        return psutil.Process(pid).cwd()
    except psutil.Error:
        return ""


def test_a_program_that_spins_at_the_end_of_a_stream_does_not_stop_time(tmp_path: Path) -> None:
    job = tmp_path / "run"
    job.write_text("#!/bin/sh\nwhile :; do read line; done </dev/null & spinning=$!\nsleep 0.005\nkill $spinning\n")
    job.chmod(0o755)
    simulation.run(ensure_kernel(), ensure_guest(), tmp_path, timeout=60)


def test_a_crashed_guest_shows_the_end_of_its_console(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # No memory is left: the kernel panics.
    crash = "#!/bin/sh\necho 1000000 >/proc/sys/vm/min_free_kbytes\nls\n"
    monkeypatch.setattr(simulated.script, "script", lambda *_, **__: crash)
    words = r"(?s)cell test, seed 1: .*the machine ran out of memory: .*its console: .*\[<[0-9a-f]+>\]"
    with pytest.raises(SimulationError, match=words):
        simulated.run_cell(cell("cubic"), tmp_path, seed=1, timeout_s=20)


def test_another_configuration_than_asked_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked, made = cell("cubic", qdisc="dualpi2", seconds=1), cell("cubic", qdisc="fq_codel", seconds=1)
    script = simulated.script.script(made, 1)
    monkeypatch.setattr(simulated.script, "script", lambda *_, **__: script)
    with refusal(SimulationError, "other-setting", " dualpi2 10: ", "fq_codel"):
        simulated.run_cell(asked, tmp_path, seed=1)


def test_what_cannot_run_here_says_so(tmp_path: Path) -> None:
    with refusal(SimulationError, "unsupported", "a second call"):
        simulated.run_cell(cell("cubic", needs="a second call"), tmp_path, seed=1)
    assert not list(tmp_path.iterdir())


def test_packet_slots_send_at_their_times_and_at_no_other(tmp_path: Path) -> None:
    times = [7, 7, 20, 31, 31, 31, 50]
    (tmp_path / "trace").write_text(delivery_trace.text(times))
    link = DeliveryTrace.of_file(tmp_path / "trace")
    flow = Flow(contender="udp", rate_bps=2 * link.rate_bps, rtt_us=RTT)
    hop = Hop(down=Direction(rate_bps=link.rate_bps, qdisc="pfifo limit 20"), slots=link)
    asked = Cell(name="slots", flows=(flow,), hops=(hop,), seconds=2, per_packet=True)
    packets = pl.read_csv(run(asked, tmp_path) / "packets.csv")
    came = packets.drop_nulls("delay_us")
    out_ms = (came["t_s"] * 1e3 + came["delay_us"] / 1e3).sort()
    # The delay is told with the half of the RTT before the link; what carries a packet to the end takes no time.
    due = [RTT / 2e3 + lap * 50 + at for lap in range(40) for at in times]
    due = due[2:]  # the first slots pass before the first packet comes
    assert out_ms.len() == len(due) and (out_ms - pl.Series(due)).abs().max() < 0.001
    assert packets["delay_us"].null_count() == pytest.approx(out_ms.len(), rel=0.1)


def test_single_packets_tell_what_the_receiver_got_and_what_the_queue_dropped(tmp_path: Path) -> None:
    asked = cell(qdisc="pfifo limit 40", seconds=5, per_packet=True, flows=[
        Flow(contender="cubic-noecn", rtt_us=RTT), Flow(contender="udp-ect1", rate_bps=20_000_000, rtt_us=RTT),
    ])  # fmt: skip
    folder = run(asked, tmp_path)
    packets, flows = pl.read_csv(folder / "packets.csv"), pl.read_csv(folder / "flows.csv")
    udp = packets.filter(pl.col("flow") == 1)
    sent_s = 5 - udp["t_s"][0]
    assert udp["bytes"].unique().to_list() == [1500] and udp.height == pytest.approx(20e6 * sent_s / 8 / 1514, abs=20)
    assert {row.count(",") for row in (folder / "flows.csv").read_text().splitlines()} == {len(FLOWS) - 1}
    got = flows.filter(pl.col("flow") == 1)["received_bytes"][-1]
    assert got == pytest.approx(udp.drop_nulls("delay_us").height * 1472, rel=0.01)
    last = [json.loads(line)["qdiscs"] for line in (folder / "queues.jsonl").read_text().splitlines() if "lan" in line]
    dropped = next(q["drops"] for q in last[-1] if q["kind"] == "pfifo")
    # Without those that were on their way when the flows ended.
    early = packets.filter(pl.col("t_s") < 4.9)
    assert early["delay_us"].null_count() == pytest.approx(dropped, rel=0.1) and dropped > 50
    queue_ms = 41 * 1514 * 8 / 50e3
    assert early["delay_us"].max() / 1e3 == pytest.approx(RTT / 2e3 + queue_ms, abs=0.3)


@pytest.mark.parametrize("contender", ["quic-cubic", "quic-bbr2", "quic-bbr3", "quic-prague", "udp-prague"])
def test_a_program_is_a_contender_and_repeats_with_its_seed(contender: str, tmp_path: Path) -> None:
    needs(contender)
    flow = Flow(contender=contender, rtt_us=RTT, stop_s=4)
    hop = Hop(down=way(10, "pfifo limit 100"))
    # Longer than the receiver would wait for a sender that has stopped.
    asked = Cell(name="quic", flows=(flow,), hops=(hop,), seconds=36, per_packet=True)
    one = hashes(alone := run(asked, tmp_path, "alone"))
    with ThreadPoolExecutor() as pool:
        second = pool.submit(run, asked, tmp_path, "second")
        other = pool.submit(run, asked, tmp_path, "other", 2)
    assert one == hashes(second.result()) and one["packets.csv"] != hashes(other.result())["packets.csv"]
    # Between two probes, BBRv3 leaves a tenth of the bandwidth free; UDP Prague has no slow start.
    assert goodput(alone, 0, 1, 4) == pytest.approx(10 * 1472 / 1514, rel=0.06 if contender == "quic-cubic" else 0.13)


def test_bbrv3_over_quic_keeps_its_losses_below_the_threshold_of_its_draft(tmp_path: Path) -> None:
    """LossThresh of draft-ietf-ccwg-bbr-06 is 2 % of a round; quinn's BBR has no such limit and loses over 20 %."""
    needs("quic-bbr3")
    hop = Hop(down=way(10, "pfifo limit 17"))  # one bandwidth-delay product

    def lost(contender: str) -> float:
        asked = cell(contender, "cubic-noecn", hops=[hop], seconds=12, per_packet=True)
        packets = pl.read_csv(run(asked, tmp_path, contender) / "packets.csv")
        late = packets.filter(pl.col("flow") == 0, pl.col("t_s").is_between(4, 11))["delay_us"]
        return late.null_count() / len(late)

    assert lost("quic-bbr3") < 0.02 < 0.2 < lost("quic-bbr")


def udp_prague_window(p: float, ratio: float) -> float:
    """Packets that UDP Prague keeps in flight where each is marked with probability `p`.

    `ratio` r is RTT over virtual RTT. A reduction by alpha/2 comes at the first mark after a virtual RTT, so every
    1/r + 1/m round trips, m = pW; growth is (1 - p) r² packets per round trip: m² = 2 (1 - p) r² (m / r + 1).
    """
    growth = 2 * (1 - p) * ratio**2
    marks = (growth / ratio + sqrt((growth / ratio) ** 2 + 4 * growth)) / 2
    # iperf counts one packet too many as in flight (its first sequence number is 1); windows are whole packets.
    return marks / p - 1.5


def window_where_marked(contender: str, percent: int, packet: int, tmp_path: Path) -> float:
    """Return the packets (IP bytes) that it keeps in flight where each is marked with that probability."""
    hop = dumbbell.bottleneck(dumbbell.LINK_MBPS, "pfifo limit 1000")
    assert hop.down
    down = hop.down.model_copy(update={"path": Impairment(loss_percent=percent, marks=True)})
    hops = [hop.model_copy(update={"down": down})]
    folder = run(cell(contender, hops=hops, seconds=25, per_packet=True), tmp_path)
    packets = pl.read_csv(folder / "packets.csv").filter(pl.col("t_s").is_between(5, 25))
    return packets["bytes"].sum() / packet / 20 * RTT / 1e6


@pytest.mark.parametrize("percent", [20, pytest.param(5, marks=pytest.mark.nightly)])
def test_udp_prague_keeps_the_window_of_its_law(percent: int, tmp_path: Path) -> None:
    needs("udp-prague")
    window = window_where_marked("udp-prague", percent, 1500, tmp_path)
    assert window == pytest.approx(udp_prague_window(percent / 100, RTT / 25_000), rel=0.12)


@pytest.mark.parametrize("percent", [20, *(pytest.param(it, marks=pytest.mark.nightly) for it in (2, 5))])
def test_prague_over_quic_keeps_the_window_of_its_law(percent: int, tmp_path: Path) -> None:
    """The law of TCP Prague (hardware/kernel/README.md), whose increase is 1500 bytes; a packet of noq has 1480."""
    needs("quic-prague")
    window = window_where_marked("quic-prague", percent, 1500, tmp_path)
    assert window == pytest.approx(law(percent / 100, RTT / 25_000), rel=0.12)


def test_prague_over_quic_shares_equally_with_tcp_prague_and_sends_ect1(tmp_path: Path) -> None:
    needs("quic-prague")
    hop = dumbbell.bottleneck(50, "dualpi2")
    folder = run(cell("quic-prague", "prague", hops=[hop], seconds=18, per_packet=True), tmp_path, pcap=True)
    quic, tcp = (goodput(folder, n, 8, 18) for n in range(2))
    assert quic / tcp == pytest.approx(1, abs=0.1)
    packets = pcapng.read(folder / simulated.CAPTURES[1]).packets
    data, acks = (packets.filter(pl.col(port) == ports.BULK) for port in ("dport", "sport"))
    assert len(data) > 10_000 and set(data["ecn"]) == set(acks["ecn"]) == {1}


def test_ledbat_plus_plus_keeps_the_queue_at_its_target_and_yields_to_cubic(tmp_path: Path) -> None:
    """Its target is 60 ms of queue; the buffer has 1.2 s. It repeats with its seed."""
    needs("quic-ledbatpp")
    hop = Hop(down=way(10, "pfifo limit 1000"))
    alone, again = (
        run(cell("quic-ledbatpp", hops=[hop], seconds=30, per_packet=True), tmp_path, name) for name in ("one", "other")
    )
    assert hashes(alone)["packets.csv"] == hashes(again)["packets.csv"]
    late = pl.read_csv(alone / "packets.csv").filter(pl.col("t_s").is_between(10, 29))["delay_us"] - RTT / 2
    assert 20_000 < late.median() < 65_000 and late.quantile(0.99) < 90_000 and late.null_count() == 0
    assert goodput(alone, 0, 10, 30) > 0.75 * 10
    shared = cell("quic-ledbatpp", "cubic-noecn", hops=[hop], seconds=30, per_packet=True)
    folder = run(shared, tmp_path, "shared")
    ours, cubics = (goodput(folder, n, 10, 30) for n in range(2))
    assert ours < 0.1 * cubics and cubics > 8


@pytest.mark.nightly
@pytest.mark.parametrize(("rtt_us", "share"), [(20_000, 0.85), (40_000, 1)])
def test_udp_prague_shares_with_tcp_prague_by_their_laws(rtt_us: int, share: float, tmp_path: Path) -> None:
    """Sojourn's Prague reduces on entry into CWR, up to 20 % later where the RTT is below the virtual RTT of 25 ms."""
    needs("udp-prague")
    folder = run(cell("udp-prague", "prague", seconds=25, rtt_us=rtt_us, per_packet=True), tmp_path, pcap=True)
    udp, tcp = (goodput(folder, n, 10, 25) for n in range(2))
    assert udp / tcp == pytest.approx(share, rel=0.12)
    sent = pcapng.read(folder / simulated.CAPTURES[1]).packets.filter(pl.col("dport") == ports.BULK)
    assert len(sent) > 10_000 and set(sent["ecn"]) == {1}


def test_media_takes_what_its_queue_gives_it_and_repeats_with_its_seed(tmp_path: Path) -> None:
    needs("webrtc")
    flows = [Flow(contender=name, rtt_us=RTT) for name in ("webrtc", "scream")]
    asked = Cell(name="media", flows=flows, hops=(Hop(down=way(2, "fq_codel")),), seconds=20, per_packet=True)
    one, other = (run(asked, tmp_path, name) for name in ("one", "other"))
    assert hashes(one) == hashes(other)
    # Of its half of the link each may leave a half; SCReAM's queue is as CoDel wants it.
    assert all(0.5 < goodput(one, n, 10, 20) < 1.05 for n in range(2))
    scream = pl.read_csv(one / "packets.csv").filter(pl.col("t_s") > 10, pl.col("flow") == 1)
    assert scream["delay_us"].quantile(0.95) < 70_000


def test_scream_v2_answers_marks_and_repeats_with_its_seed(tmp_path: Path) -> None:
    """Frames paced at 1.5 times the target build the 1 ms that dualpi2 allows at about three quarters of the link."""
    needs("scream2")
    asked = cell("scream2", hops=[Hop(down=way(20, "dualpi2"))], seconds=8, per_packet=True)
    one, other = run(asked, tmp_path, "one", pcap=True), run(asked, tmp_path, "other")
    assert hashes(one)["packets.csv"] == hashes(other)["packets.csv"]
    assert 13 < goodput(one, 0, 3, 8) < 17
    media = pcapng.read(one / simulated.CAPTURES[1]).packets.filter(pl.col("dport") == ports.BULK)
    assert len(media) > 5_000 and set(media["ecn"]) == {1}
    late = pl.read_csv(one / "packets.csv").filter(pl.col("t_s").is_between(3, 7))
    assert late["delay_us"].null_count() == 0 and late["delay_us"].max() < RTT / 2 + 2_000


def test_a_segment_that_the_window_lets_go_alone_waits_for_the_next_ack_as_in_2020(tmp_path: Path) -> None:
    """Where the window has grown by one an ACK of two lets three go; in 2020 the third waited, to go as one of four."""

    def sent_at_once(tso_2020: bool) -> dict[int, int]:
        hop = Hop(down=way(10, "fq_codel"))  # an ACK each 2.4 ms
        asked = cell("reno", hops=[hop], seconds=15, per_packet=True, tso_2020=tso_2020)
        packets = pl.read_csv(run(asked, tmp_path, f"tso-{tso_2020}") / "packets.csv").filter(pl.col("t_s") > 3)
        return dict(packets.group_by("t_s").len("packets").group_by("packets").len().iter_rows())

    now, then = sent_at_once(False), sent_at_once(True)
    assert now[3] > 5 * now.get(4, 0) and then[4] > then[3], (now, then)
    assert now[2] > 1000 and then[2] > 1000


def test_a_program_that_ends_early_fails_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shell = tmp_path / "program"
    shell.write_text("#!/bin/sh\nexit 3\n")
    shell.chmod(0o755)
    odd = Program("quic-cubic", "{program}", "{program}", lambda: shell)
    monkeypatch.setitem(cast(dict[str, Program], PROGRAMS), "quic-cubic", odd)
    flow = Flow(contender="quic-cubic", rtt_us=RTT)
    asked = Cell(name="odd", flows=(flow,), hops=(Hop(down=way(10, "pfifo")),), seconds=2, per_packet=True)
    with refusal(SimulationError, "failed", " flow 0 "):
        run(asked, tmp_path)
