//! Where the calls of one placed function run: where their caller is, on the native thread, or in a worker process.
//!
//! Every function begins on the thread, where nothing that it does can keep a loop, and is measured there. Calls that a
//! loop bears stay where their caller is from then on. Of the others, those that compute without the GIL stay on the
//! thread: they keep nobody. For the rest the worker processes are tried, in turns with the thread, within a budget;
//! then it settles for what is fastest, or of two that are nearly equal for what keeps the loop less. It looks again
//! when the calls change, and now and then.
//!
//! Pure: the shell says when it is, what a call cost, and whether one can cross to another process at all.

mod names;
mod ring;
mod waits;

use crate::placed::CallProfile;
use crate::weight::{Pin, Weight, WeightRule};
use ring::{Ring, KEPT};

pub use names::{Place, Why};
pub use waits::{Look, Waits};

/// Calls on the thread before anything is concluded from them, and those that tell whether an old conclusion holds.
const LEARN: usize = 3;
/// Calls that another placement gets when it is tried. Odd, so that the median is one of them.
const TRIES: u32 = 5;
/// A tried call that never came back is given up after this.
const LOST_NS: u64 = 30_000_000_000;
/// When placements are tried again: after this many calls, doubled up to the last each time that the conclusion stays
/// the same, and after this time at the earliest.
const AGAIN_FIRST: u64 = 64;
const AGAIN_LAST: u64 = 4_096;
const AGAIN_NS: u64 = 10_000_000_000;
const MINUTE_NS: u64 = 60_000_000_000;
/// Of 1000: who is without the GIL for this share of its time keeps nobody.
const RELEASED: u64 = 700;
/// Two placements are equally fast when their calls differ by less than 1/`NEAR`.
const NEAR: u64 = 10;
/// Of two that are equally fast, one is preferred if it keeps the loop at least this much less, ns.
const CALMER_NS: u64 = 500_000;
/// Calls that have become longer or shorter are not noticed before this part of the calls after which it looks again:
/// a machine whose neighbours come and go has nothing new measured in every ten calls.
const BLIND: u64 = 8;
/// More callers than these count as these: a flood is not how a function is called.
const MOST_CROWD: u64 = 64;
/// Medians that differ by less than this have not changed, however small they are.
const SAME_NS: u64 = 100_000;

/// The rules of choosing.
#[derive(Clone, Copy, Debug)]
pub struct ChoiceRule {
    /// `heavy_ns` is the longest call that a loop bears; it bears twice that of waiting for the GIL.
    pub call: WeightRule,
    /// Whether calls may run where their caller is, and in worker processes.
    pub inline: bool,
    /// See `inline`.
    pub process: bool,
    /// What trying may cost in a minute, over the best placement, ns. A trial that has begun gets its first calls.
    pub budget_ns: u64,
    /// Calls that the worker processes run at once; 0 counts as 1. The thread runs one.
    pub workers: u64,
}

/// What to do with the next call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Next {
    /// Where it runs.
    pub place: Place,
    /// It is a try: say so when it has ended.
    pub tried: bool,
    /// Measure what it costs others: lag, share without the GIL.
    pub measure: bool,
    /// Look whether it could cross to another process, and with how much ([`Chooser::inspected`], [`Chooser::refuse`]).
    pub inspect: bool,
    /// Get the worker processes ready for it ([`Chooser::ready`]).
    pub prepare: bool,
}

/// What one call has cost.
#[derive(Clone, Copy, Debug, Default)]
pub struct Measured {
    /// Its caller waited so long, without the wait for its turn.
    pub took_ns: u64,
    /// Its function ran so long.
    pub ran_ns: u64,
    /// Its thread computed so long; 0 = unknown.
    pub cpu_ns: u64,
    /// So long it kept the caller's loop from turning; None = not measured.
    pub lag_ns: Option<u64>,
    /// Share of its time without the GIL, of 1000; None = not measured.
    pub released: Option<u64>,
    /// It computed, and did not block.
    pub computed: bool,
    /// Calls of the function that were in progress when it began, itself included; 0 = unknown.
    pub crowd: u64,
}

/// Whether a function can run in another process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Crossing {
    /// Nobody has looked.
    #[default]
    Unknown,
    /// It can; pickling a call and its result keeps the caller so long.
    Inspected(u64),
    /// Likewise, and the workers know it.
    Ready(u64),
    /// It cannot.
    Refused,
}

/// A placement that is tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Trial {
    place: Place,
    left: u32,
    /// Its first call is not counted: modules, caches.
    cold: bool,
    /// It has had a call: what it still needs for a verdict it gets, whatever the purse says.
    begun: bool,
    /// Since when a call is under way; 0 = none.
    open_ns: u64,
    /// The next call is the settled placement's: both see the same calls.
    yields: bool,
}

/// What is known of one function, and what follows from it.
#[derive(Clone, Debug, Default)]
pub struct Chooser {
    profile: CallProfile,
    took: [Ring; 3],
    lag: [Ring; 3],
    cpu: Ring,
    released: Ring,
    crowd: Ring,
    crossing: Crossing,
    place: Place,
    why: Why,
    settled: bool,
    trial: Option<Trial>,
    /// What the thread and the processes took, and kept a loop, when they were last compared.
    weighed: [(u64, u64); 2],
    /// Median of the calls when it settled, when that was, and how many there were since.
    settled_took_ns: u64,
    settled_ns: u64,
    calls: u64,
    again_after: u64,
    /// They take longer or shorter since.
    changed: bool,
    /// What trying may still cost, and since when more has accrued.
    purse: Option<(i64, u64)>,
}

impl Chooser {
    /// What is known of its calls as such.
    pub fn profile(&self) -> &CallProfile {
        &self.profile
    }

    /// Where its calls run, and why.
    pub fn chosen(&self) -> (Place, Why) {
        (self.place, self.why)
    }

    /// (calls remembered, median of what their callers waited, of what they kept a loop) at a place.
    pub fn seen(&self, place: Place) -> (usize, u64, u64) {
        let took = &self.took[place as usize];
        (took.len, took.median(), self.lag[place as usize].median())
    }

    /// (median CPU of a call in ns, mean share without the GIL of 1000, ns that pickling keeps the caller).
    pub fn costs(&self) -> (u64, u64, u64) {
        let kept_ns = match self.crossing {
            Crossing::Inspected(kept_ns) | Crossing::Ready(kept_ns) => kept_ns,
            Crossing::Unknown | Crossing::Refused => 0,
        };
        (self.cpu.median(), self.released.mean(), kept_ns)
    }

    /// (ns that callers waited, their turn included, ns that a loop was kept) on the thread and in a process, when they
    /// were last compared.
    pub fn weighed(&self) -> [(u64, u64); 2] {
        self.weighed
    }

    /// Whether it has come to a conclusion.
    pub fn settled(&self) -> bool {
        self.settled && self.trial.is_none()
    }

    /// Restores what an earlier process has concluded: where calls run and how long they take. It is measured again.
    pub fn restore(
        &mut self,
        place: Place,
        why: Why,
        took_ns: u64,
        now_ns: u64,
        rule: &ChoiceRule,
    ) {
        for _ in 0..rule.call.learn_after {
            self.profile.update(took_ns, true, &rule.call);
        }
        self.settle(place, why, now_ns);
        self.settled_took_ns = took_ns;
        if place == Place::Process {
            self.crossing = Crossing::Inspected(0);
        }
    }

    /// Says what to do with the next call.
    pub fn next(&mut self, now_ns: u64, rule: &ChoiceRule) -> Next {
        match self.profile.weight(&rule.call, Pin::Auto) {
            Weight::Unknown => return measured(),
            Weight::Light if rule.inline => return self.light(now_ns),
            _ => {}
        }
        if self.place == Place::Inline {
            self.doubt(Why::Surprised);
        }
        if self.is_due(now_ns) {
            self.look_again(rule);
        }
        let thread = &self.took[Place::Thread as usize];
        if thread.len < LEARN && self.place == Place::Thread {
            return measured();
        }
        if let Some(next) = self.next_try(now_ns, rule) {
            return next;
        }
        if self.settled {
            return self.as_settled();
        }
        self.next_unsettled(now_ns, rule)
    }

    /// Its calls are such that a loop bears them.
    fn light(&mut self, now_ns: u64) -> Next {
        if self.place == Place::Process {
            // What it loads at its first call it has not loaded in this process.
            self.took[Place::Thread as usize].clear();
            self.doubt(Why::New);
        }
        if self.took[Place::Thread as usize].len < LEARN {
            return measured();
        }
        if self.place != Place::Inline {
            self.settle(Place::Inline, Why::Light, now_ns);
        }
        plain(Place::Inline)
    }

    fn next_unsettled(&mut self, now_ns: u64, rule: &ChoiceRule) -> Next {
        let thread = Place::Thread as usize;
        let (took_ns, lag_ns) = (self.took[thread].median(), self.lag[thread].median());
        let bears_ns = bears(rule);
        let why = if took_ns <= rule.call.heavy_ns && rule.inline {
            self.why = Why::Surprised;
            return plain(Place::Thread);
        } else if took_ns <= rule.call.heavy_ns {
            Why::Light
        } else if !rule.process {
            Why::Alone
        } else if self.released.mean() >= RELEASED && lag_ns <= bears_ns {
            Why::Released
        } else if rule.budget_ns == 0 {
            Why::Budget
        } else {
            match self.crossing {
                Crossing::Refused => Why::Refused,
                Crossing::Unknown => {
                    return Next {
                        inspect: true,
                        ..measured()
                    };
                }
                Crossing::Inspected(kept_ns) | Crossing::Ready(kept_ns)
                    if !pays(kept_ns, took_ns, lag_ns, bears_ns) =>
                {
                    Why::Payload
                }
                Crossing::Inspected(_) => {
                    self.why = Why::Preparing;
                    return self.preparing();
                }
                Crossing::Ready(_) => {
                    self.why = Why::Trying;
                    self.begin_trial(Place::Process, TRIES, true);
                    return self.next_try(now_ns, rule).unwrap_or(plain(Place::Thread));
                }
            }
        };
        self.settle(Place::Thread, why, now_ns);
        plain(Place::Thread)
    }

    fn as_settled(&self) -> Next {
        if self.place == Place::Process && !matches!(self.crossing, Crossing::Ready(_)) {
            return self.preparing();
        }
        plain(self.place)
    }

    /// A call on the thread while the workers get ready.
    fn preparing(&self) -> Next {
        Next {
            prepare: true,
            ..self.watched(Place::Thread)
        }
    }

    /// A call that is measured if too little is known of what such calls cost others: measuring costs something, too.
    fn watched(&self, place: Place) -> Next {
        Next {
            measure: self.lag[place as usize].len < KEPT,
            ..plain(place)
        }
    }

    /// The next call of a trial; None = there is none, or it must wait.
    fn next_try(&mut self, now_ns: u64, rule: &ChoiceRule) -> Option<Next> {
        let mut trial = self.trial?;
        let ready = trial.place != Place::Process || matches!(self.crossing, Crossing::Ready(_));
        let here = self.watched(self.place);
        if trial.open_ns != 0 && now_ns.saturating_sub(trial.open_ns) < LOST_NS {
            return Some(here);
        }
        if trial.yields {
            trial.yields = false;
            self.trial = Some(trial);
            return Some(here);
        }
        if !ready {
            return None;
        }
        if !trial.begun && self.purse_ns(now_ns, rule) <= 0 {
            if !self.settled {
                self.why = Why::Budget;
            }
            return Some(plain(self.place));
        }
        trial.open_ns = now_ns.max(1);
        trial.begun = true;
        self.trial = Some(trial);
        Some(Next {
            tried: true,
            measure: true,
            ..plain(trial.place)
        })
    }

    /// Takes in what a call has cost that was begun as `next`.
    pub fn observe(&mut self, next: Next, cost: &Measured, now_ns: u64, rule: &ChoiceRule) {
        self.profile.update(cost.ran_ns, cost.computed, &rule.call);
        self.calls += 1;
        let cold = next.tried && self.trial.is_some_and(|trial| trial.cold);
        if !cold {
            self.remember(next.place, cost);
        }
        if next.tried {
            self.tried(next.place, cost.took_ns, now_ns, rule);
        } else if self.settled && self.trial.is_none() && next.place == self.place {
            self.watch();
        }
    }

    /// A call of `place` takes so long, where nothing else is measured: light calls that run where their caller is.
    pub fn ran_inline(&mut self, took_ns: u64, rule: &ChoiceRule) {
        self.profile.update(took_ns, false, &rule.call);
        self.took[Place::Inline as usize].push(took_ns);
        self.calls += 1;
    }

    /// A call that was a try has ended without teaching anything: cancelled, failed, refused.
    pub fn lost(&mut self, next: Next) {
        if let Some(trial) = self.trial.as_mut().filter(|_| next.tried) {
            trial.open_ns = 0;
            trial.yields = true;
        }
    }

    /// It can run in another process; pickling a call and its result keeps the caller so long.
    pub fn inspected(&mut self, kept_ns: u64) {
        if self.crossing == Crossing::Unknown {
            self.crossing = Crossing::Inspected(kept_ns);
        }
    }

    /// The workers know it.
    pub fn ready(&mut self) {
        if let Crossing::Inspected(kept_ns) = self.crossing {
            self.crossing = Crossing::Ready(kept_ns);
        }
    }

    /// It cannot run in another process, or must not, from now on.
    pub fn refuse(&mut self, now_ns: u64) {
        self.crossing = Crossing::Refused;
        self.trial = None;
        if self.place != Place::Inline {
            self.settle(Place::Thread, Why::Refused, now_ns);
        }
    }

    /// The workers are new: those of the parent's are not a forked child's.
    pub fn forked(&mut self) {
        if let Crossing::Ready(kept_ns) = self.crossing {
            self.crossing = Crossing::Inspected(kept_ns);
        }
        self.trial = None;
    }

    fn remember(&mut self, place: Place, cost: &Measured) {
        self.took[place as usize].push(cost.took_ns);
        if let Some(lag_ns) = cost.lag_ns {
            self.lag[place as usize].push(lag_ns);
        }
        if let Some(released) = cost.released {
            self.released.push(released);
        }
        if cost.cpu_ns > 0 {
            self.cpu.push(cost.cpu_ns);
        }
        if cost.crowd > 0 {
            self.crowd.push(cost.crowd);
        }
    }

    fn tried(&mut self, place: Place, took_ns: u64, now_ns: u64, rule: &ChoiceRule) {
        let best_ns = self.took[self.place as usize].median();
        self.spend(took_ns.saturating_sub(best_ns), now_ns, rule);
        let Some(trial) = self.trial.as_mut().filter(|trial| trial.place == place) else {
            return;
        };
        trial.open_ns = 0;
        trial.yields = true;
        if trial.cold {
            trial.cold = false;
            return;
        }
        trial.left = trial.left.saturating_sub(1);
        let tried = &self.took[place as usize];
        let (left, counted) = (trial.left, tried.len);
        let (least_ns, best_ns) = (
            self.with_turns(tried.least(), place, rule),
            self.with_turns(best_ns, self.place, rule),
        );
        let hopeless = counted >= 2 && least_ns > best_ns / 2 * 3 + bears(rule);
        let spent = self.purse_ns(now_ns, rule) <= 0;
        let enough = left == 0 && (spent || counted >= KEPT || !self.is_doubtful(rule));
        if hopeless || enough || spent && counted >= LEARN {
            self.decide(now_ns, rule);
        }
    }

    /// Whether the thread and the processes differ, but by so little that chance may have made it.
    fn is_doubtful(&self, rule: &ChoiceRule) -> bool {
        let [thread_ns, process_ns] =
            [Place::Thread, Place::Process].map(|place| self.cost(place, rule).0);
        let (less_ns, more_ns) = (thread_ns.min(process_ns), thread_ns.max(process_ns));
        more_ns > less_ns + less_ns / NEAR && more_ns < less_ns / 2 * 3
    }

    /// What its callers wait who come together, when a call takes so long: they are served by turns, on the thread one
    /// at a time.
    fn with_turns(&self, took_ns: u64, place: Place, rule: &ChoiceRule) -> u64 {
        let at_once = match place {
            Place::Process => rule.workers.max(1),
            Place::Inline | Place::Thread => 1,
        };
        let crowd = self.crowd.median().clamp(at_once, MOST_CROWD.max(at_once));
        took_ns.saturating_mul(crowd) / at_once
    }

    /// What a call costs there, turns included, and how long it keeps a loop. Of what calls took the lower quartile: what a neighbour
    /// on the machine adds is only ever added, and not to every call.
    fn cost(&self, place: Place, rule: &ChoiceRule) -> (u64, u64) {
        let took_ns = self.with_turns(self.took[place as usize].quartile(), place, rule);
        let lag_ns = self.lag[place as usize].median();
        (
            took_ns.saturating_add(lag_ns.saturating_sub(bears(rule))),
            lag_ns,
        )
    }

    /// Settles for the thread or the processes.
    fn decide(&mut self, now_ns: u64, rule: &ChoiceRule) {
        let (thread, process) = (
            self.cost(Place::Thread, rule),
            self.cost(Place::Process, rule),
        );
        self.weighed = [Place::Thread, Place::Process].map(|place| {
            let took_ns = self.took[place as usize].quartile();
            let waited_ns = self.with_turns(took_ns, place, rule);
            (waited_ns, self.lag[place as usize].median())
        });
        let near_ns = thread.0.min(process.0) / NEAR;
        let (place, why) = if thread.0 + near_ns < process.0 {
            (Place::Thread, Why::Faster)
        } else if process.0 + near_ns < thread.0 {
            (Place::Process, Why::Faster)
        } else if process.1 + CALMER_NS < thread.1 {
            (Place::Process, Why::Calmer)
        } else if thread.1 + CALMER_NS < process.1 {
            (Place::Thread, Why::Calmer)
        } else {
            (self.place, Why::Equal)
        };
        self.settle(place, why, now_ns);
    }

    fn settle(&mut self, place: Place, why: Why, now_ns: u64) {
        let same = place == self.place && self.again_after > 0;
        self.again_after = if same {
            (self.again_after * 2).min(AGAIN_LAST)
        } else {
            AGAIN_FIRST
        };
        self.place = place;
        self.why = why;
        self.settled = true;
        self.trial = None;
        self.settled_took_ns = self.took[place as usize].median();
        self.settled_ns = now_ns;
        self.calls = 0;
        self.changed = false;
    }

    /// Goes back to the thread, to learn.
    fn doubt(&mut self, why: Why) {
        self.place = Place::Thread;
        self.why = why;
        self.settled = false;
        self.trial = None;
        self.again_after = 0;
    }

    fn is_due(&self, now_ns: u64) -> bool {
        self.settled
            && self.trial.is_none()
            && (self.changed
                || self.calls >= self.again_after
                    && now_ns.saturating_sub(self.settled_ns) >= AGAIN_NS)
    }

    /// Doubts what it has settled for.
    fn look_again(&mut self, rule: &ChoiceRule) {
        self.calls = 0;
        self.changed = false;
        match (self.place, self.crossing) {
            (Place::Process, Crossing::Ready(_)) => {
                self.begin_trial(Place::Thread, LEARN as u32, false);
            }
            (Place::Thread, Crossing::Ready(_)) if rule.process && rule.budget_ns > 0 => {
                self.begin_trial(Place::Process, LEARN as u32, false);
            }
            (Place::Thread, Crossing::Refused) => {}
            (Place::Thread, _) => {
                // Measured again from its next calls on: lag, share without the GIL, payload.
                self.crossing = Crossing::Unknown;
                self.took[Place::Thread as usize].clear();
                self.lag[Place::Thread as usize].clear();
                self.released.clear();
                self.settled = false;
            }
            _ => {}
        }
    }

    fn begin_trial(&mut self, place: Place, left: u32, cold: bool) {
        self.took[place as usize].clear();
        self.lag[place as usize].clear();
        self.trial = Some(Trial {
            place,
            left,
            cold,
            begun: false,
            open_ns: 0,
            yields: false,
        });
    }

    /// Looks again immediately if the calls have become shorter or longer by half.
    fn watch(&mut self) {
        let took = &self.took[self.place as usize];
        if took.len < KEPT || self.calls < self.again_after / BLIND {
            return;
        }
        let (now, then) = (took.median(), self.settled_took_ns);
        let longer = now > then / 2 * 3 + SAME_NS;
        let shorter = now + SAME_NS < then / 3 * 2;
        if longer || shorter {
            self.settled_took_ns = now;
            self.changed = true;
        }
    }

    /// What trying may cost now; negative = what it has cost too much.
    fn purse_ns(&mut self, now_ns: u64, rule: &ChoiceRule) -> i64 {
        let full = i64::try_from(rule.budget_ns).unwrap_or(i64::MAX);
        let (left_ns, since_ns) = self.purse.unwrap_or((full, now_ns));
        let passed_ns = now_ns.saturating_sub(since_ns).min(MINUTE_NS);
        let accrued_ns =
            (u128::from(passed_ns) * u128::from(rule.budget_ns) / u128::from(MINUTE_NS)) as i64;
        let left_ns = left_ns.saturating_add(accrued_ns).min(full);
        if accrued_ns > 0 || self.purse.is_none() {
            self.purse = Some((left_ns, now_ns));
        }
        left_ns
    }

    /// One call costs at most a whole budget: then the next one can be tried in two minutes.
    fn spend(&mut self, ns: u64, now_ns: u64, rule: &ChoiceRule) {
        let left_ns = self.purse_ns(now_ns, rule) - ns.min(rule.budget_ns) as i64;
        let since_ns = self.purse.map_or(now_ns, |(_, since_ns)| since_ns);
        self.purse = Some((left_ns, since_ns));
    }
}

fn plain(place: Place) -> Next {
    Next {
        place,
        tried: false,
        measure: false,
        inspect: false,
        prepare: false,
    }
}

/// A call on the thread that teaches.
fn measured() -> Next {
    Next {
        measure: true,
        ..plain(Place::Thread)
    }
}

/// How long a loop may wait for the GIL without being kept, ns.
fn bears(rule: &ChoiceRule) -> u64 {
    rule.call.heavy_ns * 2
}

/// Whether a worker process can be better at all: pickling keeps the loop, and its other half takes as long there.
fn pays(kept_ns: u64, took_ns: u64, lag_ns: u64, bears_ns: u64) -> bool {
    kept_ns <= bears_ns.max(lag_ns) && (lag_ns > bears_ns || kept_ns <= took_ns / 10)
}

#[cfg(test)]
mod tests;
