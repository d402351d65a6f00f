// SPDX-License-Identifier: Apache-2.0
//! The ECN counts in a packet's ACK frames (RFC 9000, 19.3.2) are found behind any other frame, and swapped in place.

#[path = "../../../../traffic/rust/origin/ack_frames.rs"]
mod ack_frames;

use ack_frames::swap_ect;

/// Largest 9, delay 1, one more range; ECT(0) 0, ECT(1) 300 in two bytes, CE 5.
const ACK: &[u8] = &[0x03, 9, 1, 1, 2, 0, 1, 0, 0x41, 0x2c, 5];
const SWAPPED: &[u8] = &[0x03, 9, 1, 1, 2, 0, 1, 0x41, 0x2c, 0, 5];

fn swapped(before: &[u8], after: &[u8]) -> Option<u64> {
    let mut packet = [before, ACK, after].concat();
    let ce = swap_ect(&mut packet);
    let expected = if ce.is_some() { SWAPPED } else { ACK };
    assert_eq!(packet, [before, expected, after].concat());
    ce
}

#[test]
fn counts_of_different_lengths_change_places() {
    assert_eq!(swapped(&[], &[]), Some(5));
}

#[test]
fn every_frame_before_is_skipped() {
    let frames: &[&[u8]] = &[
        &[0x00, 0x00],             // PADDING
        &[0x01],                   // PING
        &[0x02, 9, 1, 1, 2, 0, 1], // ACK without counts
        &[0x04, 4, 0x41, 0, 3],    // RESET_STREAM
        &[0x05, 4, 3],             // STOP_SENDING
        &[0x06, 0, 2, 3, 3],       // CRYPTO
        &[0x07, 1, 3],             // NEW_TOKEN
        &[0x0a, 4, 2, 3, 3],       // STREAM with a length
        &[0x0f, 4, 0x41, 0, 1, 3], // the same with an offset, the last
        &[0x10, 0x80, 0, 1, 0],    // MAX_DATA
        &[0x11, 4, 9],             // MAX_STREAM_DATA
        &[0x12, 9],                // MAX_STREAMS
        &[0x13, 9],
        &[0x14, 0xc0, 0, 0, 0, 0, 0, 1, 0], // DATA_BLOCKED
        &[0x15, 4, 9],                      // STREAM_DATA_BLOCKED
        &[0x16, 9],                         // STREAMS_BLOCKED
        &[0x17, 9],
        &[0x18, 1, 0, 2, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3], // NEW_CONNECTION_ID
        &[0x19, 9],                                                             // RETIRE_CONNECTION_ID
        &[0x1a, 3, 3, 3, 3, 3, 3, 3, 3],                                        // PATH_CHALLENGE
        &[0x1b, 3, 3, 3, 3, 3, 3, 3, 3],                                        // PATH_RESPONSE
        &[0x1e],                                                                // HANDSHAKE_DONE
        &[0x31, 2, 3, 3],                                                       // DATAGRAM with a length
    ];
    for frame in frames {
        assert_eq!(swapped(frame, &[]), Some(5), "{frame:x?}");
    }
    assert_eq!(swapped(&frames.concat(), &frames.concat()), Some(5));
}

#[test]
fn data_that_fill_the_packet_are_no_frames() {
    for last in [&[0x08, 4][..], &[0x0c, 4, 0], &[0x30]] {
        assert_eq!(swapped(last, &[]), None, "{last:x?}");
        assert_eq!(swapped(&[], &[last, ACK].concat()), Some(5), "{last:x?}");
    }
}

#[test]
fn the_last_of_several_counts_is_that_of_the_packet() {
    let mut packet = [ACK, ACK, &[0x03, 9, 1, 0, 2, 1, 0, 7]].concat();
    assert_eq!(swap_ect(&mut packet), Some(7));
    assert_eq!(packet, [SWAPPED, SWAPPED, &[0x03, 9, 1, 0, 2, 0, 1, 7]].concat());
}

#[test]
fn a_packet_that_ends_too_early_stays_as_it_is() {
    for length in 0..ACK.len() {
        let mut packet = ACK[..length].to_vec();
        assert_eq!((swap_ect(&mut packet), &packet[..]), (None, &ACK[..length]));
    }
    for endless in [&[0x06, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff][..], &[0x02, 9, 1, 0xff], &[0x21]] {
        assert_eq!(swapped(endless, &[]), None, "{endless:x?}");
    }
    let mut many = [&[0x03, 9, 1][..], &[0xff; 8], ACK].concat();
    assert_eq!(swap_ect(&mut many), None);
}
