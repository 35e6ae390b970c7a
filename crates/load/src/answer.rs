//! An HTTP/1 answer as its bytes come in: where it ends, its status, whether its connection may go on (RFC 9112 §6.3).

use crate::plan::FailureReason;
use httparse::{parse_chunk_size, Header, Response, Status, EMPTY_HEADER};

/// A longer head is no server's: nginx and gunicorn send at most 8 to 64 kB.
pub const MOST_HEAD_BYTES: usize = 64 << 10;
const MOST_HEADERS: usize = 128;
/// The size of a chunk with its extensions, or one trailer. Arbitrary; real ones have some ten bytes.
const MOST_LINE_BYTES: usize = 8 << 10;
/// Up to this many bytes a head is parsed at each read, to detect rubbish early; later at its empty line only.
const EAGER_BYTES: usize = 64;

/// One answer, and after `begin` the next on the same connection.
#[derive(Debug, Default)]
pub struct Answer {
    /// Number in the header that the caller named; 0 = none.
    pub worker: i32,
    pub status: i16,
    /// Any byte was received.
    pub begun: bool,
    /// It is complete and its connection may carry another request.
    pub reusable: bool,
    /// Its head allows that.
    keeps: bool,
    head_only: bool,
    /// Of a head that comes in parts: what is there.
    head: Vec<u8>,
    body: Body,
}

#[derive(Debug, Default)]
enum Body {
    /// The head is not over.
    #[default]
    Head,
    /// How many bytes are missing; 0 = it is over.
    Length(u64),
    Chunks(Chunks),
    UntilClose,
}

impl Answer {
    /// Ready for the answer to the next request.
    pub fn begin(&mut self, head_only: bool) {
        let mut head = std::mem::take(&mut self.head);
        head.clear();
        *self = Self {
            head,
            head_only,
            ..Self::default()
        };
    }

    /// Takes bytes; true = the answer is complete. Bytes behind its end make the connection unfit for another.
    pub fn feed(&mut self, bytes: &[u8], worker_header: &str) -> Result<bool, FailureReason> {
        self.begun |= !bytes.is_empty();
        let mut rest = bytes;
        while let Body::Head = self.body {
            match self.feed_head(rest, worker_header)? {
                Some(behind) => rest = behind,
                None => return Ok(false),
            }
        }
        let behind = match &mut self.body {
            Body::Head => unreachable!("the loop above ends with a body"),
            Body::Length(missing) => {
                let taken = rest
                    .len()
                    .min(usize::try_from(*missing).unwrap_or(usize::MAX));
                *missing -= taken as u64;
                (*missing == 0).then_some(&rest[taken..])
            }
            Body::Chunks(chunks) => chunks.feed(rest)?,
            Body::UntilClose => None,
        };
        self.reusable = self.keeps && behind.is_some_and(<[u8]>::is_empty);
        Ok(behind.is_some())
    }

    /// The connection has ended; true = that completes the answer.
    pub fn end(&mut self) -> bool {
        matches!(self.body, Body::UntilClose)
    }

    /// What is behind the head, once it is over; `body` then says how to read on, or is `Head` again after a 1xx.
    fn feed_head<'a>(
        &mut self,
        bytes: &'a [u8],
        worker_header: &str,
    ) -> Result<Option<&'a [u8]>, FailureReason> {
        let before = self.head.len();
        if before == 0 {
            if let Some(length) = self.parse(bytes, worker_header)? {
                return Ok(Some(&bytes[length..]));
            }
            self.head.extend_from_slice(bytes);
        } else {
            self.head.extend_from_slice(bytes);
            if self.head.len() <= EAGER_BYTES || has_empty_line(&self.head, before) {
                let head = std::mem::take(&mut self.head);
                let parsed = self.parse(&head, worker_header);
                self.head = head;
                if let Some(length) = parsed? {
                    self.head.clear();
                    return Ok(Some(&bytes[length - before..]));
                }
            }
        }
        if self.head.len() > MOST_HEAD_BYTES {
            return Err(FailureReason::EndlessHead);
        }
        Ok(None)
    }

    fn parse(&mut self, head: &[u8], worker_header: &str) -> Result<Option<usize>, FailureReason> {
        let mut headers = [EMPTY_HEADER; MOST_HEADERS];
        let mut response = Response::new(&mut headers);
        let length = match response.parse(head) {
            Ok(Status::Complete(length)) => length,
            Ok(Status::Partial) => return Ok(None),
            Err(httparse::Error::TooManyHeaders) => return Err(FailureReason::EndlessHead),
            Err(_) => return Err(FailureReason::Rubbish),
        };
        let status = response.code.unwrap_or(0);
        if (100..200).contains(&status) && status != 101 {
            return Ok(Some(length)); // an interim answer: the real one follows
        }
        self.status = status as i16;
        let said = Framing::of(response.headers, worker_header)?;
        self.worker = said.worker;
        self.keeps = match response.version {
            Some(1) => !said.close,
            _ => said.keep_alive,
        };
        self.body = if status == 101 {
            self.keeps = false;
            Body::Length(0)
        } else if self.head_only || status == 204 || status == 304 {
            Body::Length(0)
        } else if said.chunked {
            Body::Chunks(Chunks::default())
        } else {
            said.length.map_or(Body::UntilClose, Body::Length)
        };
        Ok(Some(length))
    }
}

/// What of a head matters here.
#[derive(Default)]
struct Framing {
    length: Option<u64>,
    chunked: bool,
    close: bool,
    keep_alive: bool,
    worker: i32,
}

impl Framing {
    fn of(headers: &[Header<'_>], worker_header: &str) -> Result<Self, FailureReason> {
        let mut said = Self::default();
        for header in headers {
            let text = std::str::from_utf8(header.value).unwrap_or("").trim();
            if header.name.eq_ignore_ascii_case("content-length") {
                let length = text.parse().map_err(|_| FailureReason::Rubbish)?;
                if said.length.is_some_and(|other| other != length) {
                    return Err(FailureReason::Rubbish);
                }
                said.length = Some(length);
            } else if header.name.eq_ignore_ascii_case("transfer-encoding") {
                said.chunked |= names(text).any(|name| name.eq_ignore_ascii_case("chunked"));
            } else if header.name.eq_ignore_ascii_case("connection") {
                said.close |= names(text).any(|name| name.eq_ignore_ascii_case("close"));
                said.keep_alive |= names(text).any(|name| name.eq_ignore_ascii_case("keep-alive"));
            }
            if header.name.eq_ignore_ascii_case(worker_header) {
                said.worker = text.parse().unwrap_or(0);
            }
        }
        Ok(said)
    }
}

fn names(list: &str) -> impl Iterator<Item = &str> {
    list.split(',').map(str::trim)
}

/// An empty line that ends at or behind `from`.
fn has_empty_line(head: &[u8], from: usize) -> bool {
    let near = &head[from.saturating_sub(3)..];
    near.windows(2).any(|two| two == b"\n\n") || near.windows(3).any(|three| three == b"\n\r\n")
}

/// A chunked body (RFC 9112 §7.1).
#[derive(Debug, Default)]
struct Chunks {
    at: At,
    /// Of a line that comes in parts.
    line: Vec<u8>,
}

#[derive(Debug, Default)]
enum At {
    #[default]
    Size,
    /// How many bytes of the chunk and its line end are missing.
    Content(u64),
    /// Behind the last chunk: lines up to an empty one.
    Trailer,
}

impl Chunks {
    /// What is behind the body, once it is over.
    fn feed<'a>(&mut self, bytes: &'a [u8]) -> Result<Option<&'a [u8]>, FailureReason> {
        let mut rest = bytes;
        loop {
            if let At::Content(missing) = &mut self.at {
                let taken = rest
                    .len()
                    .min(usize::try_from(*missing).unwrap_or(usize::MAX));
                *missing -= taken as u64;
                rest = &rest[taken..];
                if *missing > 0 {
                    return Ok(None);
                }
                self.at = At::Size;
            }
            let Some(end) = rest.iter().position(|&byte| byte == b'\n') else {
                self.line.extend_from_slice(rest);
                return if self.line.len() > MOST_LINE_BYTES {
                    Err(FailureReason::Rubbish)
                } else {
                    Ok(None)
                };
            };
            self.line.extend_from_slice(&rest[..=end]);
            rest = &rest[end + 1..];
            let over = self.read_line();
            self.line.clear();
            if over? {
                return Ok(Some(rest));
            }
        }
    }

    /// True = it was the last.
    fn read_line(&mut self) -> Result<bool, FailureReason> {
        if let At::Trailer = self.at {
            return Ok(self.line == b"\r\n" || self.line == b"\n");
        }
        let Ok(Status::Complete((_, size))) = parse_chunk_size(&self.line) else {
            return Err(FailureReason::Rubbish);
        };
        self.at = match size {
            0 => At::Trailer,
            _ => At::Content(size.checked_add(2).ok_or(FailureReason::Rubbish)?),
        };
        Ok(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
    const CHUNKED: &str = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\nabc\r\n1\r\nd\r\n0\r\nT: v\r\n\r\n";

    fn fed(parts: &[&[u8]], head_only: bool) -> (Result<bool, FailureReason>, Answer) {
        let mut answer = Answer::default();
        answer.begin(head_only);
        let mut last = Ok(false);
        for part in parts {
            assert_eq!(last, Ok(false), "complete before its end");
            last = answer.feed(part, "x-worker");
        }
        (last, answer)
    }

    fn whole(text: &str) -> (Result<bool, FailureReason>, Answer) {
        fed(&[text.as_bytes()], false)
    }

    #[test]
    fn an_answer_ends_where_it_ends_however_it_is_cut() {
        for text in [
            OK,
            CHUNKED,
            "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No\r\nX-Worker: 7\r\n\r\n",
        ] {
            let bytes = text.as_bytes();
            for cut in 0..bytes.len() {
                let (last, answer) = fed(&[&bytes[..cut], &bytes[cut..]], false);
                assert_eq!(last, Ok(true), "{text:?} cut at {cut}");
                assert!(answer.reusable);
            }
            let single: Vec<&[u8]> = bytes.chunks(1).collect();
            assert_eq!(fed(&single, false).0, Ok(true));
        }
    }

    #[test]
    fn status_worker_and_the_fate_of_the_connection_are_read() {
        let (_, answer) = whole(
            "HTTP/1.1 503 Busy\r\nx-WORKER: 4711\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
        );
        assert_eq!(
            (answer.status, answer.worker, answer.reusable),
            (503, 4711, false)
        );
        let (_, old) = whole("HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n");
        assert!(!old.reusable);
        let (_, kept) =
            whole("HTTP/1.0 200 OK\r\nContent-Length: 0\r\nConnection: Keep-Alive\r\n\r\n");
        assert!(kept.reusable);
    }

    #[test]
    fn without_a_length_the_end_of_the_connection_is_the_end() {
        let (last, mut answer) = whole("HTTP/1.1 200 OK\r\n\r\nsome");
        assert_eq!(last, Ok(false));
        assert!(answer.end() && !answer.reusable);
        let (_, mut short) = whole("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nsome");
        assert!(!short.end());
    }

    #[test]
    fn heads_that_promise_a_body_that_never_comes() {
        let head = b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n";
        assert_eq!(fed(&[head], true).0, Ok(true));
        assert_eq!(
            whole("HTTP/1.1 304 Not Modified\r\nContent-Length: 100\r\n\r\n").0,
            Ok(true)
        );
    }

    #[test]
    fn bytes_behind_the_end_make_the_connection_unfit() {
        let (last, answer) = whole(&format!("{OK}HTTP/1.1 200"));
        assert_eq!((last, answer.reusable), (Ok(true), false));
    }

    #[test]
    fn rubbish_is_known_at_its_first_bytes() {
        assert_eq!(
            whole("SSH-2.0-OpenSSH_9\r\n").0,
            Err(FailureReason::Rubbish)
        );
        assert_eq!(
            fed(&[b"H", b"T", b"X"], false).0,
            Err(FailureReason::Rubbish)
        );
        assert_eq!(
            whole("HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n").0,
            Err(FailureReason::Rubbish)
        );
        assert_eq!(
            whole("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n").0,
            Err(FailureReason::Rubbish)
        );
        let chunk = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
        assert_eq!(
            whole(&format!("{chunk}zz\r\n")).0,
            Err(FailureReason::Rubbish)
        );
        assert_eq!(
            whole(&format!("{chunk}ffffffffffffffff\r\n")).0,
            Err(FailureReason::Rubbish)
        );
        assert_eq!(
            whole(&format!("{chunk}{}", "1".repeat(MOST_LINE_BYTES + 1))).0,
            Err(FailureReason::Rubbish)
        );
    }

    #[test]
    fn a_head_without_end_is_cut() {
        let mut answer = Answer::default();
        assert_eq!(answer.feed(b"HTTP/1.1 200 OK\r\n", ""), Ok(false));
        let line = format!("X-Y: {}\r\n", "y".repeat(1_000));
        let fate = (0..200)
            .map(|_| answer.feed(line.as_bytes(), ""))
            .find(|fate| *fate != Ok(false));
        assert_eq!(fate, Some(Err(FailureReason::EndlessHead)));
        let many = "A: b\r\n".repeat(MOST_HEADERS + 1);
        assert_eq!(
            whole(&format!("HTTP/1.1 200 OK\r\n{many}\r\n")).0,
            Err(FailureReason::EndlessHead)
        );
    }

    #[test]
    fn the_next_answer_on_the_same_connection_begins_clean() {
        let (_, mut answer) = whole(CHUNKED);
        answer.begin(false);
        assert!(!answer.begun && answer.status == 0);
        assert_eq!(answer.feed(OK.as_bytes(), ""), Ok(true));
        assert_eq!(answer.status, 200);
    }
}
