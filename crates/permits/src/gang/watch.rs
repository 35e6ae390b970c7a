//! Our thread beside a gang. It never takes the GIL.
//!
//! | every | it |
//! |---|---|
//! | 4 ms, while the process computes | lets members use all cores that compute without the GIL, and counts what it saw |
//! | 250 ms | sets threads free that a member's native code has started, and puts right what has slipped through |
//! | second | looks at the cores: gathers, moves, disbands |

use super::hand_over;
use super::state::{in_force, is_back, locked, rule, Rule, AWAY, CORE, WANTED};
use super::usage::{self, Usage};
use crate::face::{Part, ThreadFace};
use greenlane_interpreter::gil;
use greenlane_policy::gang::{Choice, Core, HandOver, Verdict};
use greenlane_process::affinity::{core_of, threads, Cores};
use greenlane_process::clock;
use std::collections::{HashMap, HashSet};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::thread::{park_timeout, sleep};
use std::time::Duration;

const BUSY_NS: u64 = 4_000_000;
const IDLE_NS: u64 = 20_000_000;
/// After a second without work.
const LONG_IDLE: u32 = 50;
const LONG_IDLE_NS: u64 = 200_000_000;
/// While a member may compute without the GIL, but had no core at the last look.
const SOON_NS: u64 = 1_000_000;
const STRAYS_NS: u64 = 250_000_000;
const CORES_NS: u64 = 1_000_000_000;
/// A machine where one core saves nothing is measured again: it may have had other things to do.
const AGAIN_NS: u64 = 60_000_000_000;
const IDLE_FRAC: f64 = 0.3;
const MOST_UNMEASURED: u32 = 10;
/// CPU since the last tick from which on a member is looked at: less is no phase that matters.
const MUCH_NS: u64 = 400_000;
/// For how long a member's clock must run while it has not the GIL, and how often that is looked at. A look that took
/// much longer says nothing: our thread was put aside, and the member may have had the GIL meanwhile.
const LOOK: Duration = Duration::from_micros(60);
const LONGEST_LOOK_NS: u64 = 400_000;
const LOOKS: u32 = 20;

/// Ticks after which a member that is away and sleeps keeps to the core again.
const STILL: u32 = 5;
/// Ticks in a row that must find that it needs the GIL after all.
const NEEDED: u32 = 2;

struct Member {
    face: Weak<ThreadFace>,
    thread: i32,
    cpu_ns: u64,
    /// At the last look at the cores; and what of the CPU since then was seen to be used on the gang's core.
    second_ns: u64,
    kept_ns: u64,
    /// Ticks in a row without CPU, and with the GIL.
    still: u32,
    held: u32,
}

struct Watch {
    rule: &'static Rule,
    members: Vec<Member>,
    choice: Choice,
    usage: Usage,
    /// Threads that were set free once: what they do with their cores then is theirs.
    freed: HashSet<i32>,
    process_ns: u64,
    /// Ticks in a row without work.
    idle: u32,
    strays_ns: u64,
    cores_ns: u64,
    /// When to measure again, and looks since the last time.
    measure_ns: u64,
    unmeasured: u32,
}

/// Watches until no gang is wanted; gives the members.
pub fn run() -> Vec<Weak<ThreadFace>> {
    let Some(rule) = rule() else {
        return Vec::new();
    };
    rule.allowed.give_to(0);
    let mut watch = Watch {
        rule,
        members: Vec::new(),
        choice: Choice::new(rule.always),
        usage: Usage::default(),
        freed: HashSet::new(),
        process_ns: 0,
        idle: 0,
        strays_ns: 0,
        cores_ns: 0,
        measure_ns: 0,
        unmeasured: 0,
    };
    while WANTED.load(Ordering::SeqCst) {
        let pause_ns = watch.tick(clock::monotonic_ns());
        park_timeout(Duration::from_nanos(pause_ns));
    }
    watch
        .members
        .into_iter()
        .map(|member| member.face)
        .collect()
}

impl Watch {
    /// Gives for how long to sleep.
    fn tick(&mut self, now_ns: u64) -> u64 {
        self.meet();
        if now_ns >= self.cores_ns {
            self.cores_ns = now_ns + CORES_NS;
            self.look_at_cores(now_ns);
        }
        if now_ns >= self.strays_ns {
            self.strays_ns = now_ns + STRAYS_NS;
            self.look_for_strays();
        }
        let process_ns = clock::read(libc::CLOCK_PROCESS_CPUTIME_ID).unwrap_or(0);
        let used_ns = process_ns - self.process_ns.min(process_ns);
        self.process_ns = process_ns;
        if used_ns >= MUCH_NS {
            self.idle = 0;
            return self.look_at_members();
        }
        self.idle += 1;
        match self.idle {
            0..LONG_IDLE => IDLE_NS,
            _ => LONG_IDLE_NS,
        }
    }

    /// Members that have come since.
    fn meet(&mut self) {
        let arrived = std::mem::take(&mut locked().arrived);
        for face in arrived {
            let Some(known) = face.upgrade() else {
                continue;
            };
            let cpu_ns = clock::read(known.cpu_clock()).unwrap_or(0);
            // It may have come while the gang moved.
            self.keep(&known);
            self.members.push(Member {
                thread: known.thread(),
                face,
                cpu_ns,
                second_ns: cpu_ns,
                kept_ns: 0,
                still: 0,
                held: 0,
            });
        }
    }

    fn keep(&self, face: &ThreadFace) {
        if face.part() == Part::Member {
            let cores = in_force().map_or(self.rule.allowed, Cores::one);
            cores.give_to(face.thread());
        }
    }

    // -- work without the GIL

    fn look_at_members(&mut self) -> u64 {
        let mut pause_ns = BUSY_NS;
        if gil::holder().is_none() {
            return IDLE_NS;
        }
        for member in &mut self.members {
            let Some(face) = member.face.upgrade() else {
                continue;
            };
            let Some(cpu_ns) = clock::read(face.cpu_clock()) else {
                continue;
            };
            let used_ns = cpu_ns.saturating_sub(member.cpu_ns);
            member.cpu_ns = cpu_ns;
            let is_away = face.part() == Part::Away;
            member.kept_ns += if is_away { 0 } else { used_ns };
            if used_ns < MUCH_NS {
                member.still = if is_away { member.still + 1 } else { 0 };
                if member.still >= STILL && !face.is_runnable() {
                    self.rule.fetch(&face);
                }
                continue;
            }
            member.still = 0;
            let Some(free) = computes_without(&face) else {
                pause_ns = SOON_NS;
                continue;
            };
            face.look(free);
            member.held = if free { 0 } else { member.held + 1 };
            match (is_away, in_force()) {
                (true, _) if member.held >= NEEDED => self.rule.fetch(&face),
                (false, Some(core)) if free && face.changes_part(Part::Member, Part::Away) => {
                    self.rule.send_away(face.thread(), core);
                }
                _ => {}
            }
        }
        pause_ns
    }

    // -- who keeps to the core, and should not; who does not, and should

    fn look_for_strays(&mut self) {
        self.members.retain(|member| member.face.strong_count() > 0);
        for thread in std::mem::take(&mut locked().left) {
            let faces = self.members.iter().filter(|member| member.thread == thread);
            let faces = faces.filter_map(|member| member.face.upgrade());
            faces.for_each(|face| face.set_part(Part::Left));
        }
        let is_one = |member: &&Member| {
            let part = member.face.upgrade().map(|face| face.part());
            part.is_some_and(|part| part != Part::Left)
        };
        locked().members = self
            .members
            .iter()
            .filter(is_one)
            .map(|member| member.thread)
            .collect();
        let away = faces_of(&self.members).filter(|face| face.part() == Part::Away);
        AWAY.store(away.count(), Ordering::Relaxed);
        let Some(core) = in_force() else {
            return;
        };
        let here = Cores::one(core);
        let faces: HashMap<i32, Arc<ThreadFace>> = self
            .members
            .iter()
            .filter_map(|member| Some((member.thread, member.face.upgrade()?)))
            .collect();
        let all = threads();
        self.freed.retain(|thread| all.contains(thread));
        for thread in all {
            let Some(now) = Cores::of_thread(thread) else {
                continue;
            };
            match faces.get(&thread).map(|face| (face, face.part())) {
                Some((face, Part::Member)) if now != here => {
                    if now == self.rule.allowed || self.rule.is_ours(&now) {
                        here.give_to(thread);
                    } else {
                        face.set_part(Part::Left);
                    }
                }
                None if now == here && !self.is_arriving(thread) && self.freed.insert(thread) => {
                    self.rule.allowed.give_to(thread);
                }
                _ => {}
            }
        }
    }

    /// Whether it has become a member since the last tick.
    fn is_arriving(&self, thread: i32) -> bool {
        let is_it =
            |face: &Weak<ThreadFace>| face.upgrade().is_some_and(|face| face.thread() == thread);
        locked().arrived.iter().any(is_it)
    }

    // -- which core

    fn look_at_cores(&mut self, now_ns: u64) {
        let took_ns = now_ns.saturating_sub(self.usage.at_ns()).max(1);
        let ours_ns = self.ours_ns();
        let mut cores = self.usage.look(now_ns, &self.rule.cores, &ours_ns);
        if cores.is_empty() || !(self.rule.always || self.pays(now_ns, &cores)) {
            return;
        }
        let current = self.choice.current();
        let ours = current
            .and_then(|core| ours_ns.get(&core).copied())
            .unwrap_or(0);
        for core in &mut cores {
            core.free = Some(core.number) == current || usage::is_free(core.number);
        }
        let verdict = self.choice.look(&cores, ours as f64 / took_ns as f64);
        self.follow(verdict, &cores);
    }

    /// Whether one core saves anything on this machine, which is measured first: on two cores that are idle, since only
    /// those sleep, but not later than after some looks, and by one process at a time.
    fn pays(&mut self, now_ns: u64, cores: &[Core]) -> bool {
        if self.choice.current().is_some() {
            return true;
        }
        let idle = cores
            .iter()
            .take(2)
            .all(|core| core.foreign_frac < IDLE_FRAC);
        self.unmeasured += 1;
        if now_ns >= self.measure_ns && (idle || self.unmeasured >= MOST_UNMEASURED) {
            if let Some(_alone) = usage::alone() {
                hand_over::measure(&self.rule.cores);
                self.unmeasured = 0;
                self.measure_ns = now_ns + AGAIN_NS;
            }
        }
        let known = hand_over::known();
        // Work without the GIL could not be told from other work.
        let sees = gil::holder().is_some();
        let pays = sees && known.is_some_and(HandOver::pays);
        if !pays {
            locked().why = match known {
                _ if !sees => "it cannot be seen who has the GIL in this CPython",
                Some(_) => "a hand-over costs about the same on two cores",
                None => "what a hand-over costs is not measured yet",
            };
        }
        pays
    }

    /// What the members have used of each core since the last look. Where they keep to none, by the core that each had
    /// last: those that used much are few. What computes without the GIL is no business of the gang: a core that is full
    /// of it is no place for the others.
    fn ours_ns(&mut self) -> HashMap<u32, u64> {
        const LARGE_NS: u64 = 10_000_000;
        let mut ours = HashMap::new();
        for member in &mut self.members {
            let Some(face) = member.face.upgrade() else {
                continue;
            };
            let now_ns = clock::read(face.cpu_clock()).unwrap_or(member.second_ns);
            let used_ns = now_ns.saturating_sub(member.second_ns);
            member.second_ns = now_ns;
            let kept_ns = std::mem::take(&mut member.kept_ns);
            let (core, used_ns) = match in_force() {
                Some(core) => (Some(core), kept_ns.min(used_ns)),
                None if used_ns >= LARGE_NS => (core_of(member.thread), used_ns),
                None => (None, 0),
            };
            if let Some(core) = core {
                *ours.entry(core).or_insert(0) += used_ns;
            }
        }
        ours
    }

    fn follow(&mut self, verdict: Verdict, cores: &[Core]) {
        match verdict {
            Verdict::Stay if in_force().is_none() => {
                let taken = cores.iter().all(|core| !core.free);
                locked().why = match taken {
                    true => "each core has another process' gang",
                    false => "no core is idle enough",
                };
            }
            Verdict::Stay => {}
            Verdict::Gather(core) if usage::claim(core) || self.rule.always => {
                self.use_core(Some(core))
            }
            Verdict::Gather(_) => {
                self.choice.failed();
                self.use_core(None);
            }
            Verdict::Disband => {
                usage::give_up_claim();
                self.use_core(None);
            }
        }
    }

    fn use_core(&self, core: Option<u32>) {
        let number = core.and_then(|core| i32::try_from(core).ok()).unwrap_or(-1);
        CORE.store(number, Ordering::SeqCst);
        for face in self
            .members
            .iter()
            .filter_map(|member| member.face.upgrade())
        {
            self.keep(&face);
        }
    }
}

fn faces_of(members: &[Member]) -> impl Iterator<Item = Arc<ThreadFace>> + '_ {
    members.iter().filter_map(|member| member.face.upgrade())
}

impl Rule {
    /// A member that was away keeps to the core again.
    fn fetch(&self, face: &ThreadFace) {
        if face.changes_part(Part::Away, Part::Member) {
            is_back();
            in_force()
                .map_or(self.allowed, Cores::one)
                .give_to(face.thread());
        }
    }

    /// Whether a gang may have left it so: one core, or all others.
    fn is_ours(&self, cores: &Cores) -> bool {
        let numbers = cores.numbers();
        (numbers.len() == 1 || numbers.len() + 1 == self.cores.len())
            && numbers.iter().all(|core| self.cores.contains(core))
    }
}

/// Whether the clock of a thread runs while it has not the GIL, or while it has; None: it does not run for long enough. A
/// thread that waits for the GIL sleeps, or gets it soon.
fn computes_without(face: &ThreadFace) -> Option<bool> {
    if !face.is_runnable() {
        return None;
    }
    let read_ns = || clock::read(face.cpu_clock()).unwrap_or(0);
    let has_gil = || gil::holder() == Some(face.state());
    for _ in 0..LOOKS {
        let (from_ns, before_ns, held) = (clock::monotonic_ns(), read_ns(), has_gil());
        sleep(LOOK);
        let used_ns = read_ns().saturating_sub(before_ns);
        let took_ns = clock::monotonic_ns() - from_ns;
        if has_gil() == held && took_ns <= LONGEST_LOOK_NS && used_ns * 2 >= took_ns {
            return Some(!held);
        }
    }
    None
}
