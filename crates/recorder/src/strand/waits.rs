//! Time in which the running unit could have run and did not: waits for the GIL and others, the collector's, turns.

use super::slices::{BLOCKED_NS, WAITED_NS};
use super::state::{known, mine, wanted};
use greenlane_process::clock;
use greenlane_recording_format::event::{Event, WaitKind, NO_JOB};

/// A slice this long is cut at its next wait for the GIL.
const LONGEST_NS: u64 = 50_000_000;

/// This thread waited for the GIL from `from_ns` to `to_ns`. Makes the strand of a thread that has none: a thread that
/// waits for the GIL runs Python, and may be the one that others wait for.
pub fn gil_waited(from_ns: u64, to_ns: u64) {
    if !wanted() {
        return;
    }
    let Some(mut strand) = mine() else { return };
    let waited_ns = to_ns.saturating_sub(from_ns);
    strand.gil_ns += waited_ns;
    if waited_ns < WAITED_NS {
        return;
    }
    let began_ns = strand.from_ns;
    if began_ns != 0 && strand.away == 0 && from_ns.saturating_sub(began_ns) > LONGEST_NS {
        // A thread that computes for ever would not be seen before its end.
        let gil_ns = strand.gil_ns - waited_ns;
        strand.end(from_ns, gil_ns);
        strand.begin(to_ns, gil_ns + waited_ns);
    }
    drop(strand);
    waited(WaitKind::Gil, from_ns, to_ns);
}

/// The running unit could have run from `from_ns` to `to_ns` and did not.
pub fn waited(kind: WaitKind, from_ns: u64, to_ns: u64) {
    if !wanted() {
        return;
    }
    let Some(mut strand) = mine() else { return };
    let (unit, job) = match strand.current() {
        Some(unit) => {
            unit.spent.waited(kind, to_ns.saturating_sub(from_ns));
            if matches!(kind, WaitKind::Pool | WaitKind::Lock) {
                unit.place_wait = (from_ns, to_ns);
            }
            (unit.id, unit.job)
        }
        None => (strand.own_id, NO_JOB),
    };
    strand.push(Event::Wait {
        from_ns,
        to_ns,
        unit,
        job,
        kind,
    });
}

/// This thread waited for a permit.
pub fn waited_for_a_permit(from_ns: u64, to_ns: u64) {
    waited(WaitKind::Permit, from_ns, to_ns);
}

/// A heavy phase of this thread has ended; see [`Event::Turn`].
pub fn took_its_turn(how: u8) {
    if !wanted() {
        return;
    }
    let Some(mut strand) = known() else { return };
    let Some(unit) = strand.current() else { return };
    let (unit, job) = (unit.id, unit.job);
    if job == NO_JOB {
        return;
    }
    strand.push(Event::Turn {
        at_ns: clock::monotonic_ns(),
        unit,
        job,
        how,
        stops: 0,
    });
}

/// The garbage collector starts (`ends` false) or ends on this thread.
pub fn collected(ends: bool, generation: u8) {
    if !wanted() {
        return;
    }
    let Some(mut strand) = known() else { return };
    let now_ns = clock::monotonic_ns();
    if !ends {
        strand.gc_from_ns = now_ns;
        return;
    }
    let from_ns = std::mem::take(&mut strand.gc_from_ns);
    if from_ns != 0 && now_ns - from_ns >= BLOCKED_NS {
        let unit = strand.current().map_or(strand.own_id, |unit| unit.id);
        strand.push(Event::Gc {
            from_ns,
            to_ns: now_ns,
            unit,
            generation,
        });
    }
}
