// SPDX-License-Identifier: Apache-2.0
//! One video over WebRTC (str0m, whose congestion control is libwebrtc's): `receive ADDRESS PORT` takes one sender,
//! `send ADDRESS PORT FROM_PORT MOST_KBPS` sends pictures of what rate it estimates, MOST_KBPS at most, until it is
//! killed. Both know each other's secrets and streams from the start: there is no signalling.

mod certificate;
mod socket;

use std::{
    env,
    error::Error,
    net::{SocketAddr, UdpSocket},
    process,
    time::{Duration, Instant},
};

use certificate::{CERTIFICATE, KEY};
use str0m::{
    bwe::{Bitrate, BweKind},
    config::DtlsCert,
    ice::IceCreds,
    media::{Frequency, MediaKind, MediaTime},
    net::{Protocol, Receive},
    rtp::Ssrc,
    Candidate, Event, Input, Output, Rtc, RtcConfig,
};

type Outcome<T = ()> = Result<T, Box<dyn Error>>;

/// As libwebrtc begins.
const START: Bitrate = Bitrate::kbps(300);
const PICTURES_PER_S: u32 = 30;
const VIDEO: &str = "video";

fn streams() -> (Ssrc, Ssrc) {
    (Ssrc::from(1), Ssrc::from(2))
}

fn secrets(role: &str) -> IceCreds {
    IceCreds { ufrag: role.into(), pass: role.repeat(4) }
}

/// The end of a call that sends (or receives) over `socket`, which is connected.
fn end(socket: &UdpSocket, sends: bool) -> Outcome<Rtc> {
    let (mine, theirs) = if sends { ("sender", "receiver") } else { ("receiver", "sender") };
    let mut config = RtcConfig::new()
        .set_local_ice_credentials(secrets(mine))
        .set_dtls_cert(DtlsCert { certificate: CERTIFICATE.into(), private_key: KEY.into() })
        .clear_codecs()
        .enable_vp8(true);
    if sends {
        config = config.enable_bwe(Some(START));
    }
    let mut rtc = config.build(Instant::now());
    rtc.add_local_candidate(Candidate::host(socket.local_addr()?, "udp")?);
    rtc.add_remote_candidate(Candidate::host(socket.peer_addr()?, "udp")?);
    let mut direct = rtc.direct_api();
    direct.set_ice_controlling(sends);
    direct.set_remote_ice_credentials(secrets(theirs));
    // Both have the same.
    let fingerprint = direct.local_dtls_fingerprint().clone();
    direct.set_remote_fingerprint(fingerprint);
    direct.start_dtls(sends)?;
    direct.declare_media(VIDEO.into(), MediaKind::Video);
    let (video, again) = streams();
    if sends {
        direct.declare_stream_tx(video, Some(again), VIDEO.into(), None);
    } else {
        direct.expect_stream_rx(video, Some(again), VIDEO.into(), None);
        direct.enable_twcc_feedback();
    }
    Ok(rtc)
}

/// A camera and an encoder that keeps to its rate.
struct Video {
    most: Bitrate,
    rate: Bitrate,
    next: Option<Instant>,
    pictures: u64,
}

impl Video {
    fn hears(&mut self, event: &Event) {
        match event {
            Event::Connected => self.next = Some(Instant::now()),
            Event::EgressBitrateEstimate(BweKind::Twcc { estimate, .. }) => self.rate = (*estimate).min(self.most),
            _ => {}
        }
    }

    fn acts(&mut self, rtc: &mut Rtc, now: Instant) -> Outcome {
        let Some(due) = self.next.filter(|due| *due <= now) else { return Ok(()) };
        let pt = rtc.codec_config().params().first().ok_or("no codec")?.pt();
        let writer = rtc.writer(VIDEO.into()).ok_or("no video")?;
        let bytes = self.rate.as_u64() as usize / 8 / PICTURES_PER_S as usize;
        let time = MediaTime::new(self.pictures * 90_000 / u64::from(PICTURES_PER_S), Frequency::NINETY_KHZ);
        writer.write(pt, due, time, vec![0; bytes])?;
        self.pictures += 1;
        self.next = Some(due + Duration::from_secs(1) / PICTURES_PER_S);
        Ok(())
    }
}

fn run(mut rtc: Rtc, socket: &UdpSocket, mut video: Option<Video>) -> Outcome {
    let (mine, theirs) = (socket.local_addr()?, socket.peer_addr()?);
    let mut datagram = [0; 2048];
    loop {
        if let Some(video) = &mut video {
            video.acts(&mut rtc, Instant::now())?;
        }
        let mut until = loop {
            match rtc.poll_output()? {
                Output::Timeout(at) => break at,
                Output::Transmit(packet) => drop(socket.send(&packet.contents)?),
                Output::Event(event) => video.iter_mut().for_each(|video| video.hears(&event)),
            }
        };
        until = video.iter().filter_map(|video| video.next).fold(until, Instant::min);
        let input = match socket::arrives(socket, Some(until), |it| it.recv(&mut datagram))? {
            Some(bytes) => {
                let packet = Receive::new(Protocol::Udp, theirs, mine, &datagram[..bytes])?;
                Input::Receive(Instant::now(), packet)
            }
            None => Input::Timeout(Instant::now()),
        };
        rtc.handle_input(input)?;
    }
}

fn receive(at: SocketAddr) -> Outcome {
    let socket = socket::accepting(at)?;
    run(end(&socket, false)?, &socket, None)
}

fn send(to: SocketAddr, from_port: u16, most: Bitrate) -> Outcome {
    let socket = socket::connected(to, from_port)?;
    let mut rtc = end(&socket, true)?;
    rtc.bwe().set_desired_bitrate(most);
    run(rtc, &socket, Some(Video { most, rate: START.min(most), next: None, pictures: 0 }))
}

fn act(words: &[&str]) -> Outcome {
    str0m::crypto::from_feature_flags().install_process_default();
    // DTLS by itself takes AWS-LC, which draws from the processor's jitter: no seed reaches that.
    dimpl::crypto::CryptoProvider::install_default(dimpl::crypto::rust_crypto::default_provider());
    match words {
        ["receive", address, port] => receive(SocketAddr::new(address.parse()?, port.parse()?)),
        ["send", address, port, from_port, most] => {
            send(SocketAddr::new(address.parse()?, port.parse()?), from_port.parse()?, Bitrate::kbps(most.parse()?))
        }
        _ => Err("receive ADDRESS PORT | send ADDRESS PORT FROM_PORT MOST_KBPS".into()),
    }
}

fn main() {
    let words: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    if let Err(error) = act(&words) {
        eprintln!("webrtc: {error}");
        process::exit(1);
    }
}
