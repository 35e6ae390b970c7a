//! How many requests a worker should get at once, from what its requests do.
//!
//! More than keep it busy would wait inside it, where nobody can reorder them, refuse them or give them to another
//! worker; fewer leave it idle. So: the smallest number with which its CPU works nearly all the time. Measured are CPU
//! and I/O of the requests, and I/O lasts until its reply is *there*: until the code goes on would contain the wait
//! that the number itself brings about, and confirm whatever number is set.
//!
//! Where something else than the CPU is the narrow place (a loop that is blocked, a pool of connections, an upstream
//! that slows down under load) the model asks for too many. Then requests stay longer than what they do by themselves,
//! and that is the backstop: windowed Vegas. How long they stay follows from how many are there and how many end
//! (Little); what they do, from the usual CPU and I/O of the routes that were in the window, so that another mix is no
//! other latency. When half the load does not make them faster the load was not the reason, and what they take now is
//! usual.

use crate::closed_loop::one_cpu;
use std::collections::HashMap;

/// What is decided by.
#[derive(Clone, Copy, Debug)]
pub struct AtOnceRule {
    /// A worker for which requests wait should compute this share of the time.
    pub busy: f64,
    /// Bounds of the number; 1 <= `least` <= `most`.
    pub least: u32,
    pub most: u32,
    /// From an answer until the worker has its next request, ns: it idles meanwhile, as it does for I/O.
    pub gap_ns: u64,
    /// The least that a window has: workers' time, ns, and requests.
    pub window_ns: u64,
    pub window_jobs: u64,
}

/// Requests of one route that have ended: sums.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ended {
    pub jobs: u64,
    pub cpu_ns: u64,
    /// Until the reply was there.
    pub io_ns: u64,
}

/// Why the number is what it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Why {
    /// Too little is known.
    #[default]
    Unknown,
    /// The model asks for it.
    Model,
    /// Requests take longer than what they do: fewer than the model asks for.
    Backstop,
    /// The model asks for fewer than `least`.
    Least,
    /// The model asks for more than `most`.
    Most,
}

impl Why {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Model => "model",
            Self::Backstop => "backstop",
            Self::Least => "least",
            Self::Most => "most",
        }
    }
}

/// Routes whose usual time is known; further ones count as they are. Arbitrary.
const MOST_ROUTES: usize = 1024;
/// What earlier windows weigh in the means, each against the next one.
const KEPT: f64 = 0.75;
/// Requests of a route in a window from which its usual time follows.
const ROUTE_JOBS: u64 = 8;
/// It follows by this part of the way.
const STEP: f64 = 0.25;
/// At half the load requests take this part of what they took, or more: the load is not the reason.
const UNMOVED: f64 = 0.8;
/// The number over that of requests that do not wait, when the backstop sets it.
const OVER_KNEE: f64 = 1.65;
/// Load can be the reason of something when so much of the number is in progress.
const USED: f64 = 0.75;

/// Lowering the number to learn whether it is the reason.
#[derive(Clone, Copy, Debug)]
struct Trial {
    from: u32,
    stretch: f64,
}

/// The number of one group of like workers. See the module.
#[derive(Clone, Debug)]
pub struct AtOnce {
    rule: AtOnceRule,
    number: u32,
    why: Why,
    /// The window: workers' time, the same times their requests in progress, what has ended.
    worked_ns: f64,
    held_ns: f64,
    /// In it, CPU of the workers' processes, and how long they waited for a core.
    ran_ns: f64,
    starved_ns: f64,
    open: HashMap<String, Ended>,
    /// Decayed sums: requests, CPU, I/O.
    jobs: f64,
    cpu_ns: f64,
    io_ns: f64,
    /// Route -> CPU and I/O of a request when load is not the reason for more, ns.
    usual_ns: HashMap<String, f64>,
    /// What the backstop allows.
    cap: u32,
    trial: Option<Trial>,
    stretch: f64,
}

impl AtOnce {
    /// Of workers of which nothing is known but the number that they have.
    pub fn new(rule: AtOnceRule, first: u32) -> Self {
        let least = rule.least.max(1);
        let rule = AtOnceRule {
            least,
            most: rule.most.max(least),
            ..rule
        };
        Self {
            rule,
            number: first.clamp(rule.least, rule.most),
            why: Why::Unknown,
            worked_ns: 0.0,
            held_ns: 0.0,
            ran_ns: 0.0,
            starved_ns: 0.0,
            open: HashMap::new(),
            jobs: 0.0,
            cpu_ns: 0.0,
            io_ns: 0.0,
            usual_ns: HashMap::new(),
            cap: rule.most,
            trial: None,
            stretch: 1.0,
        }
    }

    /// Requests at once for each worker.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Why.
    pub fn why(&self) -> Why {
        self.why
    }

    /// Mean CPU of a request, ns; 0 = unknown.
    pub fn cpu_ns(&self) -> u64 {
        self.mean(self.cpu_ns)
    }

    /// Mean I/O of a request, ns, as `cpu_ns`.
    pub fn io_ns(&self) -> u64 {
        self.mean(self.io_ns)
    }

    /// How many times longer than usual requests stayed in the last window.
    pub fn stretch(&self) -> f64 {
        self.stretch
    }

    /// Takes in the workers' CPU since the last call, and how long they waited for a core. Call before `look`.
    pub fn had(&mut self, ran_ns: u64, starved_ns: u64) {
        self.ran_ns += ran_ns as f64;
        self.starved_ns += starved_ns as f64;
    }

    /// Takes in what has ended since the last call. Gives whether that closed a window.
    ///
    /// `worked_ns`: the time that it is of, all workers together; `held_ns`: the same with each worker's times the
    /// requests that it had. A window that is begun goes on over calls until it is long and full enough.
    pub fn look<'a>(
        &mut self,
        worked_ns: u64,
        held_ns: u64,
        ended: impl IntoIterator<Item = (&'a str, Ended)>,
    ) -> bool {
        for (route, one) in ended {
            let known = self.open.len() < MOST_ROUTES || self.open.contains_key(route);
            let sums = self
                .open
                .entry(if known { route } else { "" }.to_owned())
                .or_default();
            sums.jobs += one.jobs;
            sums.cpu_ns += one.cpu_ns;
            sums.io_ns += one.io_ns;
        }
        self.worked_ns += worked_ns as f64;
        self.held_ns += held_ns as f64;
        let jobs: u64 = self.open.values().map(|one| one.jobs).sum();
        if self.worked_ns < self.rule.window_ns.max(1) as f64 || jobs < self.rule.window_jobs.max(1)
        {
            return false;
        }
        let window = std::mem::take(&mut self.open);
        let (worked_ns, held_ns) = (
            std::mem::take(&mut self.worked_ns),
            std::mem::take(&mut self.held_ns),
        );
        let (ran_ns, starved_ns) = (
            std::mem::take(&mut self.ran_ns),
            std::mem::take(&mut self.starved_ns),
        );
        let slowed = slowed(ran_ns, starved_ns, worked_ns);
        self.conclude(worked_ns, held_ns, slowed, &window);
        true
    }

    fn mean(&self, sum: f64) -> u64 {
        if self.jobs > 0.0 {
            (sum / self.jobs) as u64
        } else {
            0
        }
    }

    fn conclude(
        &mut self,
        worked_ns: f64,
        held_ns: f64,
        slowed: f64,
        window: &HashMap<String, Ended>,
    ) {
        self.remember(window);
        let (cpu_ns, io_ns) = (
            self.cpu_ns / self.jobs,
            self.io_ns / self.jobs + self.rule.gap_ns as f64,
        );
        let used = held_ns / worked_ns >= f64::from(self.number) * USED;
        self.stretch = (held_ns / self.usual_of(window)).max(1.0);
        let model = modelled(cpu_ns, io_ns, self.rule.busy, self.rule.most);
        let waits = waiting(cpu_ns, io_ns, slowed, self.number);
        self.hold_back(used, waits, window);
        self.follow(used, window);
        self.settle(model);
    }

    fn remember(&mut self, window: &HashMap<String, Ended>) {
        for sum in [&mut self.jobs, &mut self.cpu_ns, &mut self.io_ns] {
            *sum *= KEPT;
        }
        for one in window.values() {
            self.jobs += one.jobs as f64;
            self.cpu_ns += one.cpu_ns as f64;
            self.io_ns += one.io_ns as f64;
        }
    }

    /// What the requests of a window would take without waiting, ns; more than 0.
    fn usual_of(&self, window: &HashMap<String, Ended>) -> f64 {
        let usual = window.iter().map(|(route, one)| {
            let (jobs, own_ns) = (one.jobs as f64, (one.cpu_ns + one.io_ns) as f64);
            let usual_ns = self.usual_ns.get(route);
            usual_ns.map_or(own_ns, |usual_ns| usual_ns * jobs) + self.rule.gap_ns as f64 * jobs
        });
        usual.sum::<f64>().max(1.0)
    }

    /// The usual time follows down immediately, and up while load cannot be the reason.
    fn follow(&mut self, used: bool, window: &HashMap<String, Ended>) {
        for (route, one) in window {
            if one.jobs < ROUTE_JOBS
                || (self.usual_ns.len() >= MOST_ROUTES && !self.usual_ns.contains_key(route))
            {
                continue;
            }
            let own_ns = (one.cpu_ns + one.io_ns) as f64 / one.jobs as f64;
            let usual_ns = self.usual_ns.entry(route.clone()).or_insert(own_ns);
            if own_ns < *usual_ns || !used {
                *usual_ns += (own_ns - *usual_ns) * STEP;
            }
        }
    }

    /// Vegas: lowers the cap when more wait in a worker than the model has waiting there, raises it when fewer do.
    fn hold_back(&mut self, used: bool, waits: f64, window: &HashMap<String, Ended>) {
        let number = f64::from(self.number);
        let queue = number * (1.0 - 1.0 / self.stretch);
        if let Some(trial) = self.trial.filter(|trial| self.number * 2 <= trial.from) {
            self.trial = None;
            if self.stretch >= trial.stretch * UNMOVED {
                self.learn(window);
                self.cap = trial.from;
                return;
            }
        }
        if used && queue > waits + 1.0 + number / 4.0 && self.number > self.rule.least {
            let (from, stretch) = (self.number, self.stretch);
            self.trial.get_or_insert(Trial { from, stretch });
            let knee = (OVER_KNEE * number / self.stretch).ceil() as u32;
            let lower = knee.max(self.number / 2).min(self.number - 1);
            self.cap = lower.max(self.rule.least);
        } else if !used || queue < waits + 0.5 + number / 8.0 {
            self.trial = None;
            self.cap = (self.cap + (self.cap / 8).max(1)).min(self.rule.most);
        }
    }

    /// What the window's requests do is usual.
    fn learn(&mut self, window: &HashMap<String, Ended>) {
        for (route, one) in window {
            if let Some(usual_ns) = self.usual_ns.get_mut(route).filter(|_| one.jobs > 0) {
                *usual_ns = (one.cpu_ns + one.io_ns) as f64 / one.jobs as f64;
            }
        }
    }

    /// Changes the number if it is worth a change: by more than an eighth, and to the double at most, so that the
    /// backstop sees the effect.
    fn settle(&mut self, model: u32) {
        let wanted = model.min(self.cap).clamp(self.rule.least, self.rule.most);
        self.why = if wanted < model && wanted == self.cap {
            Why::Backstop
        } else if model < self.rule.least {
            Why::Least
        } else if model >= self.rule.most {
            Why::Most
        } else {
            Why::Model
        };
        let next = wanted.min(self.number * 2);
        if next.abs_diff(self.number) * 8 > self.number {
            self.number = next;
        }
    }
}

/// The smallest number of requests in progress with which one CPU works the share `busy` of the time; at most `most`.
///
/// Exact means for exponential bursts and waits of any distribution: mean value analysis, [`one_cpu`].
/// Constant work needs a few less: the knee, 1 + I/O / CPU, is its number. Cost: some ns a number.
pub fn modelled(cpu_ns: f64, io_ns: f64, busy: f64, most: u32) -> u32 {
    let enough = one_cpu(cpu_ns, io_ns)
        .zip(1..most)
        .find(|(means, _)| means.per * cpu_ns >= busy);
    enough.map_or(most.max(1), |(_, number)| number)
}

/// How many of `number` requests in progress wait for the CPU on average, by the same model, when it does `slowed`
/// times less than it could.
pub fn waiting(cpu_ns: f64, io_ns: f64, slowed: f64, number: u32) -> f64 {
    let means = one_cpu(cpu_ns * slowed, io_ns).take(number as usize).last();
    let inside = means.map_or(0.0, |means| means.per * (cpu_ns + io_ns));
    (f64::from(number) - inside).max(0.0)
}

/// How many times longer the workers' CPU took than it would have with a core for each, in a window of `worked_ns`.
///
/// A worker's threads may wait for a core side by side while only one of them could go on: never more than all the time.
fn slowed(ran_ns: f64, starved_ns: f64, worked_ns: f64) -> f64 {
    if ran_ns <= 0.0 {
        return 1.0;
    }
    ((ran_ns + starved_ns).min(worked_ns) / ran_ns).max(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;
    const RULE: AtOnceRule = AtOnceRule {
        busy: 0.98,
        least: 1,
        most: 64,
        gap_ns: MS / 5,
        window_ns: 1_000 * MS,
        window_jobs: 20,
    };

    fn ended(jobs: u64, cpu_ms: f64, io_ms: f64) -> Ended {
        let of = |ms: f64| (ms * MS as f64) as u64 * jobs;
        Ended {
            jobs,
            cpu_ns: of(cpu_ms),
            io_ns: of(io_ms),
        }
    }

    /// A second a window; what a worker does at the number that it has, all places taken, until that stays.
    fn settled(limit: &mut AtOnce, at: impl Fn(u32) -> Ended) -> u32 {
        for _ in 0..100 {
            let (number, second_ns) = (limit.number(), 1_000 * MS);
            limit.look(
                second_ns,
                u64::from(number) * second_ns,
                [("GET /", at(number))],
            );
        }
        limit.number()
    }

    /// Requests a second of a worker that serves `narrow_ms` of each one after the other, `all_ms` in all.
    fn saturated(number: u32, narrow_ms: f64, all_ms: f64) -> u64 {
        (1000.0 * f64::from(number) / all_ms.max(f64::from(number) * narrow_ms)) as u64
    }

    #[test]
    fn the_model_is_some_one_and_a_half_knees() {
        let by = |cpu, io| modelled(cpu, io, 0.98, 4096);
        assert_eq!([by(5.0, 55.0), by(50.0, 150.0), by(1.6, 10.0)], [18, 8, 12]);
        assert_eq!([by(40.0, 0.2), by(0.1, 0.2)], [1, 6]);
    }

    #[test]
    fn without_cpu_it_is_all_that_is_allowed() {
        assert_eq!(modelled(0.0, 10.0, 0.98, 64), 64);
        assert_eq!(waiting(0.0, 10.0, 1.0, 64), 0.0);
        assert_eq!(modelled(0.0, 0.0, 0.98, 64), 64);
    }

    #[test]
    fn a_saturated_worker_gets_what_the_model_says_whatever_it_had() {
        for first in [1, 8, 64] {
            let mut limit = AtOnce::new(RULE, first);
            let number = settled(&mut limit, |number| {
                ended(saturated(number, 5.0, 60.0), 5.0, 55.0)
            });
            assert!((16..=20).contains(&number), "{first} -> {number}");
            assert_eq!(limit.why(), Why::Model);
        }
    }

    #[test]
    fn what_computes_comes_one_by_one() {
        let mut limit = AtOnce::new(RULE, 8);
        let number = settled(&mut limit, |number| {
            ended(saturated(number, 40.0, 40.0), 40.0, 0.0)
        });
        assert_eq!(number, 1);
    }

    #[test]
    fn a_blocked_loop_is_no_io_that_others_can_use() {
        let mut limit = AtOnce::new(RULE, 8);
        let number = settled(&mut limit, |number| {
            ended(saturated(number, 20.0, 20.0), 0.1, 19.9)
        });
        assert!(number <= 3, "{number}");
        assert_eq!(limit.why(), Why::Backstop);
    }

    #[test]
    fn a_pool_of_five_connections_holds_it_near_its_own_knee() {
        let mut limit = AtOnce::new(RULE, 8);
        let number = settled(&mut limit, |number| {
            ended(saturated(number, 20.0, 100.0), 1.0, 99.0)
        });
        assert!((5..=13).contains(&number), "{number}");
    }

    #[test]
    fn an_upstream_that_is_slower_by_nature_is_learned() {
        let mut limit = AtOnce::new(RULE, 8);
        settled(&mut limit, |number| {
            ended(saturated(number, 5.0, 60.0), 5.0, 55.0)
        });
        let number = settled(&mut limit, |number| {
            ended(saturated(number, 5.0, 305.0), 5.0, 300.0)
        });
        assert!(number >= 50, "{number} of {:?}", limit.why());
    }

    #[test]
    fn an_idle_worker_is_never_held_back() {
        let mut limit = AtOnce::new(RULE, 8);
        for _ in 0..100 {
            let one = ended(20, 1.0, 10.0); // and they stay 150 ms
            limit.look(1_000 * MS, 3_000 * MS, [("GET /", one)]);
        }
        let number = limit.number();
        assert!(number >= 15, "{number}");
        assert_eq!(limit.why(), Why::Model);
    }

    /// As `settled`, on a machine that lets a worker run a third of the time in which it could; a request of 17 ms CPU
    /// and 165 ms I/O, as of the pricing service.
    fn on_a_third_of_a_core(limit: &mut AtOnce, known: bool) -> u32 {
        for _ in 0..100 {
            let (number, second_ns) = (limit.number(), 1_000 * MS);
            let jobs = saturated(number, 51.0, 216.0);
            if known {
                limit.had(jobs * 17 * MS, second_ns - jobs * 17 * MS);
            }
            limit.look(
                second_ns,
                u64::from(number) * second_ns,
                [("GET /", ended(jobs, 17.0, 165.0))],
            );
        }
        limit.number()
    }

    #[test]
    fn a_machine_that_others_use_is_no_reason_for_fewer() {
        let mut unknown = AtOnce::new(RULE, 8);
        let number = on_a_third_of_a_core(&mut unknown, false);
        assert!(number < 12, "{number}");
        let mut known = AtOnce::new(RULE, 8);
        let number = on_a_third_of_a_core(&mut known, true);
        assert!((15..=20).contains(&number), "{number}");
        assert_eq!(known.why(), Why::Model);
    }

    #[test]
    fn what_waits_for_a_core_beside_each_other_counts_once() {
        assert_eq!(slowed(250.0, 9_000.0, 1_000.0), 4.0);
        assert_eq!(slowed(250.0, 250.0, 1_000.0), 2.0);
        assert_eq!(
            [slowed(0.0, 5.0, 1_000.0), slowed(1_500.0, 0.0, 1_000.0)],
            [1.0; 2]
        );
    }

    #[test]
    fn bounds_hold_and_are_the_reason() {
        let rule = AtOnceRule {
            least: 4,
            most: 10,
            ..RULE
        };
        for (cpu_ms, io_ms, number, why) in [(40.0, 0.0, 4, Why::Least), (5.0, 55.0, 10, Why::Most)]
        {
            let mut limit = AtOnce::new(rule, 7);
            let one = ended(20, cpu_ms, io_ms);
            assert!(limit.look(1_000 * MS, 500 * MS, [("GET /", one)]));
            assert_eq!((limit.number(), limit.why()), (number, why));
        }
    }

    #[test]
    fn too_few_requests_decide_nothing() {
        let mut limit = AtOnce::new(RULE, 8);
        let one = ended(5, 40.0, 0.0);
        for _ in 0..3 {
            assert!(!limit.look(1_000 * MS, 200 * MS, [("GET /", one)]));
        }
        assert_eq!((limit.number(), limit.why()), (8, Why::Unknown));
        assert!(limit.look(1_000 * MS, 200 * MS, [("GET /", one)]));
        assert_eq!(limit.number(), 1);
    }
}
