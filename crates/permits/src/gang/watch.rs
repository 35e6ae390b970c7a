//! Our thread beside those that run jobs. It never takes the GIL.
//!
//! | every | it |
//! |---|---|
//! | 4 ms, while a phase lasts | sees which phases compute without the GIL: those members use all cores |
//! | 250 ms, in a gang | leaves a core that others use; sets free what native code has started; mends what slipped through |
//! | second | looks at the cores: gathers, moves, disbands |
//!
//! A look is two readings of a thread's CPU clock and of the GIL's holder: the thread computed in between, and had the GIL
//! at both ends or at neither. So it takes no GIL, tells the same on one core as on two, and says nothing of a thread that
//! was put aside.

use super::hand_over;
use super::state::{give, in_force, lock, rule, Rule, CORE};
use super::usage::{self, Usage};
use crate::thread_view::{GangPart, ThreadView, AWAY};
use greenlane_interpreter::gil;
use greenlane_policy::gang::{Choice, Core, HandOver, Verdict};
use greenlane_process::affinity::{has_child, threads, Cores};
use greenlane_process::{clock, our_threads};
use std::collections::HashSet;
use std::sync::atomic::Ordering;
use std::sync::Arc;
use std::thread::{current, park_timeout, sleep};
use std::time::Duration;
use std::{fs, ptr};

const BUSY_NS: u64 = 4_000_000;
/// After a look that found somebody computing without the GIL: the next one soon agrees, or not.
const SOON_NS: u64 = 1_000_000;
const IDLE_NS: u64 = 20_000_000;
/// Ticks without a phase after which nobody is in a hurry.
const LONG_IDLE: u32 = 50;
const LONG_IDLE_NS: u64 = 200_000_000;
/// Phases that are younger are not looked at: most end before.
const YOUNG_NS: u64 = 2_000_000;
const LOOK: Duration = Duration::from_micros(100);
/// One that took longer says nothing: our thread was put aside, and the other may have had the GIL meanwhile.
const LONGEST_LOOK_NS: u64 = 500_000;
const STRAYS_NS: u64 = 250_000_000;
const CORES_NS: u64 = 1_000_000_000;
/// A machine where one core saves nothing is measured again: it may have had other things to do.
const AGAIN_NS: u64 = 60_000_000_000;
/// Cores that others use less of are idle enough to measure on, and looks after which any will do.
const IDLE_FRAC: f64 = 0.3;
const PATIENT: u32 = 10;

struct Watch {
    rule: Option<&'static Rule>,
    choice: Choice,
    /// Since the last look at the cores, and since the last glance at them.
    looked: Usage,
    glanced: Usage,
    /// Threads and processes that were set free once: what they do with their cores then is theirs.
    freed: HashSet<i32>,
    idle: u32,
    strays_ns: u64,
    cores_ns: u64,
    measure_ns: u64,
    unmeasured: u32,
}

/// Watches until there are no members, or another thread or nobody is to.
pub fn run() {
    our_threads::mark();
    let mut watch = Watch::new(rule());
    while let Some(views) = watched_members() {
        if !same(watch.rule, rule()) {
            watch = Watch::new(rule());
        }
        let pause_ns = watch.tick(&views, clock::monotonic_ns());
        park_timeout(Duration::from_nanos(pause_ns));
    }
}

/// The members, if this is the thread that watches them.
fn watched_members() -> Option<Vec<Arc<ThreadView>>> {
    let state = lock();
    let watcher = state.watcher.as_ref()?.thread().id();
    (watcher == current().id())
        .then(|| state.views())
        .filter(|views| !views.is_empty())
}

fn same(one: Option<&Rule>, other: Option<&Rule>) -> bool {
    one.map(ptr::from_ref) == other.map(ptr::from_ref)
}

impl Watch {
    fn new(rule: Option<&'static Rule>) -> Self {
        if let Some(rule) = rule {
            rule.allowed_cores().give_to(0);
        }
        Self {
            rule,
            choice: Choice::new(rule.is_some_and(|rule| rule.always)),
            looked: Usage::default(),
            glanced: Usage::default(),
            freed: HashSet::new(),
            idle: 0,
            strays_ns: 0,
            cores_ns: 0,
            measure_ns: 0,
            unmeasured: 0,
        }
    }

    /// Gives for how long to sleep.
    fn tick(&mut self, views: &[Arc<ThreadView>], now_ns: u64) -> u64 {
        if let Some(rule) = self.rule {
            if now_ns >= self.cores_ns {
                self.cores_ns = now_ns + CORES_NS;
                self.look_at_cores(rule, views, now_ns);
            }
            if now_ns >= self.strays_ns {
                self.strays_ns = now_ns + STRAYS_NS;
                self.glance_at_cores(rule, views, now_ns);
                self.look_for_strays(rule, views);
            }
        }
        if let Some(free) = look_at(views, now_ns) {
            self.idle = 0;
            return if free { SOON_NS } else { BUSY_NS };
        }
        self.idle += 1;
        match self.idle {
            0..LONG_IDLE => IDLE_NS,
            _ => LONG_IDLE_NS,
        }
    }

    /// Who keeps to the core, and should not; who does not, and should.
    fn look_for_strays(&mut self, rule: &Rule, views: &[Arc<ThreadView>]) {
        let away = views.iter().filter(|view| view.part() == GangPart::Away);
        AWAY.store(away.count(), Ordering::Relaxed);
        let Some(core) = in_force() else { return };
        let here = Cores::of_core(core);
        let mut all = threads();
        if has_child() {
            let children = all
                .iter()
                .map(|thread| format!("/proc/self/task/{thread}/children"));
            let children: Vec<_> = children.flat_map(fs::read_to_string).collect();
            let numbers = children.iter().flat_map(|text| text.split_whitespace());
            all.extend(numbers.flat_map(str::parse::<i32>));
        }
        self.freed.retain(|thread| all.contains(thread));
        let cores: Vec<_> = all
            .into_iter()
            .map(|each| (each, Cores::of_thread(each)))
            .collect();
        // After their cores: who joins becomes a member first.
        let views = lock().views();
        for (thread, now) in cores {
            match views.iter().find(|view| view.thread() == thread) {
                Some(view) if view.part() == GangPart::Member && now != Some(here) => {
                    give(rule, view, now, &here);
                }
                Some(_) => {}
                None if now == Some(here) && self.freed.insert(thread) => {
                    rule.allowed_cores().give_to(thread);
                }
                None => {}
            }
        }
    }

    fn look_at_cores(&mut self, rule: &Rule, views: &[Arc<ThreadView>], now_ns: u64) {
        let mut cores = self.looked.look(now_ns, &rule.cores, views);
        if cores.is_empty() || !(rule.always || self.pays(rule, &cores, now_ns)) {
            return;
        }
        self.see_claims(&mut cores);
        let verdict = self.choice.look(&cores);
        if verdict == Verdict::Stay {
            lock().why = match cores.iter().any(|core| core.free) {
                true => "no core is idle enough",
                false => "each core has another process' gang",
            };
        }
        self.follow(rule, verdict);
    }

    /// Between two looks: whether others use the core so much that it is left.
    fn glance_at_cores(&mut self, rule: &Rule, views: &[Arc<ThreadView>], now_ns: u64) {
        if self.choice.current().is_none() {
            self.glanced = Usage::default();
            return;
        }
        let mut cores = self.glanced.look(now_ns, &rule.cores, views);
        if self.choice.is_crowded(&cores) {
            self.see_claims(&mut cores);
            let verdict = self.choice.leave(&cores);
            self.follow(rule, verdict);
        }
    }

    fn see_claims(&self, cores: &mut [Core]) {
        let current = self.choice.current();
        for core in cores {
            core.free = Some(core.number) == current || usage::is_free(core.number);
        }
    }

    fn follow(&mut self, rule: &Rule, verdict: Verdict) {
        let core = match verdict {
            Verdict::Stay => return,
            Verdict::Gather(core) if usage::claim(core) || rule.always => Some(core),
            Verdict::Gather(_) | Verdict::Disband => {
                usage::give_up_claim();
                self.choice.disband();
                None
            }
        };
        let number = core.and_then(|core| i32::try_from(core).ok()).unwrap_or(-1);
        CORE.store(number, Ordering::SeqCst);
        let wanted = core.map_or(rule.allowed_cores(), Cores::of_core);
        for view in lock()
            .views()
            .iter()
            .filter(|view| view.part() == GangPart::Member)
        {
            give(rule, view, Cores::of_thread(view.thread()), &wanted);
        }
    }

    /// Whether one core saves anything on this machine, which is measured first: on two cores that are idle, since only
    /// those sleep, but not later than after some looks.
    fn pays(&mut self, rule: &Rule, cores: &[Core], now_ns: u64) -> bool {
        let cache = rule.cache.as_deref();
        let mut cost = hand_over::load_or_measure(cache);
        if self.choice.current().is_some() || cost.is_some_and(HandOver::pays) {
            return gil::holder().is_some();
        }
        let idle = cores
            .iter()
            .take(2)
            .all(|core| core.foreign_frac < IDLE_FRAC);
        self.unmeasured += 1;
        if now_ns >= self.measure_ns && (idle || self.unmeasured >= PATIENT) {
            self.unmeasured = 0;
            self.measure_ns = now_ns + AGAIN_NS;
            // What was measured on a busy machine is not for others.
            cost = hand_over::measure(&rule.cores, cache.filter(|_| idle)).or(cost);
        }
        lock().why = match cost {
            _ if gil::holder().is_none() => "it cannot be seen who has the GIL in this CPython",
            Some(_) => "a hand-over costs about the same on two cores",
            None => "what a hand-over costs is not measured yet",
        };
        gil::holder().is_some() && cost.is_some_and(HandOver::pays)
    }
}

/// Looks at the phases that last. None: there are none; else whether one computes without the GIL.
fn look_at(views: &[Arc<ThreadView>], now_ns: u64) -> Option<bool> {
    let read = |view: &ThreadView| {
        let (from_ns, state) = view
            .computes()
            .filter(|(from_ns, _)| from_ns + YOUNG_NS <= now_ns)?;
        let has_gil = gil::holder()? == state;
        Some((
            from_ns,
            has_gil,
            clock::monotonic_ns(),
            clock::read(view.cpu_clock())?,
        ))
    };
    let before: Vec<_> = views
        .iter()
        .filter_map(|view| Some((view, read(view)?)))
        .collect();
    if before.is_empty() {
        return None;
    }
    sleep(LOOK);
    let mut any_free = false;
    for (view, (phase, held, at_ns, cpu_ns)) in before {
        let Some((same, still, now_ns, used_ns)) = read(view) else {
            continue;
        };
        let took_ns = now_ns - at_ns;
        let computed = (used_ns.saturating_sub(cpu_ns)) * 2 >= took_ns;
        if phase != same || held != still || took_ns > LONGEST_LOOK_NS || !computed {
            continue;
        }
        view.look(!held);
        any_free |= !held;
        let (Some(rule), Some(core)) = (rule(), in_force()) else {
            continue;
        };
        if !held
            && view.part() == GangPart::Member
            && view.change_part(GangPart::Member, GangPart::Away)
        {
            rule.send_away(view.thread(), core);
        } else if view.computes_with_gil() && view.change_part(GangPart::Away, GangPart::Member) {
            let here = in_force().map_or(rule.allowed_cores(), Cores::of_core);
            give(rule, view, Cores::of_thread(view.thread()), &here);
        }
    }
    Some(any_free)
}
