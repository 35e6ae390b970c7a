//! Units of one thread take turns: the probe of a loop says which one runs, and which one stops.

use super::state::{find_state, is_recording, state_of_this_thread};
use super::unit::{blank, Unit, NEXT_UNIT, NO_IO};
use greenlane_process::clock;
use greenlane_recording_format::event::{Event, Text, UnitKind, NO_JOB};
use std::ptr;
use std::sync::atomic::Ordering;

/// The last of a socket's kinds, `phase.Kind`.
const SSL: u8 = 1;

/// Ends the slice of the running `unit`: it gives way to another one of its thread.
///
/// # Safety
/// `unit` is one that lives.
pub unsafe fn suspend(unit: *mut Unit, now_ns: u64) {
    if !is_recording() {
        // Switched off just now, by a thread that needs no GIL for it: who may be dropped next must not stay here.
        return forget(unit);
    }
    let Some(mut state) = state_of_this_thread() else {
        return;
    };
    if ptr::eq(state.current, unit) {
        let gil_ns = state.gil_ns;
        state.end(now_ns, gil_ns);
    }
    state.current = ptr::null_mut();
    state.away = 0;
    // SAFETY: the caller says so; the state no longer points to it.
    let unit = unsafe { &mut *unit };
    unit.left_ns = now_ns;
    unit.phase = unit.phase.saturating_add(1);
    unit.known_ns = 0;
    unit.ready_ns = 0;
    unit.flags = 0;
    unit.kind = 0;
    unit.call = 0;
    unit.peer = 0;
}

/// `unit` runs now on this thread: writes down what it was blocked on, and begins its slice.
///
/// # Safety
/// `unit` must stay where it is until it is suspended, or [`forget`] is called with it.
pub unsafe fn resume(unit: *mut Unit, now_ns: u64) {
    if !is_recording() {
        return;
    }
    let Some(mut state) = state_of_this_thread() else {
        return;
    };
    // The unit that ran before and did not say that it stops: a plain thread's own.
    let gil_ns = state.gil_ns;
    if !ptr::eq(state.current, unit) {
        state.end(now_ns, gil_ns);
    }
    state.current = unit;
    // SAFETY: the caller says so.
    let unit = unsafe { &mut *unit };
    let left_ns = std::mem::take(&mut unit.left_ns);
    if left_ns != 0 {
        // Not `clamp`, which panics when a moment was taken too early.
        let now_ns = now_ns.max(left_ns);
        let ready_ns = match unit.ready_ns {
            0 => now_ns,
            ready_ns => ready_ns.min(now_ns).max(left_ns),
        };
        let known_ns = match unit.known_ns {
            0 => left_ns.max(state.previous_poll_ns.min(ready_ns)),
            known_ns => known_ns.min(ready_ns).max(left_ns),
        };
        if !NO_IO.contains(&unit.kind) {
            unit.io_ready_ns = ready_ns;
        }
        unit.totals
            .add_block(unit.kind, ready_ns - left_ns, now_ns - ready_ns);
        let block = Event::Block {
            from_ns: left_ns,
            known_ns,
            ready_ns,
            to_ns: now_ns,
            unit: unit.id,
            job: unit.job,
            kind: unit.kind,
            flags: unit.flags,
            call: unit.call,
            peer: unit.peer,
        };
        if unit.kind <= SSL {
            if let Some(former) = state.pending.replace(block) {
                state.push_unordered(former);
            }
        } else {
            state.push(block);
        }
    }
    state.begin(now_ns, gil_ns);
}

/// `unit` is about to be dropped.
pub fn forget(unit: *const Unit) {
    if let Some(mut state) = find_state() {
        if ptr::eq(state.current, unit) {
            let (now_ns, gil_ns) = (clock::monotonic_ns(), state.gil_ns);
            state.end(now_ns, gil_ns);
            state.current = ptr::null_mut();
        }
    }
}

/// This thread's own unit, made if need be. It lives as long as the thread, in this process.
pub fn own_unit() -> Option<*mut Unit> {
    Some(state_of_this_thread()?.own)
}

/// The unit that runs on this thread; null = none.
pub fn running_unit() -> *mut Unit {
    find_state().map_or(ptr::null_mut(), |state| state.current)
}

/// The thread itself runs again, outside of every unit of its loop.
pub fn run_own(now_ns: u64) {
    if let Some(mut state) = find_state() {
        let gil_ns = state.gil_ns;
        state.end(now_ns, gil_ns);
        state.current = state.own;
        state.begin(now_ns, gil_ns);
    }
}

/// A unit of `kind`; its job is the running unit's. Number 0 (nothing is recorded of it) when off.
pub fn new_unit(kind: UnitKind, name: Text) -> Unit {
    if !is_recording() {
        return blank(0, NO_JOB);
    }
    let Some(mut state) = state_of_this_thread() else {
        return blank(0, NO_JOB);
    };
    let id = NEXT_UNIT.fetch_add(1, Ordering::Relaxed);
    let (parent, job) = state
        .current()
        .map_or((0, NO_JOB), |unit| (unit.id, unit.job));
    let at_ns = clock::monotonic_ns();
    let thread = state.thread;
    state.push(Event::Unit {
        at_ns,
        unit: id,
        kind,
        thread,
        parent,
        name,
    });
    if job != NO_JOB {
        state.push(Event::Attach {
            at_ns,
            unit: id,
            job,
        });
    }
    blank(id, job)
}
