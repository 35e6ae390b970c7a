//! Units: what runs. A thread, greenlet or task, with its job and what it is blocked on.

use crate::live::WAITING_KINDS;
use crate::unit_totals::UnitTotals;
use greenlane_recording_format::event::{Text, READY_EXACT};
use std::sync::atomic::AtomicU32;

/// Of `phase.Kind`, what is not I/O.
pub(super) const NO_IO: std::ops::RangeInclusive<u8> = WAITING_KINDS;

pub(super) static NEXT_UNIT: AtomicU32 = AtomicU32::new(1);

/// Something that runs: a thread, greenlet or task. Lives at one address from its first `resume` until it is dropped.
pub struct Unit {
    pub id: u32,
    pub job: u64,
    pub phase: u16,
    /// When it was suspended; 0 = it runs, or is new.
    pub left_ns: u64,
    /// It became ready in [known, ready]; `ready_ns` 0 = unknown.
    pub known_ns: u64,
    pub ready_ns: u64,
    /// What it is blocked on: `phase.Kind`.
    pub kind: u8,
    pub flags: u8,
    pub call: Text,
    pub peer: Text,
    /// When its I/O last became ready; 0 = never.
    pub io_ready_ns: u64,
    /// Its last wait for a lock or a place of a pool, (from, to); zeros = none.
    pub place_wait: (u64, u64),
    /// Where its time went so far.
    pub totals: UnitTotals,
}

pub(super) fn blank(id: u32, job: u64) -> Unit {
    Unit {
        id,
        job,
        phase: 0,
        left_ns: 0,
        known_ns: 0,
        ready_ns: 0,
        kind: 0,
        flags: 0,
        call: 0,
        peer: 0,
        io_ready_ns: 0,
        place_wait: (0, 0),
        totals: UnitTotals::default(),
    }
}

/// Says that the suspended `unit` became ready in [`known_ns`, `ready_ns`]. The first word wins.
pub fn set_ready(unit: &mut Unit, known_ns: u64, ready_ns: u64, exact: bool) {
    if unit.ready_ns == 0 {
        unit.known_ns = known_ns;
        unit.ready_ns = ready_ns;
        if exact {
            unit.flags |= READY_EXACT;
        }
    }
}
