//! How a heavy phase took its turn, as the recorder writes it.

use greenlane_permits::observer::PhaseTurn;
use greenlane_recorder::{TURN_CHARGED, TURN_EXPRESS, TURN_SHARED, TURN_SKIPPED, TURN_TAKEN};

/// Writes it down, if there is a recording.
pub fn record_turn(turn: PhaseTurn) {
    let bits = [
        (turn.taken, TURN_TAKEN),
        (turn.express, TURN_EXPRESS),
        (turn.shared, TURN_SHARED),
        (turn.charged, TURN_CHARGED),
        (turn.skipped, TURN_SKIPPED),
    ];
    let how = bits.iter().filter(|(is_so, _)| *is_so);
    greenlane_recorder::took_its_turn(how.map(|(_, bit)| bit).sum());
}
