// SPDX-License-Identifier: Apache-2.0
//! One bulk flow over QUIC (quinn, or noq with that feature): `receive ADDRESS PORT` takes one connection,
//! `send ADDRESS PORT FROM_PORT CONTROL` fills a stream until it is killed. CONTROL: cubic, newreno, and bbr of quinn
//! or bbr3 of noq, as the library has them; on noq also ours: ledbatpp, and prague with `receive ADDRESS PORT prague`.

#[cfg(feature = "noq")]
mod base_delay;
mod certificate;
#[cfg(feature = "noq")]
mod ect1;
#[cfg(feature = "noq")]
mod ledbat;
#[cfg(feature = "noq")]
mod ledbat_control;
#[cfg(feature = "noq")]
mod prague;
#[cfg(feature = "noq")]
mod prague_control;

use std::{
    env,
    error::Error,
    net::{SocketAddr, UdpSocket},
    process,
    sync::Arc,
};

use certificate::{CERTIFICATE, KEY};
#[cfg(feature = "noq")]
use noq::{self as quinn, congestion::Bbr3Config as BbrConfig};
#[cfg(not(feature = "noq"))]
use quinn::congestion::BbrConfig;
use quinn::{
    congestion::{ControllerFactory, CubicConfig, NewRenoConfig},
    crypto::rustls::QuicClientConfig,
    ClientConfig, Endpoint, EndpointConfig, Runtime, ServerConfig, TokioRuntime, TransportConfig, VarInt,
};
use rustls::{
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    crypto::{verify_tls12_signature, verify_tls13_signature, CryptoProvider},
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime},
    DigitallySignedStruct, SignatureScheme,
};

type Outcome = Result<(), Box<dyn Error>>;

const NAME: &str = "receiver";
const BBR: &str = if cfg!(feature = "noq") { "bbr3" } else { "bbr" };
/// Above any bandwidth-delay product here, with its queue: windows never limit.
const WINDOW: u32 = 64 << 20;
/// The same of what the sender keeps, in memory, until it is acknowledged.
const KEPT: u64 = 8 << 20;
const WRITE: usize = 64 << 10;

fn transport(control: Option<Arc<dyn ControllerFactory + Send + Sync>>) -> Arc<TransportConfig> {
    let mut config = TransportConfig::default();
    config
        .stream_receive_window(VarInt::from_u32(WINDOW))
        .receive_window(VarInt::from_u32(WINDOW))
        .send_window(KEPT)
        // As with the other flows: a queue sees the packets that a wire would.
        .enable_segmentation_offload(false);
    if let Some(factory) = control {
        config.congestion_controller_factory(factory);
    }
    Arc::new(config)
}

/// Takes any certificate: the receiver's is its own.
#[derive(Debug)]
struct Anyone(Arc<CryptoProvider>);

impl ServerCertVerifier for Anyone {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, cert, signed, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, cert, signed, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

/// What a flow of that control runs on.
fn runtime(control: &str) -> Arc<dyn Runtime> {
    match control {
        #[cfg(feature = "noq")]
        "prague" => Arc::new(ect1::Ect1Runtime),
        _ => Arc::new(TokioRuntime),
    }
}

async fn receive(at: SocketAddr, control: &str) -> Outcome {
    let key = PrivateKeyDer::Pkcs8(KEY.into());
    let mut config = ServerConfig::with_single_cert(vec![CERTIFICATE.into()], key)?;
    config.transport_config(transport(None));
    let endpoint = Endpoint::new(EndpointConfig::default(), Some(config), UdpSocket::bind(at)?, runtime(control))?;
    let connection = endpoint.accept().await.ok_or("no connection")?.await?;
    let mut stream = connection.accept_uni().await?;
    #[cfg(feature = "noq")]
    while stream.read_chunk(WRITE).await?.is_some() {}
    #[cfg(not(feature = "noq"))]
    while stream.read_chunk(WRITE, true).await?.is_some() {}
    Ok(())
}

async fn send(to: SocketAddr, from_port: u16, control: &str) -> Outcome {
    let factory: Arc<dyn ControllerFactory + Send + Sync> = match control {
        "cubic" => Arc::new(CubicConfig::default()),
        "newreno" => Arc::new(NewRenoConfig::default()),
        BBR => Arc::new(BbrConfig::default()),
        #[cfg(feature = "noq")]
        "ledbatpp" => Arc::new(ledbat::LedbatConfig),
        #[cfg(feature = "noq")]
        "prague" => Arc::new(prague::PragueConfig),
        other => return Err(format!("congestion control {other}; known: cubic, newreno, {BBR}").into()),
    };
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let tls = rustls::ClientConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Anyone(provider)))
        .with_no_client_auth();
    let mut config = ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls)?));
    config.transport_config(transport(Some(factory)));
    let socket = UdpSocket::bind(SocketAddr::from(([0, 0, 0, 0], from_port)))?;
    let endpoint = Endpoint::new(EndpointConfig::default(), None, socket, runtime(control))?;
    let connection = endpoint.connect_with(config, to, NAME)?.await?;
    let mut stream = connection.open_uni().await?;
    let block = vec![0; WRITE];
    loop {
        stream.write_all(&block).await?;
    }
}

async fn run(words: &[&str]) -> Outcome {
    match words {
        ["receive", address, port, control @ ..] if control.len() < 2 => {
            receive(SocketAddr::new(address.parse()?, port.parse()?), control.first().unwrap_or(&"")).await
        }
        ["send", address, port, from_port, control] => {
            send(SocketAddr::new(address.parse()?, port.parse()?), from_port.parse()?, control).await
        }
        _ => Err("receive ADDRESS PORT [CONTROL] | send ADDRESS PORT FROM_PORT CONTROL".into()),
    }
}

fn main() {
    let words: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    if let Err(error) = runtime.block_on(run(&words)) {
        eprintln!("quic: {error}");
        process::exit(1);
    }
}
