//! The breaker of one key: open on a share of failed or of slow calls, then k probes decide.
//!
//! *Open* only parks; nothing here fails an order. While half open exactly `probes` calls are let through, and earlier
//! calls no longer count. It closes when fewer of the probes than `failure_rate` were bad, and opens again, for longer,
//! as soon as that is no longer possible. A slow probe is no bad one: with k calls in progress after a pause it is not
//! our load that makes it slow, so the key's usual latency is what has to change (see [`super::limit`]). For the same
//! reason a breaker that slow calls have opened closes when k of the earlier calls have ended well after all: the
//! upstream answers, and this is how long it takes.
//!
//! Why two shift registers and no time window: a key with one order a minute and one with a thousand a second are
//! judged by equally many calls. A window without a call for [`STALE_NS`], or for [`STALE_GAPS`] times as long as the
//! key's calls are usually apart, says nothing: with a call in five minutes it reaches back for hours.
//!
//! Many processes see an upstream fail in the same second. Each waits a little longer than told, by chance, up to
//! [`JITTER`]: so they do not all probe in the same second again.

use super::rule::{Outcome, Rule};

/// A window without a call for so long is emptied, but not where calls are rare. Arbitrary: the longest open time.
pub const STALE_NS: u64 = 60_000_000_000;
/// Usual distances of calls after which it is emptied there: a window of them. And the longest: a day.
pub const STALE_GAPS: u64 = 20;
pub const STALE_MOST_NS: u64 = 86_400_000_000_000;
/// The usual distance is a mean of about this many.
const GAPS: u64 = 8;
/// Longest addition to an open time, as a share of it. Arbitrary.
pub const JITTER: f64 = 0.2;
/// Calls of the short memory that says whether a key is slow just now, and how many of them have to be.
const RECENT: u32 = 8;
const RECENT_SLOW: u32 = 4;

/// What the breaker does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BreakerState {
    /// Calls go through.
    Closed,
    /// Calls wait until then.
    Open { until_ns: u64 },
    /// How many probes were given, how many ended, and how many of those were bad.
    Half { given: u32, ended: u32, bad: u32 },
}

/// What a probe's end has decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProbeResult {
    /// Nothing yet.
    Undecided,
    /// The key is well.
    Closed,
    /// It is not.
    Opened,
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Breaker {
    state: BreakerState,
    /// Open by hand, until it is closed by hand.
    forced: bool,
    /// Bit 0 = the last call that was judged.
    failed: u64,
    slow: u64,
    judged: u32,
    last_ns: u64,
    /// How far judged calls are usually apart, ns.
    gap_ns: u64,
    /// Slow or not of the last calls, whatever the reason.
    recent: u32,
    /// How often it was opened since the window was last full of good calls.
    times: u32,
    /// Calls judged since it closed.
    since_closed: u32,
    /// How often it was opened: tells one round of probes from the next.
    turn: u64,
    /// Slow calls have opened it, and none has failed since.
    by_slow: bool,
    /// Calls of before that have ended well since it opened.
    late: u32,
}

impl Default for Breaker {
    fn default() -> Self {
        Self {
            state: BreakerState::Closed,
            forced: false,
            failed: 0,
            slow: 0,
            judged: 0,
            last_ns: 0,
            gap_ns: 0,
            recent: 0,
            times: 0,
            since_closed: 0,
            turn: 0,
            by_slow: false,
            late: 0,
        }
    }
}

impl Breaker {
    /// What it does, apart from [`Breaker::is_forced`].
    pub fn state(&self) -> BreakerState {
        self.state
    }

    /// Whether it is open by hand.
    pub fn is_forced(&self) -> bool {
        self.forced
    }

    /// How often it has opened.
    pub fn turn(&self) -> u64 {
        self.turn
    }

    /// Whether a call may begin, as far as the breaker goes.
    pub fn allows(&self, rule: &Rule) -> bool {
        !self.forced
            && match self.state {
                BreakerState::Closed => true,
                BreakerState::Open { .. } => false,
                BreakerState::Half { given, .. } => given < rule.probes.max(1),
            }
    }

    /// Whether the next call is a probe.
    pub fn probes(&self) -> bool {
        matches!(self.state, BreakerState::Half { .. })
    }

    /// Whether most of the last calls were slow, or it is not closed by what happened.
    pub fn ill(&self) -> bool {
        self.state != BreakerState::Closed || self.recent.count_ones() >= RECENT_SLOW
    }

    /// (failed, slow) shares of the window; 0 without calls.
    pub fn rates(&self) -> (f64, f64) {
        let calls = f64::from(self.judged.max(1));
        let share = |bits: u64| f64::from(bits.count_ones()) / calls;
        (share(self.failed), share(self.slow))
    }

    /// Takes note whether a call was slow, for [`Breaker::ill`] only.
    pub fn note_call(&mut self, slow: bool) {
        self.recent = (self.recent << 1 | u32::from(slow)) & ((1 << RECENT) - 1);
    }

    /// Judges one call. True: it has opened just now. Ignored unless closed.
    pub fn judge(&mut self, now_ns: u64, failed: bool, slow: bool, rule: &Rule) -> bool {
        if self.state != BreakerState::Closed {
            return false;
        }
        self.pass(now_ns);
        let window = rule.window.clamp(1, 64);
        let mask = u64::MAX >> (64 - window);
        self.failed = (self.failed << 1 | u64::from(failed)) & mask;
        self.slow = (self.slow << 1 | u64::from(slow)) & mask;
        self.judged = (self.judged + 1).min(window);
        self.since_closed = self.since_closed.saturating_add(1);
        if self.since_closed > window {
            self.times = 0;
        }
        let (failing, slowing) = self.rates();
        let over = |rate: f64, most: f64| most > 0.0 && rate >= most;
        if self.judged < rule.least_calls.clamp(1, window)
            || !(over(failing, rule.failure_rate) || over(slowing, rule.slow_call_rate))
        {
            return false;
        }
        self.by_slow = !over(failing, rule.failure_rate);
        self.trip(now_ns, true, rule);
        true
    }

    /// Its open time is over: the next calls are probes.
    pub fn half_open(&mut self) {
        self.state = BreakerState::Half {
            given: 0,
            ended: 0,
            bad: 0,
        };
    }

    /// One probe begins.
    pub fn probe_begins(&mut self) {
        if let BreakerState::Half { given, .. } = &mut self.state {
            *given += 1;
        }
    }

    /// A probe of `turn` says nothing: another may go.
    pub fn probe_cancelled(&mut self, turn: u64) {
        if let (BreakerState::Half { given, .. }, true) = (&mut self.state, turn == self.turn) {
            *given -= 1;
        }
    }

    /// A call of before it opened has ended. True: that has closed it.
    pub fn ended_late(&mut self, outcome: Outcome, rule: &Rule) -> bool {
        self.by_slow &= outcome == Outcome::Ok;
        if self.state == BreakerState::Closed || !self.by_slow {
            return false;
        }
        self.late += 1;
        if self.late < rule.probes.max(1) {
            return false;
        }
        self.turn += 1;
        self.close();
        true
    }

    /// A probe of `turn` has ended. `grows`: a further open time is longer than the last.
    pub fn probe_ended(
        &mut self,
        now_ns: u64,
        turn: u64,
        outcome: Outcome,
        grows: bool,
        rule: &Rule,
    ) -> ProbeResult {
        let BreakerState::Half { given, ended, bad } = self.state else {
            return ProbeResult::Undecided;
        };
        if turn != self.turn {
            return ProbeResult::Undecided;
        }
        self.by_slow &= outcome == Outcome::Ok;
        let (ended, bad) = (ended + 1, bad + u32::from(outcome != Outcome::Ok));
        let probes = rule.probes.max(1);
        let rate = if rule.failure_rate > 0.0 {
            rule.failure_rate
        } else {
            0.5
        };
        if f64::from(bad) / f64::from(probes) >= rate {
            self.trip(now_ns, grows, rule);
            return ProbeResult::Opened;
        }
        if ended >= probes {
            self.close();
            return ProbeResult::Closed;
        }
        self.state = BreakerState::Half { given, ended, bad };
        ProbeResult::Undecided
    }

    /// Another process's probes have failed: it waits this long, ns.
    pub fn probes_failed(&mut self, now_ns: u64, open_ns: u64, rule: &Rule) {
        let until_ns = match self.state {
            BreakerState::Open { until_ns } => until_ns,
            BreakerState::Half { given: 0, .. } => now_ns,
            _ => return,
        };
        let open_ns = open_ns.min(rule.open_most_ns);
        // As often as it has taken the other one to wait for so long; what chance adds there is no further time.
        loop {
            let [this, next] = [self.times, self.times + 1]
                .map(|times| grow(rule.open_ns, rule.open_most_ns, times, rule));
            if this as f64 * (1.0 + JITTER) >= open_ns as f64 || next <= this {
                break;
            }
            self.times += 1;
        }
        self.by_slow = false;
        let later = now_ns.saturating_add(self.jitter(open_ns, rule));
        self.state = BreakerState::Open {
            until_ns: until_ns.max(later),
        };
    }

    /// Opens by hand: parks until [`Breaker::close_by_hand`].
    pub fn open_by_hand(&mut self) {
        self.forced = true;
    }

    /// Closes by hand, whatever it is open for, and forgets what was.
    pub fn close_by_hand(&mut self) {
        self.forced = false;
        self.times = 0;
        self.turn += 1;
        self.close();
    }

    /// Time limit of the next probe, ns; 0 = none.
    ///
    /// None while nothing but slowness speaks against the upstream: to cut such a call off would leave open whether it
    /// was done, and teach nothing. Never below twice what calls usually take: no probe of an upstream that is slow by
    /// nature would end well.
    pub fn probe_limit_ns(&self, usual_ns: u64, rule: &Rule) -> u64 {
        if self.by_slow || rule.probe_limit_ns == 0 {
            return 0;
        }
        grow(rule.probe_limit_ns, u64::MAX, self.times, rule).max(2 * usual_ns)
    }

    /// A call is judged now: learns how rare they are, and empties a window that is too old for that.
    fn pass(&mut self, now_ns: u64) {
        let gap_ns = now_ns.saturating_sub(self.last_ns);
        let stale_ns = (STALE_GAPS * self.gap_ns).clamp(STALE_NS, STALE_MOST_NS);
        if gap_ns > stale_ns {
            self.empty();
        }
        if self.last_ns > 0 {
            self.gap_ns = match self.gap_ns {
                0 => gap_ns.min(STALE_MOST_NS / STALE_GAPS),
                usual => usual - usual / GAPS + gap_ns.min(stale_ns) / GAPS,
            };
        }
        self.last_ns = now_ns;
    }

    fn trip(&mut self, now_ns: u64, grows: bool, rule: &Rule) {
        self.times = self.times.max(1) + u32::from(grows && self.times > 0);
        self.turn += 1;
        self.late = 0;
        let open_ns = grow(rule.open_ns, rule.open_most_ns, self.times, rule);
        self.state = BreakerState::Open {
            until_ns: now_ns.saturating_add(self.jitter(open_ns, rule)),
        };
    }

    /// An open time and what chance adds to it, ns.
    fn jitter(&self, open_ns: u64, rule: &Rule) -> u64 {
        let more = match rule.seed {
            0 => 0.0,
            seed => JITTER * chance(seed.wrapping_add(self.turn)),
        };
        open_ns + (open_ns as f64 * more) as u64
    }

    fn close(&mut self) {
        self.state = BreakerState::Closed;
        self.since_closed = 0;
        self.recent = 0;
        self.empty();
    }

    fn empty(&mut self) {
        self.failed = 0;
        self.slow = 0;
        self.judged = 0;
    }
}

/// A number from 0 up to 1 for each other one: splitmix64 (Steele, Lea and Flood, 2014).
fn chance(number: u64) -> f64 {
    let mut mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((mixed ^ (mixed >> 31)) >> 11) as f64 / (1u64 << 53) as f64
}

/// `first_ns` multiplied by the growth for each time after the first, at most `most_ns`.
fn grow(first_ns: u64, most_ns: u64, times: u32, rule: &Rule) -> u64 {
    let growth = rule.open_growth.max(1.0);
    let mut grown = first_ns.min(most_ns) as f64;
    // After 64 doublings everything is at its most.
    for _ in 1..times.min(64) {
        grown = (grown * growth).min(most_ns as f64);
    }
    grown as u64
}
