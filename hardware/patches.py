# SPDX-License-Identifier: Apache-2.0
"""Changes to the kernel source, found by what the code says and never by line number."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from hardware.kconfig import FRAGMENTS
from hardware.machine.cache import BuildError


class PatchError(BuildError):
    """The source does not look as an edit expects."""


@dataclass(frozen=True)
class Edit:
    """One place in one file: `pattern` must match exactly once and becomes `replacement` (groups: \\1).

    `done` matches a source in which the change is already there (taken upstream); such a file is left alone.
    """

    path: str
    why: str
    pattern: str
    replacement: str
    done: str | None = None

    def apply(self, text: str) -> str:
        """The changed text. Raises PatchError when the place is missing or ambiguous."""
        changed, count = re.subn(self.pattern, self.replacement, text)
        if count == 1:
            return changed
        if count == 0 and self.done and len(re.findall(self.done, text)) == 1:
            return text
        raise PatchError(
            f"{self.path}: {self.why}: expected the place exactly once, found it {count} times; "
            "this kernel source needs another edit in hardware/patches.py"
        )


def _addition(name: str) -> str:
    """The text of a file that goes into the kernel source, as a replacement for an Edit."""
    return (FRAGMENTS / name).read_text().replace("\\", r"\\") + "\n"


_NEIGHBOURS = {
    "net/ipv4": (r"config TCP_CONG_BBR\n", r"obj-\$\(CONFIG_TCP_CONG_DCTCP\) \+= tcp_dctcp\.o\n"),
    "net/sched": (r"config NET_SCH_CODEL\n", r"obj-\$\(CONFIG_NET_SCH_CODEL\)\s"),
}
"""By folder: the lines of its Kconfig and of its Makefile that options of ours come before."""


def _offer(what: str, folder: str, fragment: str, option: str, objects: str) -> tuple[Edit, Edit]:
    """The edits that offer Kconfig.`fragment` in a folder of the kernel source and build `objects` by its option."""
    before_option, before_object = _NEIGHBOURS[folder]
    line = f"obj-$(CONFIG_{option}) += {objects}\n"
    return (
        Edit(
            f"{folder}/Kconfig", f"offer {what}", rf"(?m)^(?={before_option})", _addition(f"Kconfig.{fragment}"),
            done=rf"(?m)^config {option}$",
        ),
        Edit(
            f"{folder}/Makefile", f"build {what}", rf"(?m)^(?={before_object})", line, done=rf"(?m)^{re.escape(line)}",
        ),
    )  # fmt: skip


EDITS = (
    Edit(
        "net/ipv4/tcp_output.c",
        "send data of an ECT(1) congestion control as ECT(1)",
        r"(if \(!tcp_accecn_ace_fail_recv\(tp\) &&\s+!tcp_accecn_ace_fail_send\(tp\)\)\s+)"
        r"INET_ECN_xmit\(sk\);",
        r"\1INET_ECN_xmit_ect_1_negotiation(sk);",
        done=r"!tcp_accecn_ace_fail_send\(tp\)\)\s+INET_ECN_xmit_ect_1_negotiation\(sk\);",
    ),
    Edit(
        "net/ipv4/tcp_cong.c",
        "keep ECT(1) when the congestion control starts",
        r"(if \(tcp_ca_needs_ecn\(sk\)\)\s+)INET_ECN_xmit\(sk\);",
        r"\1INET_ECN_xmit_ect_1_negotiation(sk);",
        done=r"if \(tcp_ca_needs_ecn\(sk\)\)\s+INET_ECN_xmit_ect_1_negotiation\(sk\);",
    ),
    Edit(
        "net/ipv4/tcp_output.c",
        "offer TSO as it was in 2020",
        r"(?=static bool tcp_tso_should_defer\(struct sock \*sk, struct sk_buff \*skb,)",
        "/* A segment that the window lets go alone waits for the next ACK (until Linux 6.17), and segments left over\n"
        " * from a larger packet are not made up to one of two (until 6.9).\n */\n"
        "static bool tso_2020;\nmodule_param(tso_2020, bool, 0644);\n\n",
    ),
    Edit(
        "net/ipv4/tcp_output.c",
        "wait for ACKs that are more than 1 ms away",
        r"threshold = min\(srtt_in_ns >> 1, NSEC_PER_MSEC\);",
        "threshold = tso_2020 ? srtt_in_ns >> 1 : min(srtt_in_ns >> 1, NSEC_PER_MSEC);",
    ),
    Edit(
        "net/ipv4/tcp_output.c",
        "leave packets as large as they are",
        r"if \(missing_bytes > 0\)(\s+tcp_grow_skb\()",
        r"if (missing_bytes > 0 && !tso_2020)\1",
    ),
    *_offer("TCP Prague", "net/ipv4", "prague", "TCP_CONG_PRAGUE", "tcp_prague.o tcp_prague_2020.o"),
    *_offer("LEDBAT", "net/ipv4", "ledbat", "TCP_CONG_LEDBAT", "tcp_ledbat.o"),
    *_offer("SCE's congestion controls", "net/ipv4", "sce", "TCP_CONG_SCE", "tcp_sce.o"),
    *_offer("packet slots", "net/sched", "slots", "NET_SCH_SLOTS", "sch_slots.o"),
    *_offer("a sparse and a bulk queue", "net/sched", "cnq", "NET_SCH_CNQ", "two_queues.o sch_cnq.o sch_lfq.o"),
    *_offer("Delay Time Control", "net/sched", "deltic", "NET_SCH_DELTIC", "sch_deltic.o"),
    Edit(
        "net/ipv4/tcp_output.c",
        "echo SCE in the former NS flag",
        r"(\t\tif \(tp->ecn_flags & TCP_ECN_DEMAND_CWR\)\n\t\t\tth->ece = 1;\n)",
        r"\1\t\tif (tcp_speaks_sce(sk))\n\t\t\tth->ae = tcp_sce_echo(sk);\n",
    ),
    Edit(
        "net/ipv4/tcp_input.c",
        "hear SCE's echo where classic ECN was negotiated",
        r"(\ttcp_ecn_accept_cwr\(sk, skb\);\n)(\n\t/\* We passed data and got it acked)",
        r"\1\tif (tcp_ecn_mode_rfc3168(tp) && tcp_speaks_sce(sk))\n"
        r"\t\ttcp_sce_heard(sk, tcp_hdr(skb)->ae);\n\2",
    ),
    Edit(
        "net/ipv4/tcp_input.c",
        "acknowledge what came before and then at once where SCE begins and ends",
        r"(\tif \(tcp_ecn_disabled\(tp\)\)\n\t\treturn;\n\n)(\tswitch \(TCP_SKB_CB\(skb\)->ip_dsfield & )",
        r"\1\tif (tcp_ecn_mode_rfc3168(tp) && tcp_speaks_sce(sk) &&\n"
        r"\t    tcp_sce_arrived(sk, TCP_SKB_CB(skb)->ip_dsfield & INET_ECN_MASK))\n"
        r"\t\ttcp_enter_quickack_mode(sk, 1);\n\n\2",
    ),
    Edit(
        "include/net/tcp_ecn.h",
        "name who speaks SCE",
        r"#include <net/inet_ecn\.h>\n",
        "#include <net/inet_ecn.h>\n#include <net/tcp_sce.h>\n",
    ),
    Edit(
        "net/sched/sch_cake.c",
        "mark Some Congestion Experienced",
        r"(?m)^(\tWRITE_ONCE\(b->tin_ecn_mark, .*\n)",
        r"\1\tif (!flow->cvars.ecn_marked &&\n"
        r"\t    sce_mark(skb, q->config->sce, ktime_to_ns(ktime_sub(now, cobalt_get_enqueue_time(skb))),\n"
        r"\t\t     b->cparams.target))\n"
        r"\t\tWRITE_ONCE(q->sce_marked, q->sce_marked + 1);\n",
    ),
    Edit(
        "net/sched/sch_cake.c",
        "name what marks it",
        r"(#include <net/pkt_sched\.h>\n)",
        '\\1#include "sce_ramp.h"\\n',
    ),
    Edit(
        "net/sched/sch_cake.c",
        "keep where SCE's ramp begins",
        r"(struct cake_sched_config \{\n)",
        r"\1\tu32\t\tsce;\n",
    ),
    Edit(
        "net/sched/sch_cake.c",
        "count what is marked SCE",
        r"(struct cake_sched_data \{\n)",
        r"\1\tu32\t\tsce_marked;\n",
    ),
    Edit(
        "net/sched/sch_cake.c",
        "know the type of SCE's parameter",
        r"(policy cake_policy\[)TCA_CAKE_MAX( \+ 1\] = \{\n)",
        r"\1TCA_CAKE_SCE\2\t[TCA_CAKE_SCE]\t\t = NLA_POLICY_MAX(NLA_U32, SCE_SINGLE),\n",
    ),
    Edit(
        "net/sched/sch_cake.c",
        "take SCE's parameter among cake's",
        r"(\tstruct nlattr \*tb\[)TCA_CAKE_MAX( \+ 1\];\n\tu16 rate_flags = q->rate_flags;\n(?:.*\n)*?)"
        r"(\terr = nla_parse_nested_deprecated\(tb, )TCA_CAKE_MAX(, opt, cake_policy,\n\s+extack\);\n)"
        r"(\tif \(err < 0\)\n\t\treturn err;\n)",
        r"\1TCA_CAKE_SCE\2\3TCA_CAKE_SCE\4\5\n"
        r"\tif (tb[TCA_CAKE_SCE])\n\t\tWRITE_ONCE(q->sce, nla_get_u32(tb[TCA_CAKE_SCE]));\n",
    ),
    Edit(
        "net/sched/sch_cake.c",
        "tell SCE's parameter where there is one",
        r"(\tif \(nla_put_u32\(skb, TCA_CAKE_FWMARK, READ_ONCE\(q->fwmark_mask\)\)\)\n)",
        r"\tif (q->sce && nla_put_u32(skb, TCA_CAKE_SCE, READ_ONCE(q->sce)))\n\t\tgoto nla_put_failure;\n\n\1",
    ),
    Edit(
        "net/sched/sch_cake.c",
        "tell how many are marked SCE",
        r"(\tPUT_STAT_U32\(ACTIVE_QUEUES, READ_ONCE\(q->active_queues\)\);\n)",
        r"\1\tif (q->config->sce)\n\t\tPUT_STAT_U32(SCE_MARKED, READ_ONCE(q->sce_marked));\n",
    ),
    Edit(
        "net/core/skbuff.c",
        "take the flow's hash away from a packet that enters another namespace: no wire carries it, and the hash of "
        "what a tunnel hides would tell its flows apart",
        r"(\tskb->mark = 0;\n\tskb_clear_tstamp\(skb\);\n)(\})",
        r"\1\tskb_clear_hash(skb);\n\2",
    ),
    Edit(
        "arch/um/Kconfig",
        "tick 250 times a second as distribution kernels do (at 100, PIE would round its 15 ms up to 20)",
        r"(config HZ\n\tint\n\tdefault )100\n",
        r"\g<1>250\n",
        done=r"config HZ\n\tint\n\tdefault 250\n",
    ),
    Edit(
        "arch/um/kernel/trap.c",
        "fault in the pages behind a write fault too",
        r"(/\*\n \* Note this is constrained to return 0)",
        _addition("fault_ahead.c") + r"\1",
    ),
    Edit(
        "arch/um/kernel/trap.c",
        "use it where a fault was handled",
        r"(\t\} while \(!pte_present\(\*pte\)\);\n)(\terr = 0;\n)",
        r"\1\tif (is_user && is_write)\n\t\tfault_ahead(vma, address);\n\2",
    ),
    Edit(
        "arch/um/kernel/time.c",
        "let a reading of the clock cost 16 ns of simulated time (at 256, programs that read it often move it)",
        r"time_travel_update_time_rel\(TIMER_MULTIPLIER\);",
        "time_travel_update_time_rel(16);",
    ),
    Edit(
        "arch/um/kernel/skas/syscall.c",
        "let a refused system call cost 50 ns of simulated time (at 1 us, event loops that read until EAGAIN move it)",
        r"um_udelay\(1\);",
        "um_ndelay(50);",
    ),
    Edit(
        "arch/um/kernel/skas/syscall.c",
        "and one that gives nothing (else a thread that reads at the end of a stream, or yields, until another has "
        "seen it stops the time in which that would be)",
        r"if \(IS_ERR_VALUE\(ret\) &&",
        "if ((IS_ERR_VALUE(ret) ||\n"
        "\t\t     (ret == 0 && (syscall == __NR_read || syscall == __NR_recvfrom ||\n"
        "\t\t\t\t   syscall == __NR_recvmsg || syscall == __NR_sched_yield))) &&",
    ),
    Edit(
        "arch/um/kernel/skas/syscall.c",
        "let a poll that does not wait cost 1 us (else a loop that polls until a time is reached is long)",
        r"(\t\tPT_REGS_SET_SYSCALL_RETURN\(regs, ret\);\n)",
        r"\1\n"
        r"\t\tif (time_travel_mode == TT_MODE_INFCPU &&\n"
        r"\t\t    (((syscall == __NR_epoll_wait || syscall == __NR_epoll_pwait) &&\n"
        r"\t\t      (int)UPT_SYSCALL_ARG4(&regs->regs) == 0) ||\n"
        r"\t\t     (syscall == __NR_poll && (int)UPT_SYSCALL_ARG3(&regs->regs) == 0)))\n"
        r"\t\t\tum_ndelay(1000);\n",
    ),
    Edit(
        "fs/hostfs/hostfs_kern.c",
        "keep what was read of a read-only root",
        r"(?=static const struct super_operations hostfs_sbops = \{\n)",
        _addition("keep_root.c"),
    ),
    Edit(
        "fs/hostfs/hostfs_kern.c",
        "use it",
        r"(\.drop_inode\t= )inode_just_drop,",
        r"\1hostfs_drop_inode,",
    ),
    Edit(
        "fs/hostfs/hostfs_kern.c",
        "do not ask the host whether a read-only root may be read, at each part of each path: opening tells",
        r"(\tint r = 0, w = 0, x = 0, err;\n)(\n\tif \(desired & MAY_NOT_BLOCK\))",
        r"\1\n\tif (sb_rdonly(ino->i_sb))\n\t\treturn generic_permission(&nop_mnt_idmap, ino, desired);\2",
    ),
    Edit(
        "arch/um/kernel/skas/syscall.c",
        "make many system calls by one",
        r"(?=void handle_syscall\(struct uml_pt_regs \*r\)\n)",
        _addition("many_calls.c"),
    ),
    Edit(
        "arch/um/kernel/skas/syscall.c",
        "give them a number",
        r"(?=\tif \(syscall >= 0 && syscall < __NR_syscalls\) \{\n)",
        "\tif (syscall == UM_MANY_CALLS)\n\t\tPT_REGS_SET_SYSCALL_RETURN(regs,\n"
        "\t\t\tum_many_calls((void __user *)UPT_SYSCALL_ARG1(r), UPT_SYSCALL_ARG2(r)));\n\n",
    ),
    Edit(
        "arch/um/Makefile",
        "call functions directly, not through a register: without modules all of them lie in the lowest 2 GB",
        r"-mcmodel=large",
        "-mcmodel=small",
    ),
    Edit(
        "arch/x86/Makefile.um",
        "let the compiler expand small copies, as it does for other architectures",
        r"(KBUILD_CFLAGS \+=) -fno-builtin -m64",
        r"\1 -m64",
    ),
    Edit(
        "arch/um/include/asm/irqflags.h",
        "switch interrupts on and off without a call",
        r"(?s)int um_get_signals\(void\);.*?(?=#define ARCH_IRQ_DISABLED)",
        _addition("interrupt_flags.h"),
    ),
    Edit(
        "arch/um/os-Linux/signal.c",
        "show it which signals wait",
        r"static (__thread unsigned int signals_pending;)",
        r"\1",
    ),
    Edit(
        "arch/um/kernel/time.c",
        "show it which events wait",
        r"static (LIST_HEAD\(time_travel_irqs\);)",
        r"\1",
    ),
    Edit(
        "arch/um/os-Linux/signal.c",
        "clear no registers for an interrupt that has none",
        r"\tstruct uml_pt_regs regs;\n(\n\tif \(mc != NULL\)\n\t\tget_regs_from_mc\(&regs, mc\);\n)"
        r"\telse\n\t\tmemset\(&regs, 0, sizeof\(regs\)\);\n\ttimer_handler\(SIGALRM, NULL, &regs\);",
        r"\tstatic struct uml_pt_regs none;\n\tstruct uml_pt_regs regs;\n\1"
        r"\ttimer_handler(SIGALRM, NULL, mc ? &regs : &none);",
    ),
    Edit(
        "arch/um/kernel/time.c",
        "go straight to the next event",
        r"(?=static void time_travel_update_time_rel\()",
        _addition("next_event.c"),
    ),
    Edit(
        "arch/um/kernel/time.c",
        "use it for a reading of the clock",
        r"\ttime_travel_update_time\(time_travel_time \+ offs, false\);",
        "\tif (!time_travel_goes_on(offs))\n\t\ttime_travel_update_time(time_travel_time + offs, false);",
    ),
    Edit(
        "arch/um/kernel/time.c",
        "use it when idle",
        r"(?=\tif \(time_travel_mode == TT_MODE_BASIC\)\n\t\tos_timer_disable\(cpu\);\n)",
        "\tif (time_travel_mode == TT_MODE_INFCPU) {\n\t\ttime_travel_idle();\n\t\treturn;\n\t}\n\n",
    ),
    Edit(
        "arch/um/kernel/time.c",
        "take the timer's interrupt for what simulated time has",
        r"(?=void timer_handler\(int sig,)",
        _addition("timer_interrupt.c"),
    ),
    Edit(
        "arch/um/kernel/time.c",
        "use it there",
        r"\tdo_IRQ\(TIMER_IRQ, regs\);",
        "\tif (time_travel_mode == TT_MODE_INFCPU)\n\t\ttime_travel_interrupt(regs);\n"
        "\telse\n\t\tdo_IRQ(TIMER_IRQ, regs);",
    ),
    Edit(
        "arch/um/kernel/time.c",
        "name what that needs",
        r"#include <asm/irq\.h>\n",
        "#include <asm/irq.h>\n#include <asm/irq_regs.h>\n",
    ),
    Edit(
        "arch/x86/um/vdso/vma.c",
        "keep a page with the simulated time",
        r"(?=static int __init init_vdso\(void\))",
        _addition("clock_page.c"),
    ),
    Edit(
        "arch/x86/um/vdso/vma.c",
        "name what that needs",
        r"#include <linux/init\.h>\n",
        "#include <linux/init.h>\n#include <linux/time-internal.h>\n#include <linux/timekeeping.h>\n",
    ),
    Edit(
        "arch/x86/um/vdso/vma.c",
        "make that page at boot",
        r"(\tum_vdso = alloc_page\(GFP_KERNEL\);\n\tif \(!um_vdso)(\))",
        r"\tum_clock = alloc_page(GFP_KERNEL | __GFP_ZERO);\n\1 || !um_clock\2",
    ),
    Edit(
        "arch/x86/um/vdso/vma.c",
        "give that page to each program",
        r"(\tmmap_write_unlock\(mm\);\n\n\treturn IS_ERR\(vma\) \? PTR_ERR\(vma\) : )0;",
        r"\tint clock = IS_ERR(vma) ? 0 : install_um_clock(mm);\n\n\1clock;",
    ),
    Edit(
        "arch/x86/um/vdso/um_vdso.c",
        "read the clock in that page",
        r"(?=int __vdso_clock_gettime\(clockid_t clock, struct __kernel_timespec \*ts\)\n\{)",
        _addition("clock_reader.c"),
    ),
    Edit(
        "arch/x86/um/vdso/um_vdso.c",
        "use it for clock_gettime",
        r"(struct __kernel_timespec \*ts\)\n\{\n\tlong ret;\n)",
        r"""\1	unsigned long long now = um_clock_read(clock);

	if (now) {
		ts->tv_sec = now / 1000000000;
		ts->tv_nsec = now % 1000000000;
		return 0;
	}
""",
    ),
    Edit(
        "arch/x86/um/vdso/um_vdso.c",
        "use it for gettimeofday",
        r"(struct timezone \*tz\)\n\{\n\tlong ret;\n)",
        r"""\1	unsigned long long now = tz || !tv ? 0 : um_clock_read(0);

	if (now) {
		tv->tv_sec = now / 1000000000;
		tv->tv_usec = now % 1000000000 / 1000;
		return 0;
	}
""",
    ),
    Edit(
        "arch/um/os-Linux/skas/process.c",
        "renew the page's time before a program goes on",
        r"(\t\tcurrent_mm_sync\(\);\n)(\n\t\tif \(using_seccomp\) \{)",
        r"\1\t\tum_clock_update();\n\2",
    ),
    Edit(
        "arch/um/os-Linux/skas/process.c",
        "name what renews it",
        r"static int unscheduled_userspace_iterations;\n",
        "static int unscheduled_userspace_iterations;\nextern void um_clock_update(void);\n",
    ),
    Edit(
        "arch/um/os-Linux/main.c",
        "leave the counts of a kernel that trains the compiler: its link script has no place for destructors",
        r"(\n\treturn uml_exitcode;\n)",
        r"\n\tif (__gcov_dump)\n\t\t__gcov_dump();\1",
    ),
    Edit(
        "arch/um/os-Linux/main.c",
        "name what leaves them, where it is linked",
        r"\n(int __init main\()",
        r"\nextern void __gcov_dump(void) __attribute__((weak));\n\n\1",
    ),
    Edit(
        "arch/um/os-Linux/util.c",
        "take random numbers from a seed",
        r"(ssize_t os_getrandom\(void \*buf, size_t len, unsigned int flags\)\n\{\n)",
        _addition("seeded_random.c")
        + r"""\1	const char *seed = getenv("SOJOURN_SEED");

	if (seed)
		return seeded_random(seed, buf, len);
""",
    ),
)


def apply_all(source: Path, edits: tuple[Edit, ...] = EDITS) -> None:
    """Apply the edits to a kernel source tree. Raises PatchError at the first that does not fit."""
    for edit in edits:
        path = source / edit.path
        if not path.is_file():
            raise PatchError(f"{edit.path}: {edit.why}: the kernel source has no such file")
        path.write_text(edit.apply(path.read_text()))
