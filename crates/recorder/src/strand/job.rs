//! For which job the running unit works, and where its time went so far.

use super::state::{known, mine, wanted};
use super::unit::Unit;
use crate::spent::Spent;
use greenlane_process::clock;
use greenlane_recording_format::event::{Event, NO_JOB};

/// The running unit's (number, job); (0, 0) without one.
pub fn running() -> (u32, u64) {
    known()
        .and_then(|mut strand| strand.current())
        .map_or((0, NO_JOB), |unit| (unit.id, unit.job))
}

/// Number of the running unit and where its time went so far. Its slice ends here and a new one begins: only an ended
/// one's CPU is known.
pub fn spent() -> Option<(u32, Spent)> {
    if !wanted() {
        return None;
    }
    let mut strand = mine()?;
    if strand.from_ns != 0 && strand.away == 0 {
        let (now_ns, gil_ns) = (clock::monotonic_ns(), strand.gil_ns);
        strand.end(now_ns, gil_ns);
        strand.begin(now_ns, gil_ns);
    }
    let unit = strand.current()?;
    Some((unit.id, unit.spent))
}

/// Calls `look` with the running unit, made if this thread has none.
pub fn with_unit<T>(look: impl FnOnce(&mut Unit) -> T) -> Option<T> {
    if !wanted() {
        return None;
    }
    let unit = mine()?.current()?;
    Some(look(unit))
}

/// The running unit's last wait for a lock or a place of a pool, (from, to); zeros = none since it was last asked for.
pub fn take_place_wait() -> (u64, u64) {
    known()
        .and_then(|mut strand| strand.current())
        .map_or((0, 0), |unit| std::mem::take(&mut unit.place_wait))
}

/// The running unit works for `job` from now on; the one it worked for before.
pub fn attach(job: u64) -> u64 {
    attach_at(job, clock::monotonic_ns())
}

/// The same from `now_ns` on, which must be just now: the job's own events have the same time, and no gap.
pub fn attach_at(job: u64, now_ns: u64) -> u64 {
    if !wanted() {
        return NO_JOB;
    }
    let Some(mut strand) = mine() else {
        return NO_JOB;
    };
    let Some(unit) = strand.current() else {
        return NO_JOB;
    };
    let before = unit.job;
    if before != job {
        let gil_ns = strand.gil_ns;
        strand.end(now_ns, gil_ns);
        if strand.ring.is_short() {
            strand.grow();
        }
        unit.job = job;
        unit.phase = 0;
        strand.push(Event::Attach {
            at_ns: now_ns,
            unit: unit.id,
            job,
        });
        strand.begin(now_ns, gil_ns);
    }
    before
}
