// SPDX-License-Identifier: Apache-2.0
/*
 * One connection over one path, in simulated time, with tcp_bbr3.c as it is as its
 * congestion control.
 *
 * The sender is what the draft takes for granted: rate samples (4.1.2), pacing
 * (5.6.2), loss detection by three later deliveries, a retransmission timeout, and
 * undo of an episode whose packets all turn out to have been delivered. All packets
 * are one MSS; every delivery is acknowledged. The path is a queue of `buffer`
 * packets, a link of `rate`, and `rtt` behind it. A test sets the knobs in `path`,
 * runs until a time, a state or the end of a round, and reads `seen`.
 */
#include TCP_BBR3

#define MSS		1000U
#define RING		(1U << 16)
#define NSEC		1000000000ULL
#define BEGIN		(10 * NSEC)	/* of a connection */

struct packet {
	struct sk_buff skb;
	u64 sent_us;
	u32 tx;			/* number of its last transmission */
	u32 times;		/* it was sent */
	bool delivered, lost, outstanding;
};

struct on_wire {
	u64 ns;			/* when its acknowledgement arrives */
	u32 seq, tx;
	bool ce;
};

/* What a test sets; Python has the same list. */
struct knobs {
	u64 rate;		/* bytes per second */
	u64 app_rate;		/* bytes per second; 0: always data to send */
	u64 policer_rate;	/* bytes per second of the token bucket's refill; 0: no policer */
	u32 rtt_us;
	u32 buffer;		/* packets in the queue */
	u32 loss_ppm;		/* random loss */
	u32 drop_next;		/* packets to be lost, then none */
	u32 delay_us, delay_next;	/* further delay of this many packets */
	u32 aggregate_us;	/* acknowledgements arrive at multiples of this */
	u32 mark_at;		/* packets in the queue above which packets are marked CE */
	u32 bucket;		/* the policer's depth in packets */
	u32 paused;		/* the application sends nothing */
	u32 seed;
} path;

/* What a test reads; Python has the same list. */
struct view {
	u64 now_us, pacing_rate, bw, max_bw, bw_latest, bw_shortterm, undo_bw_shortterm, full_bw, bw_probe_wait_us;
	u64 cycle_stamp, sent, dropped, delivered, lost, rtos, undone;
	u32 state, undo_state, ca_state, pacing_gain, cwnd_gain, cwnd, inflight, queue;
	u32 inflight_shortterm, inflight_longterm, undo_inflight_shortterm, undo_inflight_longterm, inflight_latest;
	u32 min_rtt, full_bw_now, full_bw_reached, full_bw_count, round_count, drain_start_round, extra_acked;
	u32 idle_restart, prev_probe_too_high, prev_probe_precautionary, probe_up_acked_per_inc, app_limited;
	u32 bdp, inflight_with_headroom, max_inflight_of_model, rounds_since_probe_up, is_cwnd_limited;
	u32 rtt_us;		/* the last sample */
} seen;

static struct tcp_sock tp;
static struct sock *const sk = &tp.sk;
static struct packet ring[RING];
static struct on_wire queue[RING], acks[RING];
static u32 queue_head, queued, acks_head, acks_out;
static u64 now, link_done, next_send, next_write, rto_at, random_state;
static u32 snd_nxt, snd_una, high_seq, cwnd_usage_seq, tx_count, newest_tx, lost_waiting, marks, spurious, rtt_us;
static u64 sent_packets, dropped, rtos, undone;
static double tokens, tokens_at;
static u32 writable;		/* packets that the application has written and that are not sent */
/* Transmissions in their order, for loss detection. */
static struct { u32 seq, tx; } sent[RING];
static u32 sent_head, sent_tail;

u32 get_random_u32_below(u32 ceiling)
{
	random_state = random_state * 6364136223846793005ULL + 1442695040888963407ULL;
	return (random_state >> 33) % ceiling;
}

static struct packet *packet(u32 seq)
{
	return &ring[seq % RING];
}

static void set_ca_state(u8 state)
{
	bbr3.set_state(sk, state);
	tp.icsk_ca_state = state;
}

/* 4.1.2.4 */
static void check_if_application_limited(void)
{
	if (!writable && (path.app_rate || path.paused) && tp.in_flight < tp.snd_cwnd && !lost_waiting)
		tp.app_limited = max(tp.delivered + tp.in_flight, 1U);
}

static bool has_data(void)
{
	return lost_waiting || (path.app_rate || path.paused ? writable > 0 : true);
}

static void enqueue(u32 seq, u32 tx)
{
	struct on_wire *entry;

	sent_packets++;
	if (path.policer_rate) {
		tokens = min(tokens + (now - tokens_at) / 1e9 * path.policer_rate / MSS, (double)path.bucket);
		tokens_at = now;
	}
	if (path.drop_next || get_random_u32_below(1000000) < path.loss_ppm || queued >= path.buffer ||
	    (path.policer_rate && tokens < 1)) {
		path.drop_next -= path.drop_next > 0;
		dropped++;
		return;
	}
	tokens -= path.policer_rate > 0;
	entry = &queue[(queue_head + queued) % RING];
	*entry = (struct on_wire){ .seq = seq, .tx = tx, .ce = path.mark_at && queued >= path.mark_at };
	if (!queued++)
		link_done = now + MSS * NSEC / path.rate;
}

static void leave_link(void)
{
	struct on_wire entry = queue[queue_head % RING];
	u32 at;

	queue_head++;
	link_done = --queued ? now + MSS * NSEC / path.rate : U64_MAX;
	entry.ns = now + path.rtt_us * 1000ULL;
	if (path.delay_next) {
		path.delay_next--;
		entry.ns += path.delay_us * 1000ULL;
	}
	if (path.aggregate_us)
		entry.ns = DIV_ROUND_UP(entry.ns, path.aggregate_us * 1000ULL) * path.aggregate_us * 1000ULL;
	for (at = acks_head + acks_out++; at != acks_head && acks[(at - 1) % RING].ns > entry.ns; at--)
		acks[at % RING] = acks[(at - 1) % RING];
	acks[at % RING] = entry;
}

/* 4.1.2.2 OnPacketSent(). */
static void transmit(u32 seq)
{
	struct packet *p = packet(seq);

	if (!tp.in_flight)
		bbr3.cwnd_event_tx_start(sk);
	p->sent_us = tp.tcp_mstamp;
	p->tx = ++tx_count;
	p->times++;
	if (!tp.in_flight)
		tp.first_tx_mstamp = tp.delivered_mstamp = p->sent_us;
	p->outstanding = true;
	tp.in_flight++;
	p->skb.cb = (struct tcp_skb_cb){
		.seq = seq, .end_seq = seq + 1, .pcount = 1, .tx_lost = tp.lost, .tx_in_flight = tp.in_flight,
		.tx = { tp.app_limited > 0, tp.delivered, tp.delivered_ce, tp.first_tx_mstamp, tp.delivered_mstamp },
	};
	sent[sent_tail % RING].seq = seq;
	sent[sent_tail++ % RING].tx = p->tx;
	if (next_send < now)
		next_send = now;
	next_send += MSS * NSEC / sk->sk_pacing_rate;
	rto_at = now + (200000 + 2ULL * tp.srtt_us / 8) * 1000;
	enqueue(seq, p->tx);
}

static void send_what_may_be_sent(void)
{
	bool limited = false;

	while (has_data()) {
		u32 seq;

		if (tp.in_flight >= tp.snd_cwnd) {
			limited = true;
			break;
		}
		if (now < next_send)
			break;
		if (lost_waiting) {
			for (seq = snd_una; !packet(seq)->lost || packet(seq)->outstanding; seq++)
				;
			lost_waiting--;
		} else {
			seq = snd_nxt++;
			*packet(seq) = (struct packet){};
			writable -= writable > 0;
		}
		transmit(seq);
	}
	/* As tcp_cwnd_validate(): true for the rest of a window in which it was once. */
	if (!before(snd_una, cwnd_usage_seq) || limited) {
		tp.is_cwnd_limited = limited;
		cwnd_usage_seq = snd_nxt;
	}
}

static void mark_lost(struct packet *p)
{
	p->outstanding = false;
	p->lost = true;
	tp.in_flight--;
	lost_waiting++;
	marks++;
	tp.lost++;
	bbr3.skb_lost(sk, &p->skb);
}

static void enter(u8 state)
{
	bbr3.ssthresh(sk);
	if (state == TCP_CA_Loss)
		tp.snd_cwnd = tp.in_flight + 1;
	set_ca_state(state);
	high_seq = snd_nxt;
}

static void detect_losses(void)
{
	bool any = false;

	if (tp.icsk_ca_state == TCP_CA_Open)
		marks = spurious = 0;
	for (; sent_head != sent_tail; sent_head++) {
		struct packet *p = packet(sent[sent_head % RING].seq);

		if (before(sent[sent_head % RING].seq, snd_una) || p->tx != sent[sent_head % RING].tx || !p->outstanding)
			continue;
		if (p->tx + 3 > newest_tx)
			break;
		mark_lost(p);
		any = true;
	}
	if (any && tp.icsk_ca_state < TCP_CA_Recovery)
		enter(TCP_CA_Recovery);
}

static void time_out(void)
{
	u32 seq;

	rtos++;
	if (tp.icsk_ca_state == TCP_CA_Open)
		marks = spurious = 0;
	for (seq = snd_una; seq != snd_nxt; seq++)
		if (packet(seq)->outstanding)
			mark_lost(packet(seq));
	enter(TCP_CA_Loss);
	next_send = now;
	rto_at = now + 2 * (200000 + 2ULL * tp.srtt_us / 8) * 1000;
}

static void undo(void)
{
	u32 seq;

	undone++;
	for (seq = snd_una; seq != snd_nxt; seq++) {
		struct packet *p = packet(seq);

		if (p->lost && !p->outstanding && !p->delivered) {
			p->outstanding = true;
			tp.in_flight++;
			lost_waiting--;
		}
		p->lost = false;
	}
	tp.snd_cwnd = bbr3.undo_cwnd(sk);
	set_ca_state(TCP_CA_Open);
}

/* 4.1.2.3 UpdateRateSample(), by the kernel's rule of which packet is the newest. */
static void deliver(const struct on_wire *ack, struct rate_sample *rs, u32 *last_seq)
{
	struct packet *p = packet(ack->seq);
	const struct tcp_skb_cb *cb = &p->skb.cb;
	bool original;

	if (before(ack->seq, snd_una) || p->delivered)
		return;
	original = ack->tx != p->tx || (p->lost && !p->outstanding);
	p->delivered = true;
	newest_tx = max(newest_tx, ack->tx);
	spurious += original;
	if (p->outstanding)
		tp.in_flight--;
	else
		lost_waiting -= p->lost;
	p->outstanding = p->lost = false;
	tp.delivered++;
	tp.delivered_ce += ack->ce;
	rs->acked_sacked++;
	if (!rs->prior_mstamp || p->sent_us > tp.first_tx_mstamp ||
	    (p->sent_us == tp.first_tx_mstamp && ack->seq > *last_seq)) {
		rs->prior_mstamp = cb->tx.delivered_mstamp;
		rs->prior_delivered = cb->tx.delivered;
		rs->prior_delivered_ce = cb->tx.delivered_ce;
		rs->prior_lost = cb->tx_lost;
		rs->tx_in_flight = cb->tx_in_flight;
		rs->is_app_limited = cb->tx.is_app_limited;
		rs->interval_us = p->sent_us - cb->tx.first_tx_mstamp;
		tp.first_tx_mstamp = p->sent_us;
		*last_seq = ack->seq;
	}
	if (!original)
		rs->rtt_us = tp.tcp_mstamp - p->sent_us;
}

static void acknowledge(void)
{
	struct rate_sample rs = { .rtt_us = -1, .prior_in_flight = tp.in_flight };
	u64 arrived = acks[acks_head % RING].ns;
	u32 last_seq = 0;

	check_if_application_limited();
	for (; acks_out && acks[acks_head % RING].ns == arrived; acks_out--)
		deliver(&acks[acks_head++ % RING], &rs, &last_seq);
	while (snd_una != snd_nxt && packet(snd_una)->delivered)
		snd_una++;
	if (!rs.acked_sacked)
		return;
	if (rs.rtt_us >= 0) {
		rtt_us = rs.rtt_us;
		tp.srtt_us = tp.srtt_us ? tp.srtt_us - tp.srtt_us / 8 + rs.rtt_us : rs.rtt_us * 8;
	}
	rto_at = snd_una == snd_nxt ? U64_MAX : now + (200000 + 2ULL * tp.srtt_us / 8) * 1000;
	detect_losses();
	if ((tp.icsk_ca_state == TCP_CA_Recovery && spurious >= marks) || (tp.icsk_ca_state == TCP_CA_Loss && spurious))
		undo();
	else if (tp.icsk_ca_state >= TCP_CA_Recovery && !before(snd_una, high_seq))
		set_ca_state(TCP_CA_Open);
	if (tp.app_limited && tp.delivered > tp.app_limited)
		tp.app_limited = 0;
	tp.delivered_mstamp = tp.tcp_mstamp;
	if (rs.prior_mstamp) {
		rs.delivered = tp.delivered - rs.prior_delivered;
		rs.delivered_ce = tp.delivered_ce - rs.prior_delivered_ce;
		rs.lost = tp.lost - rs.prior_lost;
		rs.interval_us = max(rs.interval_us, (s64)(tp.tcp_mstamp - rs.prior_mstamp));
		if (rs.interval_us < path.rtt_us)
			rs.interval_us = -1;
	}
	bbr3.cong_control(sk, snd_una, 0, &rs);
}

static void look(void)
{
	const struct bbr3 *ca = inet_csk_ca(sk);

	seen = (struct view){
		tp.tcp_mstamp, sk->sk_pacing_rate, ca->bw, bbr3_max_bw(ca), ca->bw_latest, ca->bw_shortterm,
		ca->undo_bw_shortterm, ca->full_bw, ca->bw_probe_wait, ca->cycle_stamp, sent_packets, dropped, tp.delivered,
		tp.lost, rtos, undone,
		ca->state, ca->undo_state, tp.icsk_ca_state, ca->pacing_gain, ca->cwnd_gain, tp.snd_cwnd, tp.in_flight, queued,
		ca->inflight_shortterm, ca->inflight_longterm, ca->undo_inflight_shortterm, ca->undo_inflight_longterm,
		ca->inflight_latest,
		ca->min_rtt, ca->full_bw_now, ca->full_bw_reached, ca->full_bw_count, ca->round_count, ca->drain_start_round,
		minmax_get(&ca->extra_acked),
		ca->idle_restart, ca->prev_probe_too_high, ca->prev_probe_precautionary, ca->probe_up_acked_per_inc,
		tp.app_limited,
		bbr3_bdp(sk, ca->bw, 100), bbr3_inflight_with_headroom(ca), bbr3_quantization_budget(sk, bbr3_bdp(sk, ca->bw, 100)),
		ca->rounds_since_probe_up, tp.is_cwnd_limited, rtt_us,
	};
}

/* Advances to the next event and handles it, or to `until_us` if there is none before. */
static void step(u64 until_us)
{
	u64 next = min(link_done, rto_at);
	u64 ack = acks_out ? acks[acks_head % RING].ns : U64_MAX;
	u64 send = has_data() && tp.in_flight < tp.snd_cwnd ? max(next_send, now) : U64_MAX;
	u64 write = path.app_rate && !path.paused ? max(next_write, now) : U64_MAX;

	next = min(min(next, ack), min(send, write));
	now = min(next, until_us * 1000);
	tp.tcp_mstamp = now / 1000;
	if (now == link_done)
		leave_link();
	if (now == ack)
		acknowledge();
	if (now == rto_at)
		time_out();
	if (now == write) {
		check_if_application_limited();
		writable++;
		next_write = now + MSS * NSEC / path.app_rate;
	}
	send_what_may_be_sent();
}

/* Begins a connection on `path` with a handshake's RTT sample and ten packets of initial window. */
void path_begin(void)
{
	tp = (struct tcp_sock){ .mss_cache = MSS, .snd_cwnd = 10, .snd_cwnd_clamp = U32_MAX, .snd_ssthresh = S32_MAX };
	sk->sk_max_pacing_rate = U64_MAX;
	tp.srtt_us = path.rtt_us * 8;
	queue_head = queued = acks_head = acks_out = sent_head = sent_tail = 0;
	snd_nxt = snd_una = high_seq = cwnd_usage_seq = tx_count = newest_tx = lost_waiting = marks = spurious = rtt_us = 0;
	sent_packets = dropped = rtos = undone = writable = 0;
	now = next_send = next_write = BEGIN;
	link_done = rto_at = U64_MAX;
	random_state = path.seed;
	tokens = path.bucket;
	tokens_at = now;
	tp.tcp_mstamp = now / 1000;
	bbr3.init(sk);
	send_what_may_be_sent();
	look();
}

/* Runs until `until_us`, or one of a set of states is entered anew (a bit for each), or a round ends. */
bool path_run(u64 until_us, u32 states, bool round)
{
	const struct bbr3 *ca = inet_csk_ca(sk);

	while (now < until_us * 1000) {
		u32 state = ca->state, rounds = ca->round_count;

		step(until_us);
		if ((ca->state != state && states & 1U << ca->state) || (round && ca->round_count != rounds)) {
			look();
			return true;
		}
	}
	look();
	return false;
}

/* After the application was paused: it writes again. */
void path_resume(void)
{
	check_if_application_limited();
	path.paused = 0;
	send_what_may_be_sent();
	look();
}

/* The connection enters ProbeRTT at its next acknowledgement. */
void path_expire_probe_rtt(void)
{
	struct bbr3 *ca = inet_csk_ca(sk);

	ca->probe_rtt_min_stamp = tp.tcp_mstamp - PROBE_RTT_INTERVAL - 1;
}

u32 path_inflight_at_loss(u32 tx_in_flight, u32 lost, u32 size)
{
	return bbr3_inflight_at_loss(tx_in_flight, lost, size);
}
