//! What is known of one key.

use super::breaker::{Breaker, BreakerState};
use super::delay_reasons::{DelayReason, DelaySums};
use super::limit::{Limiter, SLACK_NS};
use super::ready::{slots_needed, Standing};
use super::recent_outcomes::KeyShare;
use super::round_robin::RoundPosition;
use super::rule::{Outcome, Rule};
use std::collections::{BTreeMap, BTreeSet};

/// A call below this is never slow, ns: our own process adds as much when it is busy. Arbitrary.
const SLOW_LEAST_NS: u64 = 100_000_000;

/// Where a key stands in the indices; each is changed only when it differs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Places {
    /// Among those that could begin a call.
    pub ready: Option<Standing>,
    /// When its breaker lets probes through.
    pub timer: Option<u64>,
    /// How long its orders beyond one filling wait, ns, and how many are parked.
    pub longest: Option<(u64, u64)>,
    /// Parked bytes.
    pub biggest: Option<u64>,
    /// Since when it has no order.
    pub idle: Option<u64>,
    /// Its calls in progress and its place, among strangers that could begin a call.
    pub strange: Option<(u32, u64)>,
    /// Arrival of the newest parked order of a stranger.
    pub newest: Option<u64>,
}

#[derive(Debug)]
pub(super) struct Key {
    pub name: Box<str>,
    /// Tells this key from those that had its number before.
    pub generation: u32,
    /// None = the general one.
    pub rule: Option<Box<Rule>>,
    /// Calls in progress at once that this process has of a limit which several share; None = there is none.
    pub leased: Option<u32>,
    pub breaker: Breaker,
    pub limiter: Limiter,
    /// Usual latency that is assumed until its own is known, ns; 0 = none.
    pub presumed_ns: u64,
    pub turn: RoundPosition,
    /// Order by arrival.
    pub parked: BTreeMap<u64, u64>,
    pub parked_bytes: u64,
    pub running: u32,
    /// Calls in progress that have not been found slow: (began, order).
    pub unjudged: BTreeSet<(u64, u64)>,
    /// Latencies of the present probes that succeeded, ns.
    pub probed: Vec<u64>,
    /// Latencies of calls that ended well after the breaker had opened, ns.
    pub late: Vec<u64>,
    /// It has never answered.
    pub strange: bool,
    pub answered_ns: u64,
    /// Stands in the queue of those that have answered lately.
    pub is_recent: bool,
    /// Stands among those that may have too much parked.
    pub over: bool,
    pub share: KeyShare,
    pub holding: DelaySums,
    pub places: Places,
    pub counts: Counts,
}

/// What has happened since the key became known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Calls begun, probes among them.
    pub started: u64,
    /// Probes begun.
    pub probes: u64,
    /// Calls ended, by [`Outcome`].
    pub ended: [u64; Outcome::ALL.len()],
    /// Calls that were slow.
    pub slow: u64,
    /// How often the breaker opened.
    pub opened: u64,
    /// Orders that had to go back.
    pub surplus: u64,
    /// Orders whose deadline passed while they were parked.
    pub expired: u64,
}

impl Key {
    pub fn rule<'a>(&'a self, general: &'a Rule) -> &'a Rule {
        self.rule.as_deref().unwrap_or(general)
    }

    /// From how long on a call is slow, ns; None = unknown, or never.
    pub fn slow_ns(&self, rule: &Rule) -> Option<u64> {
        let usual = match self.limiter.usual_ns() {
            0 => self.presumed_ns,
            own => own,
        };
        if rule.slow_call_rate <= 0.0 {
            None
        } else if rule.slow_call_ns > 0 {
            Some(rule.slow_call_ns)
        } else if usual > 0 {
            Some(((usual as f64 * rule.slow_call_x.max(1.0)) as u64).max(SLOW_LEAST_NS + SLACK_NS))
        } else {
            None
        }
    }

    /// Calls that may be in progress at once, while the breaker is closed.
    pub fn limit(&self, rule: &Rule) -> u32 {
        self.limiter
            .limit(rule)
            .min(self.leased.unwrap_or(u32::MAX))
    }

    /// Calls that may be in progress at once, breaker and limit taken together; at least one.
    pub fn allowed_calls(&self, rule: &Rule) -> u32 {
        match self.breaker.state() {
            BreakerState::Closed if !self.breaker.is_forced() => self.limit(rule).max(1),
            _ => 1,
        }
    }

    /// Where it has to stand now.
    pub fn places(&self, general: &Rule, now_ns: u64) -> Places {
        let rule = self.rule(general);
        let parked = self.parked.len() as u64;
        let empty = parked == 0;
        let state = self.breaker.state();
        let standing = (!empty && self.breaker.allows(rule))
            .then(|| self.standing(rule))
            .flatten();
        let strange = self.strange();
        Places {
            ready: standing.filter(|_| !strange),
            strange: standing
                .filter(|_| strange)
                .map(|(_, _, place)| (self.running, place)),
            newest: (strange && !empty)
                .then(|| self.parked.last_key_value().map(|(&arrival, _)| arrival))
                .flatten(),
            timer: match state {
                BreakerState::Open { until_ns } if !empty && !self.breaker.is_forced() => {
                    Some(until_ns)
                }
                _ => None,
            },
            longest: (!empty).then(|| (self.drain_ns(parked, rule), parked)),
            biggest: (!empty).then_some(self.parked_bytes),
            idle: (empty && self.running == 0 && self.rule.is_none() && !self.breaker.is_forced())
                .then(|| self.places.idle.unwrap_or(now_ns)),
        }
    }

    /// What it adds to the sums over keys.
    pub fn share(&self, general: &Rule) -> KeyShare {
        let promised = self.rule.is_some();
        KeyShare {
            counts: self.is_recent || promised,
            ill: self.breaker.ill() || self.limiter.slow(),
            owed: self
                .rule(general)
                .least
                .min(self.leased.unwrap_or(u32::MAX))
                .saturating_sub(self.running),
            promised,
            strange_running: if self.strange() { self.running } else { 0 },
            strange_parked: if self.strange() {
                self.parked.len() as u64
            } else {
                0
            },
        }
    }

    /// Whether it has never answered, and nobody has given it a rule.
    pub fn strange(&self) -> bool {
        self.strange && self.rule.is_none()
    }

    /// What keeps its orders from being begun, if it has any.
    pub fn why(&self, general: &Rule) -> DelayReason {
        let rule = self.rule(general);
        if !self.breaker.allows(rule) {
            DelayReason::Breaker
        } else if self.standing(rule).is_none() {
            DelayReason::Limit
        } else {
            DelayReason::Slots
        }
    }

    fn standing(&self, rule: &Rule) -> Option<Standing> {
        if self.leased.is_some_and(|leased| self.running >= leased) {
            return None;
        }
        // A probe is not held up by the calls of before, nor by those of others.
        let need = if self.breaker.probes() {
            0
        } else if self.running < self.limit(rule) {
            slots_needed(self.running, rule.least, rule.most_frac)
        } else {
            return None;
        };
        Some((need, self.turn.round, self.turn.place))
    }

    /// How long orders wait beyond those that fill the key's limit once, ns.
    fn drain_ns(&self, parked: u64, rule: &Rule) -> u64 {
        let allowed = u64::from(self.allowed_calls(rule));
        let beyond = parked.saturating_sub(allowed);
        beyond.saturating_mul(self.limiter.usual_ns().max(1)) / allowed
    }
}
