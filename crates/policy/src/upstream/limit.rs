//! How many calls of one key may be in progress: by latency relative to the key's own usual one.
//!
//! Calls are looked at in rounds: a round is the first successful calls *begun* since the last decision, up to 32, and
//! their median. Near the usual latency the limit grows (doubling until load was first the reason for more, then by its
//! root), but only if at least half of it was used. Rounds in a row above it halve the limit, and once more; what the
//! latency does then decides:
//!
//! - It came down with the load: the load was the reason, and the limit stays low.
//! - At a quarter of the load it is what it was: the load is not the reason. This latency is the usual one from now on,
//!   and the limit is what it was before.
//!
//! So a merchant that is slow by nature, or has become so, is not punished for it. Why not Gradient2 or Vegas: a moving
//! average as the usual latency takes queueing for nature under long overload (limit 27, then 59 and 70 after an hour),
//! a minimum never takes nature for what it is, and pinning the limit now and then to measure it refuses healthy
//! calls. Here a probe of the baseline happens only where something has changed.

use super::rule::Rule;

/// Latency that our own process adds when it is busy, ns: below this difference nothing is concluded.
pub const SLACK_NS: u64 = 10_000_000;
/// Calls of a round at most.
const ROUND: usize = 32;
/// Calls of the first round, and of any round at a very small limit.
const ROUND_LEAST: u32 = 3;
/// Rounds in a row above the usual latency after which the load is lowered to learn why; one far above counts as four,
/// so that the median of one round of widely spread latencies is no reason yet.
const HELD: u32 = 8;
const FAR: u32 = 4;
/// The usual latency follows by the part of the way that makes it the mean of this many rounds.
const ROUNDS: u32 = 16;

/// Lowering the load to learn whether it is the reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Trial {
    before_ns: u64,
    from: u32,
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct Limiter {
    limit: u32,
    /// Median latency at a load that is not the reason for it, ns; 0 = unknown.
    usual_ns: u64,
    /// The usual latency when the load was last seen not to be the reason for it, or less, ns.
    anchor_ns: u64,
    /// Rounds that the usual latency is the mean of.
    rounds: u32,
    /// Latency has never risen with the limit: it doubles.
    young: bool,
    /// When the present round was opened.
    opened_ns: u64,
    samples_us: [u32; ROUND],
    taken: u32,
    /// Most calls in progress during the round.
    peak: u32,
    held: u32,
    trial: Option<Trial>,
    /// The last round was far above the usual.
    slow: bool,
}

impl Limiter {
    /// Of a key of which nothing is known.
    pub fn new(now_ns: u64, rule: &Rule, slots: u32) -> Self {
        Self {
            limit: rule.first_limit.clamp(1, slots.max(1)).max(rule.least),
            young: true,
            opened_ns: now_ns,
            ..Self::default()
        }
    }

    /// Calls that may be in progress.
    pub fn limit(&self, rule: &Rule) -> u32 {
        if rule.limit > 0 {
            rule.limit.max(rule.least)
        } else {
            self.limit.max(rule.least).max(1)
        }
    }

    /// Usual latency, ns; 0 = unknown.
    pub fn usual_ns(&self) -> u64 {
        self.usual_ns
    }

    /// Whether the last round was far above the usual latency.
    pub fn slow(&self) -> bool {
        self.slow
    }

    /// A call has begun, and `running` are in progress now.
    pub fn began(&mut self, running: u32) {
        self.peak = self.peak.max(running);
    }

    /// A call succeeded. `common`: most keys are slower than usual, so the reason is not this upstream.
    pub fn note_success(
        &mut self,
        now_ns: u64,
        began_ns: u64,
        running: u32,
        common: bool,
        rule: &Rule,
        slots: u32,
    ) {
        if began_ns < self.opened_ns {
            return;
        }
        let took_us = now_ns.saturating_sub(began_ns) / 1_000;
        self.samples_us[self.taken as usize] = u32::try_from(took_us).unwrap_or(u32::MAX);
        self.taken += 1;
        if self.taken < self.wanted_limit() {
            return;
        }
        let taken = &mut self.samples_us[..self.taken as usize];
        taken.sort_unstable();
        let median_ns = u64::from(taken[taken.len() / 2]) * 1_000;
        let used = self.peak * 2 >= self.limit;
        self.conclude(median_ns, used, common, rule, slots);
        self.open(now_ns, running);
    }

    /// A call met its time limit or was refused for want of capacity: one cut for those already in progress.
    pub fn note_drop(
        &mut self,
        now_ns: u64,
        began_ns: u64,
        running: u32,
        common: bool,
        rule: &Rule,
    ) {
        if began_ns < self.opened_ns || common {
            return;
        }
        self.limit = (self.limit - self.limit.div_ceil(4)).max(least(rule));
        self.young = false;
        self.trial = None;
        self.open(now_ns, running);
    }

    /// The breaker closed after probes of this median latency, ns: they are the usual one, since nothing else ran.
    pub fn note_probes(&mut self, now_ns: u64, median_ns: u64, rule: &Rule) {
        if self.usual_ns == 0 || median_ns > 2 * self.usual_ns + SLACK_NS {
            self.learn(median_ns);
        }
        self.limit = (self.limit / 2).max(least(rule));
        self.young = true;
        self.trial = None;
        self.held = 0;
        self.slow = false;
        self.open(now_ns, 0);
    }

    fn wanted_limit(&self) -> u32 {
        if self.usual_ns == 0 {
            ROUND_LEAST
        } else {
            self.limit.clamp(ROUND_LEAST, ROUND as u32)
        }
    }

    fn open(&mut self, now_ns: u64, running: u32) {
        self.opened_ns = now_ns;
        self.taken = 0;
        self.peak = running;
    }

    fn conclude(&mut self, median_ns: u64, used: bool, common: bool, rule: &Rule, slots: u32) {
        if self.usual_ns == 0 {
            self.learn(median_ns);
            return;
        }
        let usual = self.usual_ns;
        let near = median_ns <= usual + usual / 4 + SLACK_NS;
        self.slow = median_ns > usual * 2 + SLACK_NS;
        if common && self.slow {
            // Not this upstream's doing: nothing is cut, and in the long run it is what is usual.
            if let Some(trial) = self.trial.take() {
                self.limit = trial.from;
            }
            self.held = 0;
            self.learn_slowly(median_ns);
        } else if let Some(trial) = self.trial {
            self.conclude_trial(trial, median_ns, rule);
        } else if !used {
            // It has handled as many calls before at the usual latency: the load is not the reason.
            self.held = 0;
            self.follow(median_ns);
            self.anchor_ns = self.usual_ns;
        } else {
            self.follow(median_ns.min(2 * usual));
            // Growing with the latency that it brings about, a limit would take that for usual in the long run.
            self.usual_ns = self.usual_ns.min(self.anchor_ns + self.anchor_ns / 4);
            self.anchor_ns = self.anchor_ns.min(self.usual_ns);
            self.held = match (near, self.slow) {
                (true, _) => 0,
                (_, true) => self.held + FAR,
                _ => self.held + 1,
            };
            if near {
                self.grow(slots);
            } else if self.held >= HELD {
                self.trial = Some(Trial {
                    before_ns: median_ns,
                    from: self.limit,
                });
                self.limit = (self.limit / 2).max(least(rule));
                self.held = 0;
            }
        }
    }

    fn conclude_trial(&mut self, trial: Trial, median_ns: u64, rule: &Rule) {
        let floor = least(rule).max(trial.from / 4);
        if median_ns <= trial.before_ns / 5 * 3 {
            self.trial = None;
            self.young = false;
        } else if self.limit <= floor {
            self.learn(median_ns);
            self.limit = trial.from;
            self.trial = None;
            self.slow = false;
        } else {
            self.limit = (self.limit / 2).max(floor);
        }
    }

    /// This is the usual latency.
    fn learn(&mut self, median_ns: u64) {
        self.usual_ns = median_ns;
        self.anchor_ns = median_ns;
        self.rounds = 1;
    }

    fn learn_slowly(&mut self, median_ns: u64) {
        self.usual_ns += median_ns.saturating_sub(self.usual_ns) / u64::from(ROUNDS);
        self.anchor_ns = self.usual_ns;
    }

    /// Follows what is usual, up and down alike; faster to less than half, which no load makes.
    fn follow(&mut self, median_ns: u64) {
        self.rounds = (self.rounds + 1).min(ROUNDS);
        let usual = self.usual_ns;
        let parts = if median_ns < usual / 2 {
            4
        } else {
            u64::from(self.rounds)
        };
        self.usual_ns = if median_ns < usual {
            usual - (usual - median_ns) / parts
        } else {
            usual + (median_ns - usual) / parts
        };
    }

    fn grow(&mut self, slots: u32) {
        let more = if self.young {
            self.limit
        } else {
            self.limit.isqrt().max(1)
        };
        self.limit = (self.limit + more).min(slots.max(1));
    }
}

fn least(rule: &Rule) -> u32 {
    rule.least.max(1)
}
