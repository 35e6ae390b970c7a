//! For which job the running unit works, and where its time went so far.

use super::state::{find_state, is_recording, state_of_this_thread};
use super::unit::Unit;
use crate::unit_totals::UnitTotals;
use greenlane_process::clock;
use greenlane_recording_format::event::{Event, NO_JOB};

/// The running unit's (number, job); (0, 0) without one.
pub fn running() -> (u32, u64) {
    find_state()
        .and_then(|mut state| state.current())
        .map_or((0, NO_JOB), |unit| (unit.id, unit.job))
}

/// Number of the running unit and where its time went so far. Its slice ends here and a new one begins: only an ended
/// one's CPU is known.
pub fn unit_totals() -> Option<(u32, UnitTotals)> {
    if !is_recording() {
        return None;
    }
    let mut state = state_of_this_thread()?;
    if state.from_ns != 0 && state.away == 0 {
        let (now_ns, gil_ns) = (clock::monotonic_ns(), state.gil_ns);
        state.end(now_ns, gil_ns);
        state.begin(now_ns, gil_ns);
    }
    let unit = state.current()?;
    Some((unit.id, unit.totals))
}

/// Calls `look` with the running unit, made if this thread has none.
pub fn with_unit<T>(look: impl FnOnce(&mut Unit) -> T) -> Option<T> {
    if !is_recording() {
        return None;
    }
    let unit = state_of_this_thread()?.current()?;
    Some(look(unit))
}

/// The running unit's last wait for a lock or a place of a pool, (from, to); zeros = none since it was last asked for.
pub fn take_place_wait() -> (u64, u64) {
    find_state()
        .and_then(|mut state| state.current())
        .map_or((0, 0), |unit| std::mem::take(&mut unit.place_wait))
}

/// The running unit works for `job` from now on; the one it worked for before.
pub fn attach(job: u64) -> u64 {
    attach_at(job, clock::monotonic_ns())
}

/// The same from `now_ns` on, which must be just now: the job's own events have the same time, and no gap.
pub fn attach_at(job: u64, now_ns: u64) -> u64 {
    if !is_recording() {
        return NO_JOB;
    }
    let Some(mut state) = state_of_this_thread() else {
        return NO_JOB;
    };
    let Some(unit) = state.current() else {
        return NO_JOB;
    };
    let before = unit.job;
    if before != job {
        let gil_ns = state.gil_ns;
        state.end(now_ns, gil_ns);
        if state.ring.is_short() {
            state.grow();
        }
        unit.job = job;
        unit.phase = 0;
        state.push(Event::Attach {
            at_ns: now_ns,
            unit: unit.id,
            job,
        });
        state.begin(now_ns, gil_ns);
    }
    before
}
