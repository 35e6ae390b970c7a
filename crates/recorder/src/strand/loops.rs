//! Loops: whether a thread runs one, and what its polls tell of the moment when something became ready.

use super::slices::WAITED_NS;
use super::state::{known, mine, wanted};
use crate::alarm;
use crate::ring::LOOP_EVENTS;
use std::sync::atomic::Ordering;

/// This thread runs a loop: its units take turns, its ring grows, and a blocking call holds all of them.
pub fn enter_loop() {
    if !wanted() {
        return;
    }
    if let Some(mut strand) = mine() {
        if !strand.is_loop {
            strand.is_loop = true;
            if strand.ring.events() < LOOP_EVENTS {
                strand.grow(); // Once: `asyncio.run` makes a loop a moment, again and again.
            }
        }
    }
}

/// The thread's loop has ended.
pub fn leave_loop() {
    if let Some(mut strand) = known() {
        strand.is_loop = false;
        strand.ring.epoll_fd.store(-1, Ordering::Relaxed);
    }
}

/// A loop's poll was inside the kernel from `from_ns` to `to_ns`, and found `ready` descriptors.
pub fn loop_polled(from_ns: u64, to_ns: u64, _ready: u32) {
    let Some(mut strand) = known() else { return };
    strand.previous_poll_ns = strand.polled_ns;
    strand.polled_ns = to_ns;
    strand.poll_blocked = to_ns.saturating_sub(from_ns) >= WAITED_NS;
    strand.stamp_ns = 0;
    strand.ring.from_ns.store(strand.from_ns, Ordering::Relaxed);
    if wanted() && strand.poll_blocked && strand.from_ns != 0 {
        // The loop slept: its slice ends, and the next one begins.
        let gil_ns = strand.gil_ns;
        strand.end(from_ns, gil_ns);
        strand.begin(to_ns, gil_ns);
    }
}

/// A poll of this thread, which runs no loop, slept until `to_ns`.
pub fn thread_polled(from_ns: u64, to_ns: u64) {
    if to_ns.saturating_sub(from_ns) >= WAITED_NS {
        if let Some(mut strand) = known() {
            strand.polled_ns = to_ns;
            strand.poll_blocked = true;
        }
    }
}

/// Bytes that this thread reads now, and has waited for in its last poll, came no earlier than this; 0 = unknown.
pub fn last_poll_ns() -> u64 {
    poll_bracket().map_or(0, |(known_ns, _)| known_ns)
}

/// Whether this thread runs a loop.
pub fn is_loop() -> bool {
    known().is_some_and(|strand| strand.is_loop)
}

/// This thread's loop waits by `epoll_fd`.
pub fn waits_by(epoll_fd: i32) {
    if let Some(strand) = known() {
        strand.ring.epoll_fd.store(epoll_fd, Ordering::Relaxed);
        alarm::wake();
    }
}

/// When what the last poll found became ready, [known, ready]: exact if the poll had blocked.
pub fn poll_bracket() -> Option<(u64, u64)> {
    let strand = known()?;
    if strand.polled_ns == 0 {
        return None;
    }
    let known_ns = if strand.poll_blocked {
        strand.polled_ns
    } else {
        strand.previous_poll_ns
    };
    Some((known_ns, strand.polled_ns))
}

/// The kernel's stamp of bytes that this thread has read since its loop's last poll.
pub fn last_stamp() -> Option<(u64, u64)> {
    let stamp_ns = known()?.stamp_ns;
    (stamp_ns != 0).then_some((stamp_ns, stamp_ns))
}
