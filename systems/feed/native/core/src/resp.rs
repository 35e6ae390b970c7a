//! Redis's protocol, as much as fetching packed records needs; bytes only, no sockets.

use std::fmt;
use std::ops::Range;

/// Replies as they come in, in one buffer: values in the order of the keys. Nested ones (of MGET) count as their parts.
pub struct Replies {
    bytes: Vec<u8>,
    values: Vec<Option<Range<usize>>>,
    expected: usize,
    /// What has been read of `bytes`.
    at: usize,
}

/// Redis's own error, or something that is no reply.
#[derive(Debug)]
pub struct Refused(pub String);

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Refused {}

impl Replies {
    pub fn new(expected: usize) -> Self {
        let bytes = Vec::with_capacity(64 * 1024);
        Self {
            bytes,
            values: Vec::with_capacity(expected),
            expected,
            at: 0,
        }
    }

    /// Where the socket's bytes are to be appended; then `read`.
    pub fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// Reads what has come; true when all values are there.
    pub fn read(&mut self) -> Result<bool, Refused> {
        while self.values.len() < self.expected {
            let Some((value, end)) = next_value(&self.bytes, self.at)? else {
                return Ok(false);
            };
            self.at = end;
            self.values.extend(value);
        }
        Ok(true)
    }

    /// Bytes behind the last value: the begin of other replies.
    pub fn rest(&self) -> usize {
        self.bytes.len() - self.at
    }

    pub fn get(&self, place: usize) -> Option<&[u8]> {
        self.values[place]
            .as_ref()
            .map(|range| &self.bytes[range.clone()])
    }
}

/// The value that begins at `at` and where it ends; None when not all of it has come. A list's head is no value.
#[allow(clippy::type_complexity)]
fn next_value(
    bytes: &[u8],
    at: usize,
) -> Result<Option<(Option<Option<Range<usize>>>, usize)>, Refused> {
    let Some(line) = bytes[at..].windows(2).position(|pair| pair == b"\r\n") else {
        return Ok(None);
    };
    let (head, after) = (&bytes[at..at + line], at + line + 2);
    match head.first() {
        Some(b'*') => Ok(Some((None, after))),
        Some(b'+' | b':') => Ok(Some((Some(Some(at + 1..at + line)), after))),
        Some(b'$') if head == b"$-1" => Ok(Some((Some(None), after))),
        Some(b'$') => {
            let length = std::str::from_utf8(&head[1..])
                .ok()
                .and_then(|text| text.parse::<usize>().ok());
            let end = after + length.ok_or_else(|| refused(head))?;
            Ok((bytes.len() >= end + 2).then_some((Some(Some(after..end)), end + 2)))
        }
        _ => Err(refused(head)),
    }
}

fn refused(head: &[u8]) -> Refused {
    Refused(String::from_utf8_lossy(head).into_owned())
}

/// Appends a command in Redis's protocol.
pub fn command(into: &mut Vec<u8>, parts: &[&[u8]]) {
    head(into, b'*', parts.len());
    for part in parts {
        argument(into, part);
    }
}

pub fn head(into: &mut Vec<u8>, kind: u8, count: usize) {
    into.push(kind);
    decimal(into, count as u64);
    into.extend_from_slice(b"\r\n");
}

pub fn argument(into: &mut Vec<u8>, part: &[u8]) {
    head(into, b'$', part.len());
    into.extend_from_slice(part);
    into.extend_from_slice(b"\r\n");
}

/// Appends a number in decimal; formatting machinery would cost as much as the rest of a command.
pub fn decimal(into: &mut Vec<u8>, number: u64) {
    let mut digits = [0; 20];
    let mut at = digits.len();
    let mut rest = number;
    loop {
        at -= 1;
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    into.extend_from_slice(&digits[at..]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_written_as_redis_reads_them() {
        let mut bytes = Vec::new();
        command(&mut bytes, &[b"GET", b"a b"]);
        assert_eq!(bytes, b"*2\r\n$3\r\nGET\r\n$3\r\na b\r\n");
        bytes.clear();
        decimal(&mut bytes, 0);
        decimal(&mut bytes, 1_234_567_890);
        assert_eq!(bytes, b"01234567890");
    }

    #[test]
    fn a_reply_in_pieces_is_read_when_it_is_whole() {
        let whole = b"*3\r\n$3\r\na\r\n\r\n$-1\r\n$0\r\n\r\n+OK\r\n";
        let mut values = Vec::new();
        let mut at = 0;
        for end in 0..=whole.len() {
            while let Some((value, next)) = next_value(&whole[..end], at).expect("a reply") {
                at = next;
                values.extend(value.map(|range| range.map(|range| &whole[range])));
            }
        }
        assert_eq!(at, whole.len());
        assert_eq!(values, [Some(&b"a\r\n"[..]), None, Some(b""), Some(b"OK")]);
        assert!(next_value(b"-MOVED 1 127.0.0.1:1\r\n", 0).is_err());
    }
}
