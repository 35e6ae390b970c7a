//! Blocking calls, from two sides: the Python probes say that one begins and ends ([`leave`], [`enter`]), the redirected
//! libc calls say when the thread was inside the kernel ([`calling`], [`record_block`]).

use super::loops::loop_polled;
use super::slices::{BLOCKED_NS, CPU_LOOK_NS, HELD_NS};
use super::state::{find_state, is_recording, state_of_this_thread};
use greenlane_process::clock;
use greenlane_recording_format::event::{Text, HELD_THE_LOOP, READY_EXACT, TIMED_OUT};
use std::sync::atomic::Ordering;

/// As [`BLOCKED_NS`], for libc calls outside of the probes' calls.
const BLOCKED_UNSEEN_NS: u64 = 50_000;
/// A poll, `phase.Kind`.
const SELECT: u8 = 3;

/// The running unit is about to block on `kind`. Nests; the outermost pair counts.
pub fn leave(kind: u8) {
    if !is_recording() {
        return;
    }
    let Some(mut state) = state_of_this_thread() else {
        return;
    };
    state.away += 1;
    if state.away == 1 {
        state.left_ns = clock::monotonic_ns();
        state.left_kind = kind;
        state.timed_out = false;
        state.called_ns = 0;
        state.returned_ns = 0;
        state.read_ns = 0;
        state.back_ns = 0;
        state.gil_at_left_ns = state.gil_ns;
        // A thread without jobs may be a busy one, too. Python calls, so memory can be had.
        if state.ring.is_short() {
            state.grow();
        }
        state.ring.left_ns.store(state.left_ns, Ordering::Relaxed);
        state.ring.from_ns.store(0, Ordering::Relaxed);
    }
}

/// Answers [`leave`].
pub fn enter() {
    let Some(mut state) = find_state() else {
        return;
    };
    if state.away == 0 {
        return;
    }
    state.away -= 1;
    if state.away > 0 || !is_recording() {
        return;
    }
    let now_ns = clock::monotonic_ns();
    let left_ns = std::mem::take(&mut state.left_ns);
    if let Some(unit) = state.current() {
        unit.phase = unit.phase.saturating_add(1);
    }
    if left_ns == 0 || now_ns.saturating_sub(left_ns) < BLOCKED_NS {
        state.ring.from_ns.store(state.from_ns, Ordering::Relaxed);
        return;
    }
    if state.is_loop && state.left_kind == SELECT {
        if state.polled_ns > left_ns {
            return; // The redirected call has said so already, exactly.
        }
        // The loop's own poll, seen by a Python probe.
        let returned_ns = state.returned_ns.max(left_ns);
        let to_ns = if returned_ns > left_ns {
            returned_ns
        } else {
            now_ns
        };
        drop(state);
        return loop_polled(left_ns, to_ns, 0);
    }
    // A call that came late and did not block: what took so long was nobody's I/O, so the slice goes on until then.
    let (called_ns, read_ns) = (state.called_ns, state.read_ns);
    let late = called_ns > left_ns + CPU_LOOK_NS && read_ns <= left_ns;
    let (left_ns, gil_at_left_ns) = if late && state.returned_ns < called_ns + CPU_LOOK_NS {
        (called_ns, state.gil_at_called_ns)
    } else {
        (left_ns, state.gil_at_left_ns)
    };
    let (known_ns, ready_ns, gil_ns) = if state.returned_ns >= left_ns {
        (state.returned_ns, state.returned_ns, state.gil_at_return_ns)
    } else {
        (left_ns, now_ns, state.gil_ns)
    };
    let kind = state.left_kind;
    state.end(left_ns, gil_at_left_ns);
    let flags = if known_ns == ready_ns { READY_EXACT } else { 0 }
        | if state.is_loop { HELD_THE_LOOP } else { 0 }
        | if state.timed_out { TIMED_OUT } else { 0 };
    let back_ns = std::mem::take(&mut state.back_ns).clamp(ready_ns, now_ns);
    let moments = (left_ns, known_ns, ready_ns, back_ns);
    state.block(moments, (kind, flags, 0), gil_ns);
    state.set_read_stamp(read_ns);
}

/// What the unit has waited for since [`leave`] did not happen: the time-out that it chose is over.
pub fn timed_out() {
    if let Some(mut state) = find_state() {
        state.timed_out = true;
    }
}

/// When the last libc call since [`leave`] came back, if that was after `since_ns`.
pub fn returned_ns(since_ns: u64) -> Option<u64> {
    let returned_ns = find_state()?.returned_ns;
    (returned_ns > since_ns).then_some(returned_ns)
}

/// A redirected libc call of this thread begins: it may block, so nobody should say that the thread runs.
/// [`record_block`] answers it.
pub fn calling() {
    if let Some(state) = find_state() {
        state.ring.from_ns.store(0, Ordering::Relaxed);
    }
}

/// Since when this thread waits for a lock; 0 = it has it, or gave up.
pub fn waits_for_lock(since_ns: u64) {
    if let Some(state) = find_state() {
        state.ring.lock_ns.store(since_ns, Ordering::Relaxed);
    }
}

/// A redirected libc call of this thread was blocked from `from_ns` until `to_ns`, and came back at `back_ns`: in between
/// the thread had no core.
///
/// `kind` is `phase.Kind`, `call` its name. `stamp_ns`: when the kernel got the bytes that it read; 0 = unknown.
pub fn record_block(
    (kind, call): (u8, Text),
    from_ns: u64,
    to_ns: u64,
    back_ns: u64,
    stamp_ns: u64,
) {
    if !is_recording() {
        return;
    }
    let Some(mut state) = find_state() else {
        return;
    };
    if stamp_ns != 0 {
        state.stamp_ns = stamp_ns;
        state.refine(stamp_ns);
        state.set_read_stamp(stamp_ns);
    }
    let took_ns = to_ns.saturating_sub(from_ns);
    // The bytes were there before the operating system let the thread run.
    let ready_ns = if stamp_ns > from_ns && stamp_ns < to_ns {
        stamp_ns
    } else {
        to_ns
    };
    if state.away > 0 {
        if state.called_ns == 0 {
            state.called_ns = from_ns;
            state.gil_at_called_ns = state.gil_ns;
        }
        // A `recv` after the `poll` that blocked is short: the wait for the GIL between them is not I/O.
        if state.returned_ns == 0 || took_ns >= BLOCKED_NS {
            // There before the call was made, but not before the thread had set out for it.
            state.returned_ns = match stamp_ns {
                stamp_ns if stamp_ns > state.left_ns => stamp_ns.min(ready_ns),
                _ => ready_ns,
            };
            state.gil_at_return_ns = state.gil_ns;
            state.back_ns = back_ns;
        } else if stamp_ns > state.left_ns && stamp_ns < state.returned_ns {
            state.returned_ns = stamp_ns;
        }
        state.read_ns = stamp_ns;
        return;
    }
    let least_ns = if state.is_loop {
        HELD_NS
    } else {
        BLOCKED_UNSEEN_NS
    };
    if took_ns < least_ns {
        state.ring.from_ns.store(state.from_ns, Ordering::Relaxed);
        return;
    }
    let gil_ns = state.gil_ns;
    state.end(from_ns, gil_ns);
    let flags = READY_EXACT | if state.is_loop { HELD_THE_LOOP } else { 0 };
    let moments = (from_ns, ready_ns, ready_ns, back_ns.max(ready_ns));
    state.block(moments, (kind, flags, call), gil_ns);
    state.set_read_stamp(stamp_ns);
}

/// The connection that the running unit waited for was made at `at_ns`, by the kernel.
pub fn set_connected_ns(at_ns: u64) {
    if !is_recording() {
        return;
    }
    if let Some(mut state) = find_state() {
        state.stamp_ns = at_ns;
        state.refine(at_ns);
        state.set_read_stamp(at_ns);
    }
}

/// Makes the state of a thread that has none: it serves a request. Allocates; not for signal handlers.
pub fn begin_here() {
    if is_recording() {
        state_of_this_thread();
    }
}
