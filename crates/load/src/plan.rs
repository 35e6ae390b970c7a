//! What is asked for, and its results, as columns.

use crate::socket::Address;

/// Status of a request that was refused, reset, or answered with something that is not HTTP.
pub const FAILED: i16 = 0;
/// Status of a request without a whole answer within its time-out.
pub const UNANSWERED: i16 = -1;

/// Requests of one kind. What is sent is `before`, then `mark` and the amount of work if there is one, then `after`.
#[derive(Clone, Debug)]
pub struct Stream {
    pub address: Address,
    pub before: Vec<u8>,
    pub mark: Vec<u8>,
    pub after: Vec<u8>,
    /// A HEAD request: its answer has no body whatever its head says.
    pub head_only: bool,
    /// Connections are used again.
    pub keep_alive: bool,
    /// With `keep_alive`: at most this many; further requests wait for one. 0 = as many as needed.
    pub most_connections: usize,
    /// From the scheduled send.
    pub timeout_ns: u64,
}

/// Requests by time: columns of one length.
#[derive(Clone, Debug, Default)]
pub struct Schedule {
    /// Since the run's start, ascending.
    pub at_ns: Vec<i64>,
    pub stream: Vec<u16>,
    /// 0 = none is sent.
    pub work_ms: Vec<f64>,
}

/// The result of each request, in the schedule's order. Times are since the run's start; 0 = never.
#[derive(Debug, Default)]
pub struct Outcome {
    /// When the generator turned to it; what lies between that and the scheduled moment is the generator's own lag.
    pub begun_ns: Vec<i64>,
    /// When its last byte was handed to the kernel.
    pub sent_ns: Vec<i64>,
    /// When the answer's first byte was read.
    pub first_byte_ns: Vec<i64>,
    /// When its last byte was read, or the request was given up.
    pub done_ns: Vec<i64>,
    pub status: Vec<i16>,
    /// Number in the answer's header that the caller named; 0 = none.
    pub worker: Vec<i32>,
    /// CLOCK_MONOTONIC at the run's start.
    pub began_ns: u64,
    /// CPU of the generator's thread.
    pub cpu_ns: u64,
    /// Wall time of the run, its drain included.
    pub took_ns: u64,
    /// Requests that failed, by [`FailureReason`].
    pub failures: [u64; FailureReason::ALL.len()],
    /// Requests sent again because their kept connection turned out to be closed.
    pub sent_again: u64,
    /// Connections opened.
    pub connections: u64,
}

/// Why a request failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureReason {
    /// Nobody listens, or nobody can be reached.
    Refused,
    /// The connection broke.
    Reset,
    /// The connection ended before the answer did.
    Closed,
    /// What came is not HTTP/1.
    Rubbish,
    /// The answer's head is longer than [`crate::answer::MOST_HEAD_BYTES`], or has too many lines.
    EndlessHead,
}

impl FailureReason {
    pub const ALL: [Self; 5] = [
        Self::Refused,
        Self::Reset,
        Self::Closed,
        Self::Rubbish,
        Self::EndlessHead,
    ];

    /// As users read it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Refused => "refused",
            Self::Reset => "reset",
            Self::Closed => "closed early",
            Self::Rubbish => "not HTTP",
            Self::EndlessHead => "endless head",
        }
    }
}

/// Why a run ended without an outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stopped {
    /// The caller's tick said so.
    Interrupted,
    /// The limit of open files is reached: it would be the generator that fails, not the server.
    Descriptors,
    /// Every local port towards an address is in use.
    Ports,
    /// The kernel cannot do what is needed; the number of the error.
    Kernel(i32),
}
