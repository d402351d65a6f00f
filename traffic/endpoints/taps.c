// SPDX-License-Identifier: Apache-2.0
/* Taps: the headers of single packets, as the devices at both ends see them. */
#include "taps.h"

#include <arpa/inet.h>
#include <linux/filter.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "spaces.h"

enum {
	TAP_FRAME = 192,
	TAP_BLOCK = 1 << 20,
	TAP_BLOCKS = 8,
	TAP_FRAMES_A_BLOCK = TAP_BLOCK / TAP_FRAME,
	TAP_FRAMES = TAP_BLOCKS * TAP_FRAMES_A_BLOCK,
	TAP_KEPT = 126 /* what a frame has beside the ring's own headers: Ethernet, IPv6, TCP with all options */
};

struct tap taps[MOST_TAPS];
int tap_count;

static void write_block(FILE *out, uint32_t type, const void *head, uint32_t head_size, const void *data, uint32_t size)
{
	static const char padding[4];
	uint32_t whole = 12 + head_size + ((size + 3) & ~3u);

	fwrite(&type, 4, 1, out);
	fwrite(&whole, 4, 1, out);
	fwrite(head, 1, head_size, out);
	fwrite(data, 1, size, out);
	fwrite(padding, 1, -size & 3, out);
	fwrite(&whole, 4, 1, out);
}

/* As pcapng, its times from the cell's beginning. */
static void begin_tap(struct tap *tap)
{
	static const struct { uint32_t order; uint16_t major, minor; int64_t size; } section = { 0x1a2b3c4d, 1, 0, -1 };
	/* Ethernet; its one option: times in 10^-9 s */
	static const struct {
		uint16_t link, unused;
		uint32_t kept;
		uint16_t code, size;
		uint8_t digits, padding[3];
		uint32_t end;
	} interface = { 1, 0, TAP_KEPT, 9, 1, 9, { 0 }, 0 };

	tap->out = output(tap->file, "");
	write_block(tap->out, 0x0a0d0d0a, &section, sizeof(section), NULL, 0);
	write_block(tap->out, 1, &interface, sizeof(interface), NULL, 0);
}

/* Keeps the headers of IPv4 packets to a TCP or UDP port from `first` to `last`; of all packets if `last` is 0. */
void open_tap(const char *space, const char *device, int first, int last)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_H | BPF_ABS, 12),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ETH_P_IP, 0, 8),
		BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 23),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, IPPROTO_TCP, 1, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, IPPROTO_UDP, 0, 5),
		BPF_STMT(BPF_LDX | BPF_B | BPF_MSH, 14),
		BPF_STMT(BPF_LD | BPF_H | BPF_IND, 16),
		BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, first, 0, 2),
		BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, last, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, TAP_KEPT),
		BPF_STMT(BPF_RET | BPF_K, 0),
	};
	struct sock_fprog program = { COUNT(code), code };
	struct tpacket_req request = { .tp_block_size = TAP_BLOCK, .tp_frame_size = TAP_FRAME };
	struct sockaddr_ll where = { .sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_ALL) };
	struct tap *tap = &taps[tap_count++];
	int version = TPACKET_V2;

	request.tp_block_nr = TAP_BLOCKS;
	request.tp_frame_nr = TAP_FRAMES;
	enter(space);
	tap->fd = MUST(socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0), "tap");
	if (last)
		MUST(setsockopt(tap->fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program)), "filter of a tap");
	MUST(setsockopt(tap->fd, SOL_PACKET, PACKET_VERSION, &version, sizeof(version)), "version of a tap");
	MUST(setsockopt(tap->fd, SOL_PACKET, PACKET_RX_RING, &request, sizeof(request)), "ring of a tap");
	tap->ring = mmap(NULL, (size_t)TAP_BLOCKS * TAP_BLOCK, PROT_READ | PROT_WRITE, MAP_SHARED, tap->fd, 0);
	if (tap->ring == MAP_FAILED)
		die("ring of a tap");
	where.sll_ifindex = if_nametoindex(device);
	MUST(bind(tap->fd, (struct sockaddr *)&where, sizeof(where)), "tap of %s in %s", device, space);
	begin_tap(tap);
}

/* Writes what the ring holds, which is free again then. */
void empty_tap(struct tap *tap)
{
	for (;; tap->next = (tap->next + 1) % TAP_FRAMES) {
		char *frame = tap->ring + tap->next / TAP_FRAMES_A_BLOCK * (size_t)TAP_BLOCK +
			      tap->next % TAP_FRAMES_A_BLOCK * TAP_FRAME;
		struct tpacket2_hdr *packet = (void *)frame;
		uint64_t at = (packet->tp_sec * SECOND + packet->tp_nsec) - date;
		uint32_t head[5] = { 0, at >> 32, at, packet->tp_snaplen, packet->tp_len };

		if (!(packet->tp_status & TP_STATUS_USER))
			break;
		write_block(tap->out, 6, head, sizeof(head), frame + packet->tp_mac, packet->tp_snaplen);
		__atomic_store_n(&packet->tp_status, TP_STATUS_KERNEL, __ATOMIC_RELEASE);
	}
}

/* A ring that was full has lost packets: then there is no result. */
void end_tap(struct tap *tap)
{
	struct tpacket_stats stats;
	socklen_t size = sizeof(stats);

	empty_tap(tap);
	MUST(getsockopt(tap->fd, SOL_PACKET, PACKET_STATISTICS, &stats, &size), "statistics of a tap");
	errno = 0;
	if (stats.tp_drops)
		die("%s: %u packets came that found no room among %d", tap->file, stats.tp_drops, TAP_FRAMES);
	if (fclose(tap->out))
		die("%s", tap->file);
}
