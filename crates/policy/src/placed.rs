//! Whether a call of a placed function runs where its caller is, or elsewhere: learned from how long its calls take.
//!
//! Time is wall time less waits for permits: a function that sleeps keeps a loop as well as one that computes.

use crate::weight::{PhaseProfile, Pin, Weight, WeightRule};

/// A call that takes this many times the limit has surprised its loop: the next ones go away.
const SURPRISE: u64 = 4;
/// Calls after such a one that run elsewhere, whatever the sketch still says.
const AWAY: u32 = 32;

/// A share of calls of 1, and the share from which on a function counts as one that only computes.
const WHOLE: u32 = 1024;
const COMPUTES: u32 = WHOLE / 4 * 3;
/// One call changes the share by this part of the way.
const SHARE_STEP: i64 = 8;

/// What is known of one placed function. In its rule `heavy_ns` is the longest call that runs where its caller is.
#[derive(Clone, Debug, Default)]
pub struct CallProfile {
    took: PhaseProfile,
    /// Calls still to be sent away after a surprise.
    away: u32,
    /// Decayed share of its calls that only computed, of [`WHOLE`].
    computed: u32,
}

impl CallProfile {
    /// Takes in how long (ns) one call took, and whether it computed without blocking once.
    pub fn update(&mut self, took_ns: u64, computed: bool, rule: &WeightRule) {
        let (now, before) = (if computed { WHOLE } else { 0 }, self.computed);
        self.computed = if self.samples() == 0 {
            now
        } else {
            (i64::from(before) + (i64::from(now) - i64::from(before)) / SHARE_STEP) as u32
        };
        self.took.update(took_ns, rule);
        self.away = if took_ns > rule.heavy_ns.saturating_mul(SURPRISE) {
            AWAY
        } else {
            self.away.saturating_sub(1)
        };
    }

    /// What its calls are: unknown and heavy ones run elsewhere.
    pub fn weight(&self, rule: &WeightRule, pin: Pin) -> Weight {
        match self.took.weight(rule, pin, 0) {
            Weight::Light if self.away > 0 && pin == Pin::Auto => Weight::Heavy,
            weight => weight,
        }
    }

    /// Whether its calls compute and do not block: then they may queue for one thread.
    pub fn computes(&self) -> bool {
        self.computed >= COMPUTES
    }

    /// How long the next call is expected to take, ns.
    pub fn expected_ns(&self) -> u64 {
        self.took.expected_ns()
    }

    /// How many calls it has learned from.
    pub fn samples(&self) -> u64 {
        self.took.sketch().samples()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULE: WeightRule = WeightRule {
        heavy_ns: 1_000_000,
        least_ns: 1_000_000,
        quantile: 0.9,
        margin: 1.0,
        learn_after: 3,
    };

    fn light() -> CallProfile {
        let mut profile = CallProfile::default();
        (0..200).for_each(|_| profile.update(50_000, true, &RULE));
        profile
    }

    #[test]
    fn a_function_is_unknown_then_light() {
        let mut profile = CallProfile::default();
        assert_eq!(profile.weight(&RULE, Pin::Auto), Weight::Unknown);
        (0..3).for_each(|_| profile.update(50_000, true, &RULE));
        assert_eq!(profile.weight(&RULE, Pin::Auto), Weight::Light);
    }

    #[test]
    fn one_surprise_sends_the_next_calls_away_and_then_it_is_light_again() {
        let mut profile = light();
        profile.update(20_000_000, true, &RULE);
        for _ in 0..AWAY {
            assert_eq!(profile.weight(&RULE, Pin::Auto), Weight::Heavy);
            profile.update(50_000, true, &RULE);
        }
        assert_eq!(profile.weight(&RULE, Pin::Auto), Weight::Light);
    }

    #[test]
    fn a_pin_is_stronger_than_a_surprise() {
        let mut profile = light();
        profile.update(20_000_000, true, &RULE);
        assert_eq!(profile.weight(&RULE, Pin::Light), Weight::Light);
    }

    #[test]
    fn a_function_that_begins_to_block_does_not_compute_any_more_and_comes_back_when_it_stops() {
        let mut profile = light();
        assert!(profile.computes());
        (0..4).for_each(|_| profile.update(50_000, false, &RULE));
        assert!(!profile.computes());
        (0..20).for_each(|_| profile.update(50_000, true, &RULE));
        assert!(profile.computes());
    }

    #[test]
    fn one_call_in_ten_that_blocks_is_borne() {
        let mut profile = light();
        for call in 0..200 {
            profile.update(50_000, call % 10 != 0, &RULE);
            assert!(profile.computes());
        }
    }
}
