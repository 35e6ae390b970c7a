//! Blocking calls, from two sides: the Python probes say that one begins and ends ([`leave`], [`enter`]), the redirected
//! libc calls say when the thread was inside the kernel ([`calling`], [`blocked`]).

use super::loops::loop_polled;
use super::slices::{BLOCKED_NS, CPU_LOOK_NS, HELD_NS};
use super::state::{known, mine, wanted};
use greenlane_process::clock;
use greenlane_recording_format::event::{Text, HELD_THE_LOOP, READY_EXACT, TIMED_OUT};
use std::sync::atomic::Ordering;

/// As [`BLOCKED_NS`], for libc calls outside of the probes' calls.
const BLOCKED_UNSEEN_NS: u64 = 50_000;
/// A poll, `phase.Kind`.
const SELECT: u8 = 3;

/// The running unit is about to block on `kind`. Nests; the outermost pair counts.
pub fn leave(kind: u8) {
    if !wanted() {
        return;
    }
    let Some(mut strand) = mine() else { return };
    strand.away += 1;
    if strand.away == 1 {
        strand.left_ns = clock::monotonic_ns();
        strand.left_kind = kind;
        strand.timed_out = false;
        strand.called_ns = 0;
        strand.returned_ns = 0;
        strand.read_ns = 0;
        strand.back_ns = 0;
        strand.gil_at_left_ns = strand.gil_ns;
        // A thread without jobs may be a busy one, too. Python calls, so memory can be had.
        if strand.ring.is_short() {
            strand.grow();
        }
        strand.ring.left_ns.store(strand.left_ns, Ordering::Relaxed);
        strand.ring.from_ns.store(0, Ordering::Relaxed);
    }
}

/// Answers [`leave`].
pub fn enter() {
    let Some(mut strand) = known() else { return };
    if strand.away == 0 {
        return;
    }
    strand.away -= 1;
    if strand.away > 0 || !wanted() {
        return;
    }
    let now_ns = clock::monotonic_ns();
    let left_ns = std::mem::take(&mut strand.left_ns);
    if let Some(unit) = strand.current() {
        unit.phase = unit.phase.saturating_add(1);
    }
    if left_ns == 0 || now_ns.saturating_sub(left_ns) < BLOCKED_NS {
        strand.ring.from_ns.store(strand.from_ns, Ordering::Relaxed);
        return;
    }
    if strand.is_loop && strand.left_kind == SELECT {
        if strand.polled_ns > left_ns {
            return; // The redirected call has said so already, exactly.
        }
        // The loop's own poll, seen by a Python probe.
        let returned_ns = strand.returned_ns.max(left_ns);
        let to_ns = if returned_ns > left_ns {
            returned_ns
        } else {
            now_ns
        };
        drop(strand);
        return loop_polled(left_ns, to_ns, 0);
    }
    // A call that came late and did not block: what took so long was nobody's I/O, so the slice goes on until then.
    let (called_ns, read_ns) = (strand.called_ns, strand.read_ns);
    let late = called_ns > left_ns + CPU_LOOK_NS && read_ns <= left_ns;
    let (left_ns, gil_at_left_ns) = if late && strand.returned_ns < called_ns + CPU_LOOK_NS {
        (called_ns, strand.gil_at_called_ns)
    } else {
        (left_ns, strand.gil_at_left_ns)
    };
    let (known_ns, ready_ns, gil_ns) = if strand.returned_ns >= left_ns {
        (
            strand.returned_ns,
            strand.returned_ns,
            strand.gil_at_return_ns,
        )
    } else {
        (left_ns, now_ns, strand.gil_ns)
    };
    let kind = strand.left_kind;
    strand.end(left_ns, gil_at_left_ns);
    let flags = if known_ns == ready_ns { READY_EXACT } else { 0 }
        | if strand.is_loop { HELD_THE_LOOP } else { 0 }
        | if strand.timed_out { TIMED_OUT } else { 0 };
    let back_ns = std::mem::take(&mut strand.back_ns).clamp(ready_ns, now_ns);
    let moments = (left_ns, known_ns, ready_ns, back_ns);
    strand.block(moments, (kind, flags, 0), gil_ns);
    strand.came(read_ns);
}

/// What the unit has waited for since [`leave`] did not happen: the time-out that it chose is over.
pub fn timed_out() {
    if let Some(mut strand) = known() {
        strand.timed_out = true;
    }
}

/// When the last libc call since [`leave`] came back, if that was after `since_ns`.
pub fn returned_ns(since_ns: u64) -> Option<u64> {
    let returned_ns = known()?.returned_ns;
    (returned_ns > since_ns).then_some(returned_ns)
}

/// A redirected libc call of this thread begins: it may block, so nobody should say that the thread runs.
/// [`blocked`] answers it.
pub fn calling() {
    if let Some(strand) = known() {
        strand.ring.from_ns.store(0, Ordering::Relaxed);
    }
}

/// Since when this thread waits for a lock; 0 = it has it, or gave up.
pub fn waits_for_lock(since_ns: u64) {
    if let Some(strand) = known() {
        strand.ring.lock_ns.store(since_ns, Ordering::Relaxed);
    }
}

/// A redirected libc call of this thread was blocked from `from_ns` until `to_ns`, and came back at `back_ns`: in between
/// the thread had no core.
///
/// `kind` is `phase.Kind`, `call` its name. `stamp_ns`: when the kernel got the bytes that it read; 0 = unknown.
pub fn blocked((kind, call): (u8, Text), from_ns: u64, to_ns: u64, back_ns: u64, stamp_ns: u64) {
    if !wanted() {
        return;
    }
    let Some(mut strand) = known() else { return };
    if stamp_ns != 0 {
        strand.stamp_ns = stamp_ns;
        strand.refine(stamp_ns);
        strand.came(stamp_ns);
    }
    let took_ns = to_ns.saturating_sub(from_ns);
    // The bytes were there before the operating system let the thread run.
    let ready_ns = if stamp_ns > from_ns && stamp_ns < to_ns {
        stamp_ns
    } else {
        to_ns
    };
    if strand.away > 0 {
        if strand.called_ns == 0 {
            strand.called_ns = from_ns;
            strand.gil_at_called_ns = strand.gil_ns;
        }
        // A `recv` after the `poll` that blocked is short: the wait for the GIL between them is not I/O.
        if strand.returned_ns == 0 || took_ns >= BLOCKED_NS {
            // There before the call was made, but not before the thread had set out for it.
            strand.returned_ns = match stamp_ns {
                stamp_ns if stamp_ns > strand.left_ns => stamp_ns.min(ready_ns),
                _ => ready_ns,
            };
            strand.gil_at_return_ns = strand.gil_ns;
            strand.back_ns = back_ns;
        } else if stamp_ns > strand.left_ns && stamp_ns < strand.returned_ns {
            strand.returned_ns = stamp_ns;
        }
        strand.read_ns = stamp_ns;
        return;
    }
    let least_ns = if strand.is_loop {
        HELD_NS
    } else {
        BLOCKED_UNSEEN_NS
    };
    if took_ns < least_ns {
        strand.ring.from_ns.store(strand.from_ns, Ordering::Relaxed);
        return;
    }
    let gil_ns = strand.gil_ns;
    strand.end(from_ns, gil_ns);
    let flags = READY_EXACT | if strand.is_loop { HELD_THE_LOOP } else { 0 };
    let moments = (from_ns, ready_ns, ready_ns, back_ns.max(ready_ns));
    strand.block(moments, (kind, flags, call), gil_ns);
    strand.came(stamp_ns);
}

/// The connection that the running unit waited for was made at `at_ns`, by the kernel.
pub fn connected(at_ns: u64) {
    if !wanted() {
        return;
    }
    if let Some(mut strand) = known() {
        strand.stamp_ns = at_ns;
        strand.refine(at_ns);
        strand.came(at_ns);
    }
}

/// Makes the strand of a thread that has none: it serves a request. Allocates; not for signal handlers.
pub fn begin_here() {
    if wanted() {
        mine();
    }
}
