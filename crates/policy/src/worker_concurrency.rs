//! How many requests a worker gets at once, from what its requests do.
//!
//! More than keep it busy would wait inside it, where nobody can reorder them, refuse them or give them to another
//! worker; fewer leave it idle. So a worker whose CPU is busy gets the smallest number that keeps it so, by its CPU time and
//! the time for which its requests were blocked. Both count while they happen, and not when a request ends: one that ends
//! slowly, or never, is known from its start. Blocked is until the reply is *there*: until the
//! code goes on would contain the wait that the number itself brings about, and confirm whatever number is set.
//!
//! A worker whose CPU has time to spare gets room instead: what it has only waits, and must not keep anybody out.
//! Room is made at the next look. It is taken back by half a window, and only while the CPU is busy.
//!
//! A loop that is blocked, or a GIL that is held, leaves the CPU idle and lets nobody run. Wake-ups of our own tell:
//! when they are late, and not for want of a core, the worker counts as busy.

use crate::closed_loop::one_cpu;

/// What is decided by.
#[derive(Clone, Copy, Debug)]
pub struct ConcurrencyRule {
    /// A worker for which requests wait should compute this share of the time.
    pub busy: f64,
    /// Bounds of the number; 1 <= `least` <= `most`.
    pub least: u32,
    pub most: u32,
    /// From an answer until the worker has its next request, ns: it idles meanwhile, as it does for I/O.
    pub gap_ns: u64,
    /// The least workers' time that a window has, ns.
    pub window_ns: u64,
}

/// What the workers of a group got of the machine since the last look.
#[derive(Clone, Copy, Debug, Default)]
pub struct Span {
    /// The time that it is of, all workers together, ns.
    pub worked_ns: u64,
    /// In it, CPU of the workers, and how long their threads waited for a core.
    pub ran_ns: u64,
    pub starved_ns: u64,
}

/// What their requests did since the last look.
#[derive(Clone, Copy, Debug, Default)]
pub struct SpanTotals {
    /// Requests that have ended.
    pub jobs: u64,
    /// How long requests were blocked until their reply was there, also those that are still in progress; ns.
    pub blocked_ns: u64,
    /// Wake-ups of our own, and how late they were together, ns.
    pub wakes: u64,
    pub late_ns: u64,
}

/// Why the number is what it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LimitReason {
    /// Too little is known.
    #[default]
    Unknown,
    /// This many keep a worker busy.
    Model,
    /// Its CPU has had time for more than that.
    Room,
    /// The model asks for fewer than `least`.
    Least,
    /// More than `most` would be of use.
    Most,
}

impl LimitReason {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Model => "model",
            Self::Room => "room",
            Self::Least => "least",
            Self::Most => "most",
        }
    }
}

/// What earlier windows weigh in the sums, each against the next one.
const KEPT: f64 = 0.75;
/// A worker that is busy for a smaller part of the time has room for more. Lower than `BUSY`, so that a busy one does not
/// seem idle for a tenth of a second; in between the model decides.
const IDLE: f64 = 0.75;
/// A wait for a core counts up to this many times the CPU: on a busy machine a thread waits as long for a moment's work as
/// for a lot, and one that wakes up now and then is idle all the same. Arbitrary: five who share a core.
const STARVED: u64 = 4;
/// Looks in a row that must find it idle: a thread's wait for a core is booked when it ends.
const IDLE_LOOKS: u32 = 2;
/// One that is busy for more of it has too many, if it has more than the model asks for.
const BUSY: f64 = 0.9;
/// Wake-ups that are later than this on average, without want of a core, find a loop or a GIL that is held. Threads that
/// compute hand the GIL over within CPython's 5 ms.
const LATE_NS: u64 = 5_000_000;

/// The number of one group of like workers. See the module.
#[derive(Clone, Debug)]
pub struct WorkerConcurrency {
    rule: ConcurrencyRule,
    number: u32,
    why: LimitReason,
    /// The window.
    span: Span,
    totals: SpanTotals,
    /// Of the last one: nobody could run.
    held: bool,
    /// Looks in a row that found the CPU idle.
    idle_looks: u32,
    /// Decayed sums: requests, busy time, blocked time.
    jobs: f64,
    busy_ns: f64,
    blocked_ns: f64,
}

impl WorkerConcurrency {
    /// Of workers of which nothing is known but the number that they have.
    pub fn new(rule: ConcurrencyRule, first: u32) -> Self {
        let least = rule.least.max(1);
        let rule = ConcurrencyRule {
            least,
            most: rule.most.max(least),
            ..rule
        };
        Self {
            rule,
            number: first.clamp(rule.least, rule.most),
            why: LimitReason::Unknown,
            span: Span::default(),
            totals: SpanTotals::default(),
            held: false,
            idle_looks: 0,
            jobs: 0.0,
            busy_ns: 0.0,
            blocked_ns: 0.0,
        }
    }

    /// Requests at once for each worker.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Why.
    pub fn why(&self) -> LimitReason {
        self.why
    }

    /// Mean CPU of a request, ns; 0 = unknown. Of a worker in which nobody could run it is the time that each took.
    pub fn cpu_ns(&self) -> u64 {
        (self.busy_ns / self.jobs.max(1.0)) as u64
    }

    /// Mean time for which a request is blocked, ns, as `cpu_ns`.
    pub fn io_ns(&self) -> u64 {
        (self.blocked_ns / self.jobs.max(1.0)) as u64
    }

    /// Makes room for twice the requests in progress if the CPU has had time to spare.
    ///
    /// Some ten times a second; `span` is of the time since, `workers` get requests and have `in_progress` of them.
    pub fn make_room(&mut self, span: Span, workers: u32, in_progress: u64) {
        let idle = !self.held && span.worked_ns > 0 && share(span) < IDLE;
        self.idle_looks = if idle { self.idle_looks + 1 } else { 0 };
        let wanted = (2 * in_progress).div_ceil(u64::from(workers.max(1)));
        let wanted = wanted.min(u64::from(self.rule.most)) as u32;
        if self.idle_looks >= IDLE_LOOKS && wanted > self.number {
            self.number = wanted;
            self.why = LimitReason::Room;
        }
    }

    /// Takes in what has come since the last call. Gives whether that closed a window, which is begun until it is long
    /// enough.
    pub fn look(&mut self, span: Span, totals: SpanTotals) -> bool {
        self.span.worked_ns += span.worked_ns;
        self.span.ran_ns += span.ran_ns;
        self.span.starved_ns += span.starved_ns;
        self.totals.jobs += totals.jobs;
        self.totals.blocked_ns += totals.blocked_ns;
        self.totals.wakes += totals.wakes;
        self.totals.late_ns += totals.late_ns;
        if self.span.worked_ns < self.rule.window_ns.max(1) {
            return false;
        }
        let (span, totals) = (
            std::mem::take(&mut self.span),
            std::mem::take(&mut self.totals),
        );
        self.conclude(span, totals);
        true
    }

    fn conclude(&mut self, span: Span, totals: SpanTotals) {
        self.held =
            totals.late_ns.saturating_sub(span.starved_ns) > LATE_NS.saturating_mul(totals.wakes);
        let busy_ns = if self.held {
            span.worked_ns
        } else {
            span.ran_ns
        };
        let decayed = |sum: f64, new: u64| sum * KEPT + new as f64;
        self.jobs = decayed(self.jobs, totals.jobs);
        self.busy_ns = decayed(self.busy_ns, busy_ns);
        self.blocked_ns = decayed(self.blocked_ns, totals.blocked_ns);
        // Only the ratio counts, so sums do as well as means.
        let idle_ns = self.blocked_ns + self.rule.gap_ns as f64 * self.jobs;
        let model = model_limit(self.busy_ns, idle_ns, self.rule.busy, self.rule.most);
        self.settle(model, self.held || share(span) >= BUSY);
    }

    /// Changes the number if it is worth a change: by more than an eighth, to the double or the half at most.
    fn settle(&mut self, model: u32, busy: bool) {
        let wanted = model.clamp(self.rule.least, self.rule.most);
        let next = if wanted > self.number {
            wanted.min(self.number * 2)
        } else if busy {
            wanted.max(self.number.div_ceil(2))
        } else {
            self.number
        };
        if next.abs_diff(self.number) * 8 > self.number {
            self.number = next;
        }
        self.why = if self.number.abs_diff(wanted) * 8 > self.number {
            LimitReason::Room
        } else if model < self.rule.least {
            LimitReason::Least
        } else if model >= self.rule.most {
            LimitReason::Most
        } else {
            LimitReason::Model
        };
    }
}

/// Which part of the time a worker was busy, with the wait for a core.
///
/// Its threads may wait for a core side by side while only one of them could go on: never more than all the time.
fn share(span: Span) -> f64 {
    let starved_ns = span.starved_ns.min(STARVED.saturating_mul(span.ran_ns));
    let busy_ns = span.ran_ns.saturating_add(starved_ns);
    busy_ns.min(span.worked_ns) as f64 / span.worked_ns.max(1) as f64
}

/// The smallest number of requests in progress with which one CPU works the share `busy` of the time; at most `most`.
///
/// Exact means for exponential bursts and waits of any distribution: mean value analysis, [`one_cpu`].
/// Constant work needs a few less: the knee, 1 + I/O / CPU, is its number. Cost: some ns a number.
pub fn model_limit(cpu_ns: f64, io_ns: f64, busy: f64, most: u32) -> u32 {
    let enough = one_cpu(cpu_ns, io_ns)
        .zip(1..most)
        .find(|(means, _)| means.per * cpu_ns >= busy);
    enough.map_or(most.max(1), |(_, number)| number)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;
    const SECOND: u64 = 1_000 * MS;
    const RULE: ConcurrencyRule = ConcurrencyRule {
        busy: 0.98,
        least: 1,
        most: 64,
        gap_ns: MS / 5,
        window_ns: SECOND,
    };

    /// A second of one worker that computes for `cpu_ms` of it, while `blocked` of its requests wait on average.
    fn second(limit: &mut WorkerConcurrency, jobs: u64, cpu_ms: f64, blocked: f64) {
        let ran_ns = (cpu_ms * MS as f64) as u64;
        let span = Span {
            worked_ns: SECOND,
            ran_ns,
            starved_ns: 0,
        };
        let totals = SpanTotals {
            jobs,
            blocked_ns: (blocked * SECOND as f64) as u64,
            ..SpanTotals::default()
        };
        assert!(limit.look(span, totals));
    }

    /// What a saturated worker does at the number that it has, requests of so much CPU and I/O, until that stays.
    fn saturated(limit: &mut WorkerConcurrency, cpu_ms: f64, io_ms: f64) -> u32 {
        for _ in 0..30 {
            let per_ms = (f64::from(limit.number()) / (cpu_ms + io_ms)).min(1.0 / cpu_ms);
            let jobs = (per_ms * 1000.0) as u64;
            second(limit, jobs, per_ms * 1000.0 * cpu_ms, per_ms * io_ms);
        }
        limit.number()
    }

    fn idle(ms: u64) -> Span {
        Span {
            worked_ns: ms * MS,
            ran_ns: ms * MS / 100,
            starved_ns: 0,
        }
    }

    #[test]
    fn the_model_is_some_one_and_a_half_knees() {
        let by = |cpu, io| model_limit(cpu, io, 0.98, 4096);
        assert_eq!([by(5.0, 55.0), by(50.0, 150.0), by(1.6, 10.0)], [18, 8, 12]);
        assert_eq!([by(40.0, 0.2), by(0.1, 0.2)], [1, 6]);
    }

    #[test]
    fn without_cpu_it_is_all_that_is_allowed() {
        assert_eq!(model_limit(0.0, 10.0, 0.98, 64), 64);
        assert_eq!(model_limit(0.0, 0.0, 0.98, 64), 64);
    }

    #[test]
    fn a_saturated_worker_gets_what_the_model_says_whatever_it_had() {
        for first in [1, 8, 64] {
            let mut limit = WorkerConcurrency::new(RULE, first);
            let number = saturated(&mut limit, 5.0, 55.0);
            assert!((16..=20).contains(&number), "{first} -> {number}");
            assert_eq!(limit.why(), LimitReason::Model);
            assert_eq!(
                saturated(&mut WorkerConcurrency::new(RULE, first), 40.0, 0.0),
                1
            );
        }
    }

    #[test]
    fn it_falls_by_half_a_window_and_says_that_it_has_more() {
        let mut limit = WorkerConcurrency::new(RULE, 64);
        let numbers: Vec<u32> = (0..7)
            .map(|_| {
                second(&mut limit, 25, 1000.0, 0.0);
                limit.number()
            })
            .collect();
        assert_eq!(numbers, [32, 16, 8, 4, 2, 1, 1]);
        assert_eq!(limit.why(), LimitReason::Model);
    }

    #[test]
    fn while_the_cpu_has_time_it_never_falls() {
        let mut limit = WorkerConcurrency::new(RULE, 64);
        for _ in 0..20 {
            second(&mut limit, 15, 600.0, 0.0);
        }
        assert_eq!((limit.number(), limit.why()), (64, LimitReason::Room));
    }

    #[test]
    fn requests_that_never_end_count_as_they_wait() {
        let mut limit = WorkerConcurrency::new(RULE, 64);
        for _ in 0..20 {
            second(&mut limit, 0, 990.0, 20.0);
        }
        assert!((32..=40).contains(&limit.number()), "{}", limit.number());
    }

    #[test]
    fn those_that_only_wait_keep_nobody_out() {
        let mut limit = WorkerConcurrency::new(RULE, 1);
        let mut numbers = Vec::new();
        for _ in 0..8 {
            let full = 2 * u64::from(limit.number());
            limit.make_room(idle(100), 2, full);
            numbers.push(limit.number());
        }
        assert_eq!(numbers, [1, 2, 4, 8, 16, 32, 64, 64]);
        assert_eq!(limit.why(), LimitReason::Room);
    }

    #[test]
    fn there_is_no_room_where_the_cpu_works_or_waits_for_a_core() {
        for (ran_ms, starved_ms) in [(80, 0), (40, 40), (20, 500)] {
            let span = Span {
                worked_ns: 100 * MS,
                ran_ns: ran_ms * MS,
                starved_ns: starved_ms * MS,
            };
            let mut limit = WorkerConcurrency::new(RULE, 1);
            for _ in 0..4 {
                limit.make_room(idle(100), 1, 1); // one look is too short to be sure
                limit.make_room(span, 1, 1);
            }
            assert_eq!((limit.number(), limit.why()), (1, LimitReason::Unknown));
        }
    }

    #[test]
    fn what_wakes_up_now_and_then_on_a_busy_machine_is_idle() {
        let span = Span {
            worked_ns: 100 * MS,
            ran_ns: 3 * MS,
            starved_ns: 300 * MS,
        };
        let mut limit = WorkerConcurrency::new(RULE, 1);
        limit.make_room(span, 1, 1);
        limit.make_room(span, 1, 1);
        assert_eq!(limit.number(), 2);
    }

    #[test]
    fn a_loop_that_is_blocked_is_no_cpu_that_others_can_use() {
        let mut limit = WorkerConcurrency::new(RULE, 64);
        let totals = SpanTotals {
            jobs: 50,
            blocked_ns: 0,
            wakes: 20,
            late_ns: 20 * 30 * MS,
        };
        for _ in 0..10 {
            assert!(limit.look(idle(1000), totals));
            limit.make_room(idle(100), 1, u64::from(limit.number()));
        }
        assert_eq!((limit.number(), limit.why()), (1, LimitReason::Model));
        // Late for want of a core, and little to do: others use the machine.
        let starved = Span {
            starved_ns: SECOND / 2,
            ..idle(1000)
        };
        let late = SpanTotals {
            late_ns: 500 * MS,
            ..totals
        };
        assert!(limit.look(starved, late));
        let before = limit.number();
        for _ in 0..2 {
            limit.make_room(idle(100), 1, u64::from(before));
        }
        assert_eq!(limit.number(), 2 * before);
    }

    #[test]
    fn bounds_hold_and_are_the_reason() {
        let rule = ConcurrencyRule {
            least: 4,
            most: 10,
            ..RULE
        };
        for (cpu_ms, io_ms, number, why) in [
            (40.0, 0.0, 4, LimitReason::Least),
            (5.0, 55.0, 10, LimitReason::Most),
        ] {
            let mut limit = WorkerConcurrency::new(rule, 7);
            assert_eq!(saturated(&mut limit, cpu_ms, io_ms), number);
            assert_eq!(limit.why(), why);
            for _ in 0..2 {
                limit.make_room(idle(100), 1, 1000);
            }
            assert_eq!(limit.number(), 10);
        }
    }

    #[test]
    fn a_short_time_decides_nothing() {
        let mut limit = WorkerConcurrency::new(RULE, 8);
        let (span, totals) = (
            Span {
                worked_ns: 400 * MS,
                ran_ns: 400 * MS,
                starved_ns: 0,
            },
            SpanTotals {
                jobs: 10,
                ..SpanTotals::default()
            },
        );
        assert!(!limit.look(span, totals) && !limit.look(span, totals));
        assert_eq!((limit.number(), limit.why()), (8, LimitReason::Unknown));
        assert!(limit.look(span, totals));
        assert_eq!(limit.number(), 4);
    }
}
