//! Fair order over keys: deficit round robin over slot time, whose empty turns are skipped.
//!
//! Each round gives every waiting key a quantum of slot time. A call is charged what calls of its key usually take, and
//! what it really took once it has ended; a key in debt has no turn until enough rounds have paid it. Instead of visiting
//! such keys in vain, the round of a key's next turn is computed: the order is that of the visits, at O(log keys).
//!
//! Why slot time and not calls: among more keys than slots, one order each in turn lets those with long calls hold
//! nearly all slots. Absent keys save nothing up, but a debt stays.

/// Slot time that a round gives a key of weight 1, ns. Arbitrary: below it calls of a key may go in a row.
pub const QUANTUM_NS: i64 = 100_000_000;

/// Where a key stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoundPosition {
    /// The round of its next turn.
    pub round: u64,
    /// Its place within the round.
    pub place: u64,
    /// Slot time left in that turn: above 0, at most the quantum.
    left_ns: i64,
}

impl RoundPosition {
    /// A new key takes its turn in this round.
    pub fn new(round: u64, place: u64, weight: u32) -> Self {
        Self {
            round,
            place,
            left_ns: quantum_ns(weight),
        }
    }

    /// The key has orders again after it had none.
    pub fn rejoin(&mut self, round: u64, place: u64, weight: u32) {
        if self.round < round {
            *self = Self::new(round, place, weight);
        }
        self.place = place;
    }

    /// Takes slot time, ns (negative: gives it back). `round` is that of the latest call of anybody.
    pub fn charge(&mut self, cost_ns: i64, round: u64, place: u64, weight: u32) {
        let quantum = quantum_ns(weight);
        let left = self.left_ns - cost_ns;
        let rounds = (quantum - left).div_euclid(quantum);
        self.left_ns = left + rounds * quantum;
        if rounds == 0 {
            return;
        }
        let from = if rounds > 0 {
            self.round.max(round)
        } else {
            self.round
        };
        self.place = place;
        self.round = from.saturating_add_signed(rounds);
        if self.round < round {
            *self = Self::new(round, place, weight);
        }
    }
}

fn quantum_ns(weight: u32) -> i64 {
    QUANTUM_NS * i64::from(weight.max(1))
}
