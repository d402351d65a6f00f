// SPDX-License-Identifier: Apache-2.0
//! The ECN counts in the ACK frames of a decrypted packet (RFC 9000, 19.3.2).

/// Swaps the counts of ECT(0) and ECT(1); returns the count of CE, None in a packet without counts.
///
/// Stops at a frame that RFC 9000 and RFC 9221 do not define.
pub fn swap_ect(packet: &mut [u8]) -> Option<u64> {
    let mut reader = Reader { packet, at: 0 };
    let mut ce = None;
    while let Some(counts) = reader.next_counts() {
        reader.packet[counts.ect0..counts.end].rotate_left(counts.ect1 - counts.ect0);
        ce = Some(counts.ce);
    }
    ce
}

/// Where the counts of ECT(0) and ECT(1) begin, where that of ECT(1) ends, and the count of CE.
struct Counts {
    ect0: usize,
    ect1: usize,
    end: usize,
    ce: u64,
}

struct Reader<'a> {
    packet: &'a mut [u8],
    at: usize,
}

impl Reader<'_> {
    fn next_counts(&mut self) -> Option<Counts> {
        loop {
            match self.number()? {
                frame @ (0x02 | 0x03) => {
                    self.numbers(2)?;
                    let ranges = self.number()?;
                    self.numbers(1 + 2 * ranges)?;
                    if frame == 0x03 {
                        return self.counts();
                    }
                }
                0x00 | 0x01 | 0x1e => {}
                0x10 | 0x12..=0x14 | 0x16 | 0x17 | 0x19 => self.numbers(1)?,
                0x05 | 0x11 | 0x15 => self.numbers(2)?,
                0x04 => self.numbers(3)?,
                0x06 => {
                    self.numbers(1)?;
                    self.data()?;
                }
                0x07 | 0x31 => self.data()?,
                stream @ 0x08..=0x0f => {
                    self.numbers(1 + (stream >> 2 & 1))?;
                    // Without a length, the data fill the packet.
                    (stream & 0x02 != 0).then_some(())?;
                    self.data()?;
                }
                0x18 => {
                    self.numbers(2)?;
                    self.data()?;
                    self.skip(16)?;
                }
                0x1a | 0x1b => self.skip(8)?,
                _ => return None,
            }
        }
    }

    fn counts(&mut self) -> Option<Counts> {
        let ect0 = self.at;
        self.numbers(1)?;
        let ect1 = self.at;
        self.numbers(1)?;
        let end = self.at;
        Some(Counts { ect0, ect1, end, ce: self.number()? })
    }

    fn skip(&mut self, bytes: u64) -> Option<()> {
        let left = self.packet.len() - self.at;
        self.at += usize::try_from(bytes).ok().filter(|bytes| *bytes <= left)?;
        Some(())
    }

    /// Skips data that follow their length.
    fn data(&mut self) -> Option<()> {
        let bytes = self.number()?;
        self.skip(bytes)
    }

    /// Skips so many numbers.
    fn numbers(&mut self, count: u64) -> Option<()> {
        (0..count).try_for_each(|_| self.number().map(drop))
    }

    /// Reads a variable-length integer (RFC 9000, 16).
    fn number(&mut self) -> Option<u64> {
        let begin = self.at;
        let first = *self.packet.get(begin)?;
        self.skip(1 << (first >> 6))?;
        let rest = &self.packet[begin + 1..self.at];
        Some(rest.iter().fold(u64::from(first & 0x3f), |number, byte| number << 8 | u64::from(*byte)))
    }
}
