//! Loops: whether a thread runs one, and what its polls tell of the moment when something became ready.

use super::slices::WAITED_NS;
use super::state::{find_state, is_recording, state_of_this_thread};
use crate::alarm;
use crate::ring::LOOP_EVENTS;
use std::sync::atomic::Ordering;

/// This thread runs a loop: its units take turns, its ring grows, and a blocking call holds all of them.
pub fn enter_loop() {
    if !is_recording() {
        return;
    }
    if let Some(mut state) = state_of_this_thread() {
        if !state.is_loop {
            state.is_loop = true;
            if state.ring.events() < LOOP_EVENTS {
                state.grow(); // Once: `asyncio.run` makes a loop a moment, again and again.
            }
        }
    }
}

/// The thread's loop has ended.
pub fn leave_loop() {
    if let Some(mut state) = find_state() {
        state.is_loop = false;
        state.ring.epoll_fd.store(-1, Ordering::Relaxed);
    }
}

/// A loop's poll was inside the kernel from `from_ns` to `to_ns`, and found `ready` descriptors.
pub fn loop_polled(from_ns: u64, to_ns: u64, _ready: u32) {
    let Some(mut state) = find_state() else {
        return;
    };
    state.previous_poll_ns = state.polled_ns;
    state.polled_ns = to_ns;
    state.poll_blocked = to_ns.saturating_sub(from_ns) >= WAITED_NS;
    state.stamp_ns = 0;
    state.ring.from_ns.store(state.from_ns, Ordering::Relaxed);
    if is_recording() && state.poll_blocked && state.from_ns != 0 {
        // The loop slept: its slice ends, and the next one begins.
        let gil_ns = state.gil_ns;
        state.end(from_ns, gil_ns);
        state.begin(to_ns, gil_ns);
    }
}

/// A poll of this thread, which runs no loop, slept until `to_ns`.
pub fn thread_polled(from_ns: u64, to_ns: u64) {
    if to_ns.saturating_sub(from_ns) >= WAITED_NS {
        if let Some(mut state) = find_state() {
            state.polled_ns = to_ns;
            state.poll_blocked = true;
        }
    }
}

/// Bytes that this thread reads now, and has waited for in its last poll, came no earlier than this; 0 = unknown.
pub fn last_poll_ns() -> u64 {
    poll_bracket().map_or(0, |(known_ns, _)| known_ns)
}

/// Whether this thread runs a loop.
pub fn is_loop() -> bool {
    find_state().is_some_and(|state| state.is_loop)
}

/// This thread's loop waits by `epoll_fd`.
pub fn waits_by(epoll_fd: i32) {
    if let Some(state) = find_state() {
        state.ring.epoll_fd.store(epoll_fd, Ordering::Relaxed);
        alarm::wake();
    }
}

/// When what the last poll found became ready, [known, ready]: exact if the poll had blocked.
pub fn poll_bracket() -> Option<(u64, u64)> {
    let state = find_state()?;
    if state.polled_ns == 0 {
        return None;
    }
    let known_ns = if state.poll_blocked {
        state.polled_ns
    } else {
        state.previous_poll_ns
    };
    Some((known_ns, state.polled_ns))
}

/// The kernel's stamp of bytes that this thread has read since its loop's last poll.
pub fn last_stamp() -> Option<(u64, u64)> {
    let stamp_ns = find_state()?.stamp_ns;
    (stamp_ns != 0).then_some((stamp_ns, stamp_ns))
}
