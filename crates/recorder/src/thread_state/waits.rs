//! Time in which the running unit could have run and did not: waits for the GIL and others, the collector's, turns.

use super::slices::{BLOCKED_NS, WAITED_NS};
use super::state::{find_state, is_recording, state_of_this_thread};
use greenlane_process::clock;
use greenlane_recording_format::event::{Event, WaitKind, NO_JOB};

/// A slice this long is cut at its next wait for the GIL.
const LONGEST_NS: u64 = 50_000_000;

/// This thread waited for the GIL from `from_ns` to `to_ns`. Makes the state of a thread that has none: a thread that
/// waits for the GIL runs Python, and may be the one that others wait for.
pub fn gil_waited(from_ns: u64, to_ns: u64) {
    if !is_recording() {
        return;
    }
    let Some(mut state) = state_of_this_thread() else {
        return;
    };
    let waited_ns = to_ns.saturating_sub(from_ns);
    state.gil_ns += waited_ns;
    if waited_ns < WAITED_NS {
        return;
    }
    let began_ns = state.from_ns;
    if began_ns != 0 && state.away == 0 && from_ns.saturating_sub(began_ns) > LONGEST_NS {
        // A thread that computes for ever would not be seen before its end.
        let gil_ns = state.gil_ns - waited_ns;
        state.end(from_ns, gil_ns);
        state.begin(to_ns, gil_ns + waited_ns);
    }
    drop(state);
    record_wait(WaitKind::Gil, from_ns, to_ns);
}

/// The running unit could have run from `from_ns` to `to_ns` and did not.
pub fn record_wait(kind: WaitKind, from_ns: u64, to_ns: u64) {
    if !is_recording() {
        return;
    }
    let Some(mut state) = state_of_this_thread() else {
        return;
    };
    let (unit, job) = match state.current() {
        Some(unit) => {
            unit.totals.add_wait(kind, to_ns.saturating_sub(from_ns));
            if matches!(kind, WaitKind::Pool | WaitKind::Lock) {
                unit.place_wait = (from_ns, to_ns);
            }
            (unit.id, unit.job)
        }
        None => (state.own_id, NO_JOB),
    };
    state.push(Event::Wait {
        from_ns,
        to_ns,
        unit,
        job,
        kind,
    });
}

/// This thread waited for a permit.
pub fn waited_for_a_permit(from_ns: u64, to_ns: u64) {
    record_wait(WaitKind::Permit, from_ns, to_ns);
}

/// A heavy phase of this thread has ended; see [`Event::Turn`].
pub fn took_its_turn(how: u8) {
    if !is_recording() {
        return;
    }
    let Some(mut state) = find_state() else {
        return;
    };
    let Some(unit) = state.current() else { return };
    let (unit, job) = (unit.id, unit.job);
    if job == NO_JOB {
        return;
    }
    state.push(Event::Turn {
        at_ns: clock::monotonic_ns(),
        unit,
        job,
        how,
        stops: 0,
    });
}

/// The garbage collector starts (`ends` false) or ends on this thread.
pub fn record_collection(ends: bool, generation: u8) {
    if !is_recording() {
        return;
    }
    let Some(mut state) = find_state() else {
        return;
    };
    let now_ns = clock::monotonic_ns();
    if !ends {
        state.gc_from_ns = now_ns;
        return;
    }
    let from_ns = std::mem::take(&mut state.gc_from_ns);
    if from_ns != 0 && now_ns - from_ns >= BLOCKED_NS {
        let unit = state.current().map_or(state.own_id, |unit| unit.id);
        state.push(Event::Gc {
            from_ns,
            to_ns: now_ns,
            unit,
            generation,
        });
    }
}
