# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import re
from pathlib import Path

import pytest

from hardware.kconfig import FRAGMENTS
from hardware.patches import EDITS, PatchError, apply_all

# As in Linux 7.2.
SOURCE = {
    "net/ipv4/tcp_output.c": """static bool tcp_tso_should_defer(struct sock *sk, struct sk_buff *skb,
\tthreshold = min(srtt_in_ns >> 1, NSEC_PER_MSEC);

\t\tif (missing_bytes > 0)
\t\t\ttcp_grow_skb(sk, skb, missing_bytes);

\tif (tcp_ecn_mode_accecn(tp)) {
\t\tif (!tcp_accecn_ace_fail_recv(tp) &&
\t\t    !tcp_accecn_ace_fail_send(tp))
\t\t\tINET_ECN_xmit(sk);
\t\telse
\t\t\tINET_ECN_dontxmit(sk);
\t} else {
\t\tif (skb->len != tcp_header_len) {
\t\t\tINET_ECN_xmit(sk);
\t\t}
\t\tif (tp->ecn_flags & TCP_ECN_DEMAND_CWR)
\t\t\tth->ece = 1;
""",
    "net/ipv4/tcp_input.c": """\tif (tcp_ecn_disabled(tp))
\t\treturn;

\tswitch (TCP_SKB_CB(skb)->ip_dsfield & INET_ECN_MASK) {
\tcase INET_ECN_NOT_ECT:

\ttcp_ecn_accept_cwr(sk, skb);

\t/* We passed data and got it acked, remove any soft error
""",
    "include/net/tcp_ecn.h": """#include <net/tcp.h>
#include <net/inet_ecn.h>
""",
    "net/sched/Kconfig": """config NET_SCH_CODEL
\ttristate "Controlled Delay AQM (CODEL)"
""",
    "net/sched/Makefile": """obj-$(CONFIG_NET_SCH_CODEL)\t+= sch_codel.o
""",
    "net/sched/sch_cake.c": """#include <net/pkt_sched.h>

struct cake_sched_config {
\tu64\t\trate_bps;
};

struct cake_sched_data {
\tstruct cake_tin_data *tins;
};

static struct sk_buff *cake_dequeue(struct Qdisc *sch)
\tWRITE_ONCE(b->tin_ecn_mark, b->tin_ecn_mark + !!flow->cvars.ecn_marked);
\tqdisc_bstats_update(sch, skb);

static const struct nla_policy cake_policy[TCA_CAKE_MAX + 1] = {
\t[TCA_CAKE_BASE_RATE64]   = { .type = NLA_U64 },
};

\tstruct nlattr *tb[TCA_CAKE_MAX + 1];
\tu16 rate_flags = q->rate_flags;
\tint err;

\terr = nla_parse_nested_deprecated(tb, TCA_CAKE_MAX, opt, cake_policy,
\t\t\t\t\t  extack);
\tif (err < 0)
\t\treturn err;

\tif (nla_put_u32(skb, TCA_CAKE_FWMARK, READ_ONCE(q->fwmark_mask)))
\t\tgoto nla_put_failure;

\tPUT_STAT_U32(ACTIVE_QUEUES, READ_ONCE(q->active_queues));
""",
    "net/ipv4/tcp_cong.c": """\tif (ca->flags & TCP_CONG_NEEDS_ECN)
\t\tINET_ECN_xmit_ect_1_negotiation(sk);
\telse
\t\tINET_ECN_dontxmit(sk);
\tif (tcp_ca_needs_ecn(sk))
\t\tINET_ECN_xmit(sk);
\telse
\t\tINET_ECN_dontxmit(sk);
""",
    "net/core/skbuff.c": """\tif (!xnet)
\t\treturn;

\tskb->mark = 0;
\tskb_clear_tstamp(skb);
}
EXPORT_SYMBOL_GPL(skb_scrub_packet);
""",
    "net/ipv4/Kconfig": """config TCP_CONG_CDG
\ttristate "CAIA Delay-Gradient (CDG)"

config TCP_CONG_BBR
\ttristate "BBR TCP"

\tconfig DEFAULT_BBR
\t\tbool "BBR" if TCP_CONG_BBR=y
""",
    "net/ipv4/Makefile": """obj-$(CONFIG_TCP_CONG_CUBIC) += tcp_cubic.o
obj-$(CONFIG_TCP_CONG_DCTCP) += tcp_dctcp.o
""",
    "arch/um/Kconfig": """config HZ
\tint
\tdefault 100

config SMP
""",
    "arch/um/kernel/trap.c": """/*
 * Note this is constrained to return 0, -EFAULT, -EACCES, -ENOMEM by
 * segv().
 */
int handle_page_fault(unsigned long address, unsigned long ip,
		pte = pte_offset_kernel(pmd, address);
	} while (!pte_present(*pte));
	err = 0;
""",
    "arch/um/Makefile": """ifdef CONFIG_64BIT
	KBUILD_CFLAGS += -mcmodel=large
endif
""",
    "arch/x86/Makefile.um": """KBUILD_CFLAGS		+= $(call cc-option,-m32)
KBUILD_CFLAGS += -fno-builtin -m64\x20
CHECKFLAGS  += -m64 -D__x86_64__
""",
    "arch/um/include/asm/irqflags.h": """#define __UM_IRQFLAGS_H

int um_get_signals(void);
int um_set_signals(int enable);
void block_signals(void);
void unblock_signals(void);

#define arch_local_irq_enable arch_local_irq_enable
static inline void arch_local_irq_enable(void)
{
	unblock_signals();
}

#define ARCH_IRQ_DISABLED	0

#include <asm-generic/irqflags.h>
""",
    "arch/um/os-Linux/signal.c": """static __thread unsigned int signals_pending;
static __thread unsigned int signals_active;

static void timer_real_alarm_handler(mcontext_t *mc)
{
	struct uml_pt_regs regs;

	if (mc != NULL)
		get_regs_from_mc(&regs, mc);
	else
		memset(&regs, 0, sizeof(regs));
	timer_handler(SIGALRM, NULL, &regs);
}
""",
    "arch/um/kernel/time.c": """		    !time_travel_ext_waiting)
			time_travel_update_time_rel(TIMER_MULTIPLIER);
		return time_travel_time / TIMER_MULTIPLIER;
#include <linux/threads.h>
#include <asm/irq.h>
#include <asm/param.h>
static LIST_HEAD(time_travel_events);
static LIST_HEAD(time_travel_irqs);
static void time_travel_update_time_rel(unsigned long long offs)
{
	time_travel_update_time(time_travel_time + offs, false);
}
void time_travel_sleep(void)
{
	if (time_travel_mode == TT_MODE_BASIC)
		os_timer_disable(cpu);

	time_travel_update_time(next, true);

	if (time_travel_mode == TT_MODE_BASIC &&
void timer_handler(int sig, struct siginfo *unused_si, struct uml_pt_regs *regs)
{
	if (time_travel_mode == TT_MODE_BASIC)
		time_travel_handle_real_alarm();

	local_irq_save(flags);
	do_IRQ(TIMER_IRQ, regs);
	local_irq_restore(flags);
}
""",
    "fs/hostfs/hostfs_kern.c": """static const struct super_operations hostfs_sbops = {
	.drop_inode	= inode_just_drop,
};
static int hostfs_permission(struct mnt_idmap *idmap, struct inode *ino, int desired)
{
	int r = 0, w = 0, x = 0, err;

	if (desired & MAY_NOT_BLOCK)
		return -ECHILD;
}
""",
    "arch/um/kernel/skas/syscall.c": """void handle_syscall(struct uml_pt_regs *r)
{
\tUPT_SYSCALL_NR(r) = PT_SYSCALL_NR(r->gp);
\tPT_REGS_SET_SYSCALL_RETURN(regs, -ENOSYS);

\tif (syscall >= 0 && syscall < __NR_syscalls) {
\t\tPT_REGS_SET_SYSCALL_RETURN(regs, ret);

\t\t/*
\t\t * An error value here can be some form of -ERESTARTSYS
\t\t */
\t\tif (IS_ERR_VALUE(ret) &&
\t\t    (time_travel_mode == TT_MODE_INFCPU ||
\t\t     time_travel_mode == TT_MODE_EXTERNAL)) {
\t\t\tum_udelay(1);
\t\t\tschedule();
\t\t}
""",
    "arch/x86/um/vdso/vma.c": """#include <asm/elf.h>
#include <linux/init.h>

unsigned long um_vdso_addr;
static struct page *um_vdso;

static int __init init_vdso(void)
{
	um_vdso_addr = task_size - PAGE_SIZE;

	um_vdso = alloc_page(GFP_KERNEL);
	if (!um_vdso)
		panic("Cannot allocate vdso\\n");

	copy_page(page_address(um_vdso), vdso_start);

	return 0;
}
subsys_initcall(init_vdso);

int arch_setup_additional_pages(struct linux_binprm *bprm, int uses_interp)
{
	if (mmap_write_lock_killable(mm))
		return -EINTR;

	mmap_write_unlock(mm);

	return IS_ERR(vma) ? PTR_ERR(vma) : 0;
}
""",
    "arch/x86/um/vdso/um_vdso.c": """int __vdso_clock_gettime(clockid_t clock, struct __kernel_timespec *ts)
{
	long ret;

	asm("syscall"
}
int clock_gettime(clockid_t, struct __kernel_timespec *)
	__attribute__((weak, alias("__vdso_clock_gettime")));

int __vdso_gettimeofday(struct __kernel_old_timeval *tv, struct timezone *tz)
{
	long ret;

	asm("syscall"
}
int gettimeofday(struct __kernel_old_timeval *, struct timezone *)
	__attribute__((weak, alias("__vdso_gettimeofday")));
""",
    "arch/um/os-Linux/skas/process.c": """\tif (using_seccomp)
\t\tproc_data->futex = FUTEX_IN_CHILD;

static int unscheduled_userspace_iterations;
extern unsigned long tt_extra_sched_jiffies;

void userspace(struct uml_pt_regs *regs)
{
\t\t\t    unscheduled_userspace_iterations++ >
\t\t\t\tunscheduled_userspace_iterations = 0;

\t\tcurrent_mm_sync();

\t\tif (using_seccomp) {
\t\t\tstruct stub_data *proc_data = (void *) mm_id->stack;
}
""",
    "arch/um/os-Linux/main.c": """#include <sysdep/stub.h>

int __init main(int argc, char **argv, char **envp)
{
\tif (ret) {
\t\tret = 1;
\t}
\treturn uml_exitcode;
}
""",
    "arch/um/os-Linux/util.c": """ssize_t os_getrandom(void *buf, size_t len, unsigned int flags)
{
\treturn getrandom(buf, len, flags);
}
""",
}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name, text in SOURCE.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def test_every_edit_changes_its_place_and_nothing_else(tree: Path) -> None:
    apply_all(tree)
    text = {name: (tree / name).read_text() for name in SOURCE}
    ect1 = "INET_ECN_xmit_ect_1_negotiation(sk);"
    output = text["net/ipv4/tcp_output.c"]
    assert f"!tcp_accecn_ace_fail_send(tp))\n\t\t\t{ect1}\n" in output
    assert "if (skb->len != tcp_header_len) {\n\t\t\tINET_ECN_xmit(sk);" in output  # RFC 3168 stays ECT(0)
    assert f"if (tcp_ca_needs_ecn(sk))\n\t\t{ect1}\n" in text["net/ipv4/tcp_cong.c"]
    assert output.index("static bool tso_2020;\n") < output.index("threshold = tso_2020 ? srtt_in_ns >> 1 : min(")
    assert "if (missing_bytes > 0 && !tso_2020)\n\t\t\ttcp_grow_skb(" in output
    kconfig = text["net/ipv4/Kconfig"]
    assert kconfig.count("TCP_CONG_PRAGUE") == 1
    for option in ("PRAGUE", "LEDBAT", "SCE"):
        assert kconfig.index(f"\nconfig TCP_CONG_{option}\n") < kconfig.index("\nconfig TCP_CONG_BBR\n")
    assert text["net/ipv4/Makefile"].splitlines()[1:] == [
        "obj-$(CONFIG_TCP_CONG_PRAGUE) += tcp_prague.o tcp_prague_2020.o",
        "obj-$(CONFIG_TCP_CONG_LEDBAT) += tcp_ledbat.o",
        "obj-$(CONFIG_TCP_CONG_SCE) += tcp_sce.o",
        "obj-$(CONFIG_TCP_CONG_DCTCP) += tcp_dctcp.o",
    ]
    assert "\tskb_clear_tstamp(skb);\n\tskb_clear_hash(skb);\n}\n" in text["net/core/skbuff.c"]
    assert "\t\t\tth->ece = 1;\n\t\tif (tcp_speaks_sce(sk))\n\t\t\tth->ae = tcp_sce_echo(sk);\n" in output
    heard = "\ttcp_ecn_accept_cwr(sk, skb);\n\tif (tcp_ecn_mode_rfc3168(tp) && tcp_speaks_sce(sk))\n"
    assert heard in text["net/ipv4/tcp_input.c"]
    # Accurate ECN is as it was: only where classic ECN was negotiated a mark is told of.
    arrived = "\tif (tcp_ecn_mode_rfc3168(tp) && tcp_speaks_sce(sk) &&\n\t    tcp_sce_arrived(sk, "
    assert f"\t\treturn;\n\n{arrived}" in text["net/ipv4/tcp_input.c"]
    sched = text["net/sched/Kconfig"]
    for option in ("SLOTS", "CNQ", "DELTIC"):
        assert sched.index(f"config NET_SCH_{option}\n") < sched.index("\nconfig NET_SCH_CODEL\n")
    assert text["net/sched/Makefile"].splitlines() == [
        "obj-$(CONFIG_NET_SCH_SLOTS) += sch_slots.o",
        "obj-$(CONFIG_NET_SCH_CNQ) += two_queues.o sch_cnq.o sch_lfq.o",
        "obj-$(CONFIG_NET_SCH_DELTIC) += sch_deltic.o",
        "obj-$(CONFIG_NET_SCH_CODEL)\t+= sch_codel.o",
    ]
    cake = text["net/sched/sch_cake.c"]
    assert cake.index("ecn_marked);\n\tif (!flow->cvars.ecn_marked &&\n\t    sce_mark(") < cake.index(
        "qdisc_bstats_update"
    )
    assert "TCA_CAKE_MAX" not in cake and cake.count("TCA_CAKE_SCE") == 7
    assert text["arch/um/Kconfig"] == "config HZ\n\tint\n\tdefault 250\n\nconfig SMP\n"
    main = text["arch/um/os-Linux/main.c"]
    assert main.index("extern void __gcov_dump(void) __attribute__((weak));\n") < main.index("int __init main(")
    assert main.endswith("\t}\n\tif (__gcov_dump)\n\t\t__gcov_dump();\n\treturn uml_exitcode;\n}\n")
    util = text["arch/um/os-Linux/util.c"]
    assert util.index("static ssize_t seeded_random(") < util.index("ssize_t os_getrandom(")
    assert util.endswith("\t\treturn seeded_random(seed, buf, len);\n\treturn getrandom(buf, len, flags);\n}\n")
    trap = text["arch/um/kernel/trap.c"]
    assert trap.index("static void fault_ahead(") < trap.index("int handle_page_fault(")
    assert "(!pte_present(*pte));\n\tif (is_user && is_write)\n\t\tfault_ahead(vma, address);\n\terr = 0;" in trap
    assert "+= -mcmodel=small\n" in text["arch/um/Makefile"]
    assert "+= -m64 \nCHECKFLAGS" in text["arch/x86/Makefile.um"]
    flags = text["arch/um/include/asm/irqflags.h"]
    assert flags.count("void arch_local_irq_enable(void)") == 1 and "um_get_signals" not in flags
    assert flags.endswith("\n#define ARCH_IRQ_DISABLED\t0\n\n#include <asm-generic/irqflags.h>\n")
    signal = text["arch/um/os-Linux/signal.c"]
    assert signal.startswith("__thread unsigned int signals_pending;\nstatic __thread unsigned int signals_active;\n")
    assert signal.endswith(
        "\tstatic struct uml_pt_regs none;\n\tstruct uml_pt_regs regs;\n\n\tif (mc != NULL)\n"
        "\t\tget_regs_from_mc(&regs, mc);\n\ttimer_handler(SIGALRM, NULL, mc ? &regs : &none);\n}\n"
    )
    time = text["arch/um/kernel/time.c"]
    assert "time_travel_update_time_rel(16);" in time
    assert "static LIST_HEAD(time_travel_events);\nLIST_HEAD(time_travel_irqs);\n" in time
    assert "if (!time_travel_goes_on(offs))\n\t\ttime_travel_update_time(time_travel_time + offs, false);" in time
    assert time.index("static void time_travel_idle(void)") < time.index("\t\ttime_travel_idle();\n\t\treturn;")
    assert time.index("static void time_travel_interrupt(") < time.index("void timer_handler(int sig,")
    assert "\t\ttime_travel_interrupt(regs);\n\telse\n\t\tdo_IRQ(TIMER_IRQ, regs);\n" in time
    syscall = text["arch/um/kernel/skas/syscall.c"]
    entry = "void handle_syscall(struct uml_pt_regs *r)\n"
    assert syscall.index("static long um_many_calls(") < syscall.index(entry)
    assert "UPT_SYSCALL_ARG2(r)));\n\n\tif (syscall >= 0 && syscall < __NR_syscalls) {\n" in syscall
    assert "regs, ret);\n\n\t\tif (time_travel_mode == TT_MODE_INFCPU &&\n" in syscall
    assert "if ((IS_ERR_VALUE(ret) ||\n\t\t     (ret == 0 && (syscall == __NR_read ||" in syscall
    assert syscall.index("um_ndelay(1000);") < syscall.rindex("um_ndelay(50);") and "um_udelay" not in syscall
    hostfs = text["fs/hostfs/hostfs_kern.c"]
    assert hostfs.index("static int hostfs_drop_inode(") < hostfs.index("\t.drop_inode\t= hostfs_drop_inode,\n")
    assert hostfs.index("if (sb_rdonly(ino->i_sb))\n\t\treturn generic_permission(") < hostfs.index("MAY_NOT_BLOCK")
    vma = text["arch/x86/um/vdso/vma.c"]
    assert "if (!um_vdso || !um_clock)" in vma and vma.index("um_clock_update") < vma.index("init_vdso")
    assert "\tint clock = IS_ERR(vma) ? 0 : install_um_clock(mm);" in vma and "PTR_ERR(vma) : clock;" in vma
    vdso = text["arch/x86/um/vdso/um_vdso.c"]
    assert vdso.count("= um_clock_read(") == 1 and vdso.count("um_clock_read(0)") == 1
    userspace = text["arch/um/os-Linux/skas/process.c"]
    assert userspace.index("extern void um_clock_update(void);") < userspace.index("void userspace(")
    assert "\t\tcurrent_mm_sync();\n\t\tum_clock_update();\n\n\t\tif (using_seccomp) {\n" in userspace
    for name in ("arch/um/include/asm/irqflags.h", "arch/um/os-Linux/signal.c"):  # several lines of one edit
        del text[name]
    for name, lines in text.items():  # what was there before is there still, but for the lines that an edit replaces
        gone = [line for line in SOURCE[name].splitlines() if line not in lines.splitlines()]
        assert len(gone) <= sum(edit.path == name for edit in EDITS), gone


def test_writer_and_reader_of_the_clock_mean_the_same_page() -> None:
    layouts = [
        re.findall(r"(?ms)^struct um_clock \{.*?^\};", (FRAGMENTS / name).read_text())
        for name in ("clock_page.c", "clock_reader.c")
    ]
    assert len(layouts[0]) == 1 and layouts[0] == layouts[1]


def test_what_goes_into_the_kernel_is_gpl_and_part_of_the_digest(tree: Path) -> None:
    apply_all(tree)
    additions = {
        "seeded_random.c": "arch/um/os-Linux/util.c",
        "Kconfig.prague": "net/ipv4/Kconfig",
        "Kconfig.ledbat": "net/ipv4/Kconfig",
        "Kconfig.slots": "net/sched/Kconfig",
        "Kconfig.sce": "net/ipv4/Kconfig",
        "Kconfig.cnq": "net/sched/Kconfig",
        "Kconfig.deltic": "net/sched/Kconfig",
        "fault_ahead.c": "arch/um/kernel/trap.c",
        "interrupt_flags.h": "arch/um/include/asm/irqflags.h",
        "keep_root.c": "fs/hostfs/hostfs_kern.c",
        "many_calls.c": "arch/um/kernel/skas/syscall.c",
        "next_event.c": "arch/um/kernel/time.c",
        "timer_interrupt.c": "arch/um/kernel/time.c",
        "clock_page.c": "arch/x86/um/vdso/vma.c",
        "clock_reader.c": "arch/x86/um/vdso/um_vdso.c",
    }
    for name, target in additions.items():
        text = (FRAGMENTS / name).read_text()
        assert "SPDX-License-Identifier: GPL-2.0" in text.splitlines()[0]
        assert text in (tree / target).read_text()
        assert sum(edit.replacement.startswith(text) for edit in EDITS) == 1  # hardware.build.recipe hashes EDITS


def test_what_upstream_took_is_left_alone(tree: Path) -> None:
    ecn = EDITS[:2]
    apply_all(tree, ecn)
    once = {edit.path: (tree / edit.path).read_text() for edit in ecn}
    apply_all(tree, ecn)
    assert {edit.path: (tree / edit.path).read_text() for edit in ecn} == once


@pytest.mark.parametrize("edit", EDITS, ids=lambda edit: edit.path)
def test_a_place_that_is_gone_is_named(tree: Path, edit: object) -> None:
    path = tree / edit.path  # type: ignore[attr-defined]
    path.write_text("int nothing;\n")
    with pytest.raises(PatchError, match=f"{edit.path}: .*found it 0 times"):  # type: ignore[attr-defined]
        apply_all(tree)


def test_an_ambiguous_place_is_named(tree: Path) -> None:
    path = tree / "net/ipv4/tcp_cong.c"
    path.write_text(path.read_text() * 2)
    with pytest.raises(PatchError, match=r"tcp_cong.c: .*found it 2 times"):
        apply_all(tree)


def test_a_missing_file_is_named(tree: Path) -> None:
    (tree / "net/ipv4/Makefile").unlink()
    with pytest.raises(PatchError, match=r"net/ipv4/Makefile: .*no such file"):
        apply_all(tree)
