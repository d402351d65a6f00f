// SPDX-License-Identifier: Apache-2.0
//! Makes a browser's counts of ECT(1) acceptable to noq, which ends ECN when the peer reports ECT(1), and reports an
//! acknowledgement with marks as one event. TLS swaps the counts of ECT(0) and ECT(1) in every packet that it decrypts,
//! and keeps the count of CE.

use std::cell::Cell;

use rustls::{
    crypto::{
        cipher::{AeadKey, Iv},
        CipherSuiteCommon, CryptoProvider,
    },
    quic::{Algorithm, HeaderProtectionKey, PacketKey, Tag},
    Error, SupportedCipherSuite, Tls13CipherSuite,
};

use crate::ack_frames::swap_ect;

thread_local! {
    /// noq decrypts a packet and hands its acknowledgement to the congestion control in one go, on the only thread.
    static CE: Cell<u64> = const { Cell::new(0) };
}

/// The count of CE in the last packet decrypted that has one.
pub fn ce() -> u64 {
    CE.get()
}

/// Lets the cipher suites of TLS 1.3 swap the counts; they serve as long as the program runs.
pub fn with_swapped_counts(mut provider: CryptoProvider) -> CryptoProvider {
    for suite in &mut provider.cipher_suites {
        let Some(plain) = suite.tls13() else { continue };
        let Some(algorithm) = plain.quic else { continue };
        let common = CipherSuiteCommon {
            suite: plain.common.suite,
            hash_provider: plain.common.hash_provider,
            confidentiality_limit: plain.common.confidentiality_limit,
        };
        let quic: &dyn Algorithm = Box::leak(Box::new(Swapping(algorithm)));
        let (hkdf_provider, aead_alg) = (plain.hkdf_provider, plain.aead_alg);
        let swapping = Tls13CipherSuite { common, hkdf_provider, aead_alg, quic: Some(quic) };
        *suite = SupportedCipherSuite::Tls13(Box::leak(Box::new(swapping)));
    }
    provider
}

struct Swapping(&'static dyn Algorithm);

impl Algorithm for Swapping {
    fn packet_key(&self, key: AeadKey, iv: Iv) -> Box<dyn PacketKey> {
        Box::new(SwappingKey(self.0.packet_key(key, iv)))
    }

    fn header_protection_key(&self, key: AeadKey) -> Box<dyn HeaderProtectionKey> {
        self.0.header_protection_key(key)
    }

    fn aead_key_len(&self) -> usize {
        self.0.aead_key_len()
    }
}

struct SwappingKey(Box<dyn PacketKey>);

impl PacketKey for SwappingKey {
    fn encrypt_in_place(&self, packet: u64, header: &[u8], payload: &mut [u8]) -> Result<Tag, Error> {
        self.0.encrypt_in_place(packet, header, payload)
    }

    fn encrypt_in_place_for_path(
        &self,
        path: u32,
        packet: u64,
        header: &[u8],
        payload: &mut [u8],
    ) -> Result<Tag, Error> {
        self.0.encrypt_in_place_for_path(path, packet, header, payload)
    }

    fn decrypt_in_place<'a>(&self, packet: u64, header: &[u8], payload: &'a mut [u8]) -> Result<&'a [u8], Error> {
        let length = self.0.decrypt_in_place(packet, header, payload)?.len();
        Ok(swapped(&mut payload[..length]))
    }

    fn decrypt_in_place_for_path<'a>(
        &self,
        path: u32,
        packet: u64,
        header: &[u8],
        payload: &'a mut [u8],
    ) -> Result<&'a [u8], Error> {
        let length = self.0.decrypt_in_place_for_path(path, packet, header, payload)?.len();
        Ok(swapped(&mut payload[..length]))
    }

    fn tag_len(&self) -> usize {
        self.0.tag_len()
    }

    fn confidentiality_limit(&self) -> u64 {
        self.0.confidentiality_limit()
    }

    fn integrity_limit(&self) -> u64 {
        self.0.integrity_limit()
    }
}

fn swapped(payload: &mut [u8]) -> &[u8] {
    if let Some(ce) = swap_ect(payload) {
        CE.set(ce);
    }
    payload
}
