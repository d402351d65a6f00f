// SPDX-License-Identifier: Apache-2.0
//! noq's runtime as an L4S sender needs it. noq sends ECT(0) and takes ECT(1) for a fault of the path, so its sockets
//! send ECT(1) where it says ECT(0), and show it ECT(0) where ECT(1) arrives; both ends need this. Its timers are exact:
//! those of tokio are late by up to a millisecond, in which a pace becomes a burst.

use std::{
    future::Future,
    io::{self, IoSliceMut},
    net::{SocketAddr, UdpSocket},
    num::NonZeroUsize,
    os::fd::OwnedFd,
    pin::Pin,
    task::{Context, Poll},
    time::Instant,
};

use noq::{
    udp::{EcnCodepoint, RecvMeta, Transmit},
    AsyncTimer, AsyncUdpSocket, Runtime, TokioRuntime, UdpSender,
};
use rustix::time::{
    timerfd_create, timerfd_settime, Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec,
};
use tokio::io::{unix::AsyncFd, Interest};

#[derive(Debug)]
pub struct Ect1Runtime;

impl Runtime for Ect1Runtime {
    fn new_timer(&self, at: Instant) -> Pin<Box<dyn AsyncTimer>> {
        let clock = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::NONBLOCK).expect("a timer");
        // SAFETY: the descriptor stays open and the same as long as the AsyncFd, which owns it.
        let registered = unsafe { AsyncFd::register_with_interest(clock, Interest::READABLE) };
        let timer = ExactTimer(registered.expect("a timer of the runtime"));
        timer.set(at);
        Box::pin(timer)
    }

    fn spawn(&self, future: Pin<Box<dyn Future<Output = ()> + Send>>) {
        TokioRuntime.spawn(future);
    }

    fn wrap_udp_socket(&self, socket: UdpSocket) -> io::Result<Box<dyn AsyncUdpSocket>> {
        Ok(Box::new(Ect1Socket(TokioRuntime.wrap_udp_socket(socket)?)))
    }
}

#[derive(Debug)]
struct ExactTimer(AsyncFd<OwnedFd>);

impl ExactTimer {
    fn set(&self, at: Instant) {
        // A time of zero would disarm it.
        let left = at.saturating_duration_since(Instant::now());
        let left = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()).max(1) };
        let never = Timespec { tv_sec: 0, tv_nsec: 0 };
        let once = Itimerspec { it_interval: never, it_value: left };
        timerfd_settime(self.0.get_ref(), TimerfdTimerFlags::empty(), &once).expect("a timer's time");
    }
}

impl AsyncTimer for ExactTimer {
    fn reset(self: Pin<&mut Self>, at: Instant) {
        self.get_mut().set(at);
    }

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        loop {
            let Poll::Ready(Ok(mut ready)) = self.0.poll_read_ready(context) else { return Poll::Pending };
            if rustix::io::read(self.0.get_ref(), &mut [0; 8]).is_ok() {
                return Poll::Ready(());
            }
            ready.clear_ready();
        }
    }
}

#[derive(Debug)]
struct Ect1Socket(Box<dyn AsyncUdpSocket>);

impl AsyncUdpSocket for Ect1Socket {
    fn create_sender(&self) -> Pin<Box<dyn UdpSender>> {
        Box::pin(Ect1Sender(self.0.create_sender()))
    }

    fn poll_recv(
        &mut self,
        context: &mut Context<'_>,
        buffers: &mut [IoSliceMut<'_>],
        meta: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>> {
        let received = self.0.poll_recv(context, buffers, meta);
        if let Poll::Ready(Ok(count)) = received {
            for one in meta.iter_mut().take(count).filter(|one| one.ecn == Some(EcnCodepoint::Ect1)) {
                one.ecn = Some(EcnCodepoint::Ect0);
            }
        }
        received
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }

    fn max_receive_segments(&self) -> NonZeroUsize {
        self.0.max_receive_segments()
    }

    fn may_fragment(&self) -> bool {
        self.0.may_fragment()
    }
}

#[derive(Debug)]
struct Ect1Sender(Pin<Box<dyn UdpSender>>);

impl UdpSender for Ect1Sender {
    fn poll_send(mut self: Pin<&mut Self>, transmit: &Transmit<'_>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let ecn = transmit.ecn.map(|ecn| if ecn == EcnCodepoint::Ect0 { EcnCodepoint::Ect1 } else { ecn });
        self.0.as_mut().poll_send(&Transmit { ecn, ..transmit.clone() }, context)
    }

    fn max_transmit_segments(&self) -> NonZeroUsize {
        self.0.max_transmit_segments()
    }
}
