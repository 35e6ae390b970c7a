//! Who observes turns for permits: the recorder, where there is one. This crate does not know it.

use std::sync::OnceLock;

static TOLD: OnceLock<fn(u64, u64)> = OnceLock::new();
static TURNS: OnceLock<fn(PhaseTurn)> = OnceLock::new();

/// How one phase went; the default is one that needed no permit, or (in observe mode) would only have waited for one. See
/// [`crate::counters::Turns`] for the words.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PhaseTurn {
    /// It had a permit.
    pub taken: bool,
    pub express: bool,
    pub shared: bool,
    pub charged: bool,
    pub skipped: bool,
}

/// Tells `told` of each wait for a permit, from and to (ns), on the thread that waited. The first word wins.
pub fn tell(told: fn(u64, u64)) {
    // Told twice by one module: it is the same function.
    let _ = TOLD.set(told);
}

/// Tells `told` of each heavy phase at its end, likewise.
pub fn tell_of_turns(told: fn(PhaseTurn)) {
    let _ = TURNS.set(told);
}

/// This thread's phase has ended.
pub fn report_turn(turn: PhaseTurn) {
    if turn != PhaseTurn::default() {
        if let Some(told) = TURNS.get() {
            told(turn);
        }
    }
}

/// This thread has waited for a permit.
pub fn report_wait(from_ns: u64, to_ns: u64) {
    if let Some(told) = TOLD.get() {
        told(from_ns, to_ns);
    }
}
