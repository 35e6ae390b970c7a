//! The frame around what one flush wrote. A recording is chunks behind each other, of one process or of many: files of
//! several processes are merged by putting them behind each other. Each chunk defines the texts that it uses.
//!
//! | bytes | field |
//! |---|---|
//! | 4 | magic `\x89GLR` |
//! | 2 | version, 1 |
//! | 2 | length of this header, 48 |
//! | 8 | process: a random number, new in each process and after each fork |
//! | 4 | sequence number within the process, from 0 |
//! | 4 | events lost so far because a buffer was full |
//! | 8 | base of the times, ns |
//! | 4 | length of the payload |
//! | 4 | CRC-32 (IEEE) of the payload |
//! | 4 | process id |
//! | 4 | 0 |
//!
//! All little-endian. A reader skips header bytes beyond those it knows.

/// First bytes of each chunk.
pub const MAGIC: [u8; 4] = [0x89, b'G', b'L', b'R'];
/// Of the format.
pub const VERSION: u16 = 1;
/// Of the header, bytes.
pub const HEADER: usize = 48;

/// What stands before a payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    pub process: u64,
    pub pid: u32,
    pub sequence: u32,
    pub lost: u32,
    pub base_ns: u64,
    pub length: u32,
    pub crc: u32,
}

/// Why no header could be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// Fewer bytes than a header.
    Short,
    /// Other bytes than ours.
    Foreign,
    /// Of this later version.
    Newer(u16),
}

impl Header {
    /// As bytes.
    pub fn to_bytes(self) -> [u8; HEADER] {
        let mut bytes = [0; HEADER];
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[4..6].copy_from_slice(&VERSION.to_le_bytes());
        bytes[6..8].copy_from_slice(&(HEADER as u16).to_le_bytes());
        bytes[8..16].copy_from_slice(&self.process.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.sequence.to_le_bytes());
        bytes[20..24].copy_from_slice(&self.lost.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.base_ns.to_le_bytes());
        bytes[32..36].copy_from_slice(&self.length.to_le_bytes());
        bytes[36..40].copy_from_slice(&self.crc.to_le_bytes());
        bytes[40..44].copy_from_slice(&self.pid.to_le_bytes());
        bytes
    }

    /// The header at the start of `bytes`, and how long it is.
    pub fn read(bytes: &[u8]) -> Result<(Self, usize), Refused> {
        if bytes.len() >= 4 && bytes[..4] != MAGIC {
            return Err(Refused::Foreign);
        }
        if bytes.len() < HEADER {
            return Err(Refused::Short);
        }
        let (version, length) = (u16_at(bytes, 4), usize::from(u16_at(bytes, 6)));
        if version != VERSION {
            return Err(Refused::Newer(version));
        }
        if length < HEADER {
            return Err(Refused::Foreign);
        }
        let header = Self {
            process: u64_at(bytes, 8),
            sequence: u32_at(bytes, 16),
            lost: u32_at(bytes, 20),
            base_ns: u64_at(bytes, 24),
            length: u32_at(bytes, 32),
            crc: u32_at(bytes, 36),
            pid: u32_at(bytes, 40),
        };
        Ok((header, length))
    }
}

/// A whole chunk.
pub fn frame(mut header: Header, payload: &[u8]) -> Vec<u8> {
    header.length = u32::try_from(payload.len()).expect("a flush is far below 4 GiB");
    header.crc = checksum(payload);
    let mut bytes = Vec::with_capacity(HEADER + payload.len());
    bytes.extend_from_slice(&header.to_bytes());
    bytes.extend_from_slice(payload);
    bytes
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

/// What a chunk says of its bytes: CRC-32.
pub fn checksum(bytes: &[u8]) -> u32 {
    crc32fast::hash(bytes)
}
