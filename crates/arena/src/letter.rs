//! The form of a message between a worker and its parent, which both ends are of one build of.
//!
//! ```text
//! header   kind, whether the body is inline, whether it names `__main__`, number of buffers, call id, deadline or 0
//! body     where each buffer is; length of the pickle; the pickle; the small buffers, one after the other
//! ```
//!
//! A body of up to 32 kB stands in the message itself; a longer one lies in a block, and its place is in the message. A
//! message without buffers has the pickle as its body.

pub const HEADER_BYTES: usize = 24;
pub const PLACE_BYTES: usize = 24;
/// Copied twice through the kernel at some 10 GB/s: cheaper than a block up to here.
pub const INLINE_BYTES: usize = 32 << 10;
/// Smaller buffers are copied with the message and out of it: at 10 GB/s 6 us, about what a block's book-keeping costs.
/// So no small array, however long it is kept, takes a block.
pub const SMALL_BYTES: usize = 64 << 10;

#[derive(Clone, Copy)]
pub struct Header {
    pub kind: u8,
    pub inline: bool,
    pub names_main: bool,
    pub buffers: u32,
    pub call_id: u64,
    pub extra: u64,
}

impl Header {
    pub fn write(self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[0] = self.kind;
        bytes[1] = u8::from(self.inline);
        bytes[2] = u8::from(self.names_main);
        bytes[4..8].copy_from_slice(&self.buffers.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.call_id.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.extra.to_le_bytes());
        bytes
    }

    /// None if the message is too short for one.
    pub fn read(message: &[u8]) -> Option<Self> {
        Some(Self {
            kind: *message.first()?,
            inline: *message.get(1)? != 0,
            names_main: *message.get(2)? != 0,
            buffers: number32(message, 4)?,
            call_id: number64(message, 8)?,
            extra: number64(message, 16)?,
        })
    }
}

/// Where a buffer is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Place {
    /// In a block of the sender's segment, whose flag is this word.
    Block {
        word: u32,
        offset: usize,
        length: usize,
    },
    /// In the memory file that comes with the message.
    File { offset: usize, length: usize },
    /// In memory that both sides have, whose flag is this word.
    Common {
        word: u32,
        offset: usize,
        length: usize,
    },
    /// In the body, after the pickle.
    Small { length: usize },
}

impl Place {
    pub fn write(self) -> [u8; PLACE_BYTES] {
        let (kind, word, offset, length) = match self {
            Self::Block {
                word,
                offset,
                length,
            } => (0_u32, word, offset, length),
            Self::File { offset, length } => (1, 0, offset, length),
            Self::Small { length } => (2, 0, 0, length),
            Self::Common {
                word,
                offset,
                length,
            } => (3, word, offset, length),
        };
        let mut bytes = [0; PLACE_BYTES];
        bytes[..4].copy_from_slice(&kind.to_le_bytes());
        bytes[4..8].copy_from_slice(&word.to_le_bytes());
        bytes[8..16].copy_from_slice(&(offset as u64).to_le_bytes());
        bytes[16..24].copy_from_slice(&(length as u64).to_le_bytes());
        bytes
    }

    /// None if there is none at `at`.
    pub fn read(bytes: &[u8], at: usize) -> Option<Self> {
        let word = number32(bytes, at.checked_add(4)?)?;
        let offset = usize::try_from(number64(bytes, at + 8)?).ok()?;
        let length = usize::try_from(number64(bytes, at + 16)?).ok()?;
        match number32(bytes, at)? {
            0 => Some(Self::Block {
                word,
                offset,
                length,
            }),
            1 => Some(Self::File { offset, length }),
            2 => Some(Self::Small { length }),
            3 => Some(Self::Common {
                word,
                offset,
                length,
            }),
            _ => None,
        }
    }
}

/// The number at `at`; None if the bytes end before.
pub fn number64(bytes: &[u8], at: usize) -> Option<u64> {
    let part = bytes.get(at..at.checked_add(8)?)?;
    Some(u64::from_le_bytes(part.try_into().ok()?))
}

fn number32(bytes: &[u8], at: usize) -> Option<u32> {
    let part = bytes.get(at..at.checked_add(4)?)?;
    Some(u32::from_le_bytes(part.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let header = Header {
            kind: 3,
            inline: true,
            names_main: false,
            buffers: 70_000,
            call_id: u64::MAX - 1,
            extra: 1 << 40,
        };
        let read = Header::read(&header.write()).unwrap();
        assert_eq!(
            (read.kind, read.inline, read.names_main, read.buffers),
            (3, true, false, 70_000)
        );
        assert_eq!((read.call_id, read.extra), (u64::MAX - 1, 1 << 40));
        for place in [
            Place::Block {
                word: 7,
                offset: 64,
                length: 1 << 33,
            },
            Place::File {
                offset: 0,
                length: 1,
            },
            Place::Small { length: 9 },
            Place::Common {
                word: 1,
                offset: 128,
                length: 70_000,
            },
        ] {
            let bytes = [[0; PLACE_BYTES], place.write()].concat();
            assert_eq!(Place::read(&bytes, PLACE_BYTES), Some(place));
        }
    }

    #[test]
    fn a_message_that_ends_early_is_none() {
        assert!(Header::read(&[1; HEADER_BYTES - 1]).is_none());
        assert_eq!(Place::read(&[0; PLACE_BYTES - 1], 0), None);
        assert_eq!(Place::read(&[9; PLACE_BYTES], 0), None);
        assert_eq!(number64(&[0; 8], usize::MAX), None);
    }
}
