//! A Redis client with as much as the feed needs: commands written in one go, replies read into one buffer.

use std::io;
use std::ops::Range;
use std::sync::Mutex;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Connections to one server. A request has one for itself; one whose request was given up is closed, never used again.
pub struct Server {
    port: u16,
    idle: Mutex<Vec<TcpStream>>,
}

/// What came back: values in the order of the keys, wherever they lie in the buffer.
pub struct Replies {
    bytes: Vec<u8>,
    values: Vec<Option<Range<usize>>>,
}

impl Replies {
    pub fn get(&self, place: usize) -> Option<&[u8]> {
        self.values[place]
            .as_ref()
            .map(|range| &self.bytes[range.clone()])
    }
}

impl Server {
    pub fn new(port: u16) -> Self {
        Self {
            port,
            idle: Mutex::default(),
        }
    }

    /// Sends `commands` and waits for the replies to so many; nested ones (of MGET) count as their parts.
    pub async fn ask(&self, commands: &[u8], expected: usize) -> io::Result<Replies> {
        let idle = self.idle.lock().expect("no thread died with it").pop();
        let (mut stream, is_new) = match idle {
            Some(stream) => (stream, false),
            None => (connected(self.port).await?, true),
        };
        match exchanged(&mut stream, commands, expected).await {
            Err(error) if !is_new && error.kind() != io::ErrorKind::InvalidData => {
                // The server was started anew meanwhile: what is idle is of its life before.
                self.idle.lock().expect("no thread died with it").clear();
                stream = connected(self.port).await?;
                let replies = exchanged(&mut stream, commands, expected).await?;
                self.idle
                    .lock()
                    .expect("no thread died with it")
                    .push(stream);
                Ok(replies)
            }
            Err(error) => Err(error),
            Ok(replies) => {
                self.idle
                    .lock()
                    .expect("no thread died with it")
                    .push(stream);
                Ok(replies)
            }
        }
    }
}

async fn connected(port: u16) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(("127.0.0.1", port)).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

async fn exchanged(
    stream: &mut TcpStream,
    commands: &[u8],
    expected: usize,
) -> io::Result<Replies> {
    stream.write_all(commands).await?;
    let mut replies = Replies {
        bytes: Vec::with_capacity(64 * 1024),
        values: Vec::with_capacity(expected),
    };
    let mut at = 0;
    while replies.values.len() < expected {
        if stream.read_buf(&mut replies.bytes).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        while let Some((value, end)) = next_value(&replies.bytes, at)? {
            at = end;
            replies.values.extend(value);
        }
    }
    Ok(replies)
}

/// The value that begins at `at` and where it ends; None when not all of it has come. A list's head is no value.
#[allow(clippy::type_complexity)]
fn next_value(
    bytes: &[u8],
    at: usize,
) -> io::Result<Option<(Option<Option<Range<usize>>>, usize)>> {
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

/// Redis's own error, or something that is no reply.
fn refused(head: &[u8]) -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        String::from_utf8_lossy(head).into_owned(),
    )
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
