//! The part of a thread that other threads may look at: its CPU clock, and the tracked locks that it holds.

use greenlane_process::{clock, forks};
use pyo3::{ffi, Python};
use std::sync::atomic::{
    AtomicBool, AtomicI32, AtomicI64, AtomicU64, AtomicU8, AtomicUsize, Ordering,
};
use std::sync::Arc;

/// How a thread stands to the gang.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum GangPart {
    /// It has run no job.
    None,
    Member,
    /// A member that uses all cores until its phase ends.
    Away,
    /// A member that starts a thread or a program, which inherits its cores: all.
    Starting,
    /// The program has set its cores itself.
    Left,
}

const PARTS: [GangPart; 5] = [
    GangPart::None,
    GangPart::Member,
    GangPart::Away,
    GangPart::Starting,
    GangPart::Left,
];
/// How many threads are [`GangPart::Away`], counted again now and then: some end there.
pub static AWAY: AtomicUsize = AtomicUsize::new(0);
/// Looks in a row that say how a phase computes.
const AGREEING: i32 = 2;

/// The part of a thread that other threads may look at.
pub struct ThreadView {
    /// Readable by anybody while the thread lives. Belongs to the thread's id, which differs in a forked child.
    cpu_clock: AtomicI32,
    /// The kernel's number of it, likewise.
    thread: AtomicI32,
    /// The fork generation that these are of.
    generation: AtomicU64,
    /// Tracked locks held. Written by the holder, and by a thread that releases a `Lock` for it.
    locks: AtomicI64,
    /// Whether the phase that runs would have asked for a permit, had the thread not held a lock when it began.
    turn_deferred: AtomicBool,
    /// Since when (ns) a phase runs without a permit; 0 = none does.
    runs_free_since_ns: AtomicU64,
    /// Whether it counts as a holder once it has used the CPU of a heavy one.
    chargeable: AtomicBool,
    /// The permit that this phase has been charged with; 0 = none.
    charged: AtomicU64,
    /// The gate that knows the thread.
    gate: AtomicU64,
    /// A [`GangPart`].
    part: AtomicU8,
    /// Its CPU clock when it went away; 0 = it is not. And the CPU that it has used while it was.
    away_from_ns: AtomicU64,
    away_ns: AtomicU64,
    /// Since when its phase runs, ns; 0 = none does. And its `PyThreadState` then.
    computes_from_ns: AtomicU64,
    computes_as: AtomicUsize,
    /// Looks at it in this phase while it computed, and those that found it without the GIL.
    looks: AtomicU64,
    free_looks: AtomicU64,
    /// The last looks that agree: how many found it without the GIL, or, below 0, with it.
    agreeing: AtomicI32,
}

impl ThreadView {
    /// Whether `gate` has not met the thread; it has from now on.
    pub fn is_new_to(&self, gate: u64) -> bool {
        self.gate.load(Ordering::Relaxed) != gate && self.gate.swap(gate, Ordering::Relaxed) != gate
    }

    /// Whether `gate` is the one that has met the thread last.
    pub fn is_known_to(&self, gate: u64) -> bool {
        self.gate.load(Ordering::Relaxed) == gate
    }

    /// A phase without a permit begins.
    pub fn runs_free(&self, since_ns: u64, chargeable: bool) {
        self.chargeable.store(chargeable, Ordering::SeqCst);
        self.runs_free_since_ns.store(since_ns, Ordering::SeqCst);
    }

    /// Whether the phase that runs without a permit may be charged.
    pub fn is_chargeable(&self) -> bool {
        self.chargeable.load(Ordering::SeqCst)
    }

    /// Since when a phase without a permit runs, ns; 0 = none does, or it has been charged.
    pub fn runs_free_since(&self) -> u64 {
        match self.charged.load(Ordering::SeqCst) {
            0 => self.runs_free_since_ns.load(Ordering::SeqCst),
            _ => 0,
        }
    }

    /// Charges the phase that began then with a permit. False: it has ended meanwhile.
    pub fn charge(&self, since_ns: u64, ticket: u64) -> bool {
        self.charged.store(ticket, Ordering::SeqCst);
        // If it ended in between, its end has either taken the ticket or not seen it.
        self.runs_free_since_ns.load(Ordering::SeqCst) == since_ns
            || self.charged.swap(0, Ordering::SeqCst) == 0
    }

    /// The phase ends, or takes a permit: gives the one that it was charged with.
    pub fn settle(&self) -> Option<u64> {
        self.runs_free_since_ns.store(0, Ordering::SeqCst);
        match self.charged.load(Ordering::SeqCst) {
            0 => None,
            _ => Some(self.charged.swap(0, Ordering::SeqCst)).filter(|&ticket| ticket != 0),
        }
    }

    /// Its CPU clock.
    pub fn cpu_clock(&self) -> libc::clockid_t {
        self.cpu_clock.load(Ordering::Relaxed)
    }

    /// Whether it has a core or waits for one.
    pub fn is_runnable(&self) -> bool {
        clock::is_runnable(self.thread.load(Ordering::Relaxed))
    }

    /// A phase begins on its own thread.
    pub fn begin(&self, _attached: Python<'_>, now_ns: u64) {
        // SAFETY: attached; the value is only compared.
        let state = unsafe { ffi::PyThreadState_Get() } as usize;
        self.computes_as.store(state, Ordering::Relaxed);
        self.computes_from_ns.store(now_ns, Ordering::Relaxed);
    }

    /// It ends. Gives (looks at it while it computed, those that found it without the GIL).
    pub fn end(&self) -> (u32, u32) {
        self.computes_from_ns.store(0, Ordering::Relaxed);
        if self.looks.load(Ordering::Relaxed) == 0 {
            return (0, 0);
        }
        self.agreeing.store(0, Ordering::Relaxed);
        let free = self.free_looks.swap(0, Ordering::Relaxed);
        (self.looks.swap(0, Ordering::Relaxed) as u32, free as u32)
    }

    /// Since when its phase runs, ns, and its `PyThreadState`, which may be gone; None: it runs none.
    pub fn computes(&self) -> Option<(u64, usize)> {
        let from_ns = self.computes_from_ns.load(Ordering::Relaxed);
        (from_ns != 0).then(|| (from_ns, self.computes_as.load(Ordering::Relaxed)))
    }

    /// A look has found it computing without the GIL, or with it.
    pub fn look(&self, free: bool) {
        self.free_looks
            .fetch_add(u64::from(free), Ordering::Relaxed);
        self.looks.fetch_add(1, Ordering::Relaxed);
        let agreeing = self.agreeing.load(Ordering::Relaxed);
        let agreeing = match free {
            true => agreeing.max(0) + 1,
            false => agreeing.min(0) - 1,
        };
        self.agreeing.store(agreeing, Ordering::Relaxed);
    }

    /// Whether its phase computes without the GIL, as the last looks have found.
    pub fn computes_without_gil(&self) -> bool {
        self.agreeing.load(Ordering::Relaxed) >= AGREEING
    }

    /// Whether it computes with it.
    pub fn computes_with_gil(&self) -> bool {
        self.agreeing.load(Ordering::Relaxed) <= -AGREEING
    }

    /// How it stands to the gang.
    pub fn part(&self) -> GangPart {
        PARTS[usize::from(self.part.load(Ordering::SeqCst))]
    }

    pub fn set_part(&self, part: GangPart) {
        self.part.store(part as u8, Ordering::SeqCst);
    }

    /// False: it was another one.
    pub fn change_part(&self, from: GangPart, to: GangPart) -> bool {
        let (from, to) = (from as u8, to as u8);
        let changed = self
            .part
            .compare_exchange(from, to, Ordering::SeqCst, Ordering::SeqCst);
        let now_ns = || clock::read(self.cpu_clock()).unwrap_or(0);
        if changed.is_ok() && to == GangPart::Away as u8 {
            AWAY.fetch_add(1, Ordering::Relaxed);
            self.away_from_ns.store(now_ns(), Ordering::Relaxed);
        } else if changed.is_ok() && from == GangPart::Away as u8 {
            let used_ns = now_ns().saturating_sub(self.away_from_ns.swap(0, Ordering::Relaxed));
            self.away_ns.fetch_add(used_ns, Ordering::Relaxed);
            let less = |away: usize| away.checked_sub(1);
            let _ = AWAY.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
        }
        changed.is_ok()
    }

    /// The CPU that it has used as a member that keeps to the core, ns; None: the thread has ended.
    pub fn kept_cpu_ns(&self) -> Option<u64> {
        let now_ns = clock::read(self.cpu_clock())?;
        let from_ns = match self.away_from_ns.load(Ordering::Relaxed) {
            0 => now_ns,
            from_ns => from_ns,
        };
        Some(from_ns.saturating_sub(self.away_ns.load(Ordering::Relaxed)))
    }

    /// The kernel's number of its thread.
    pub fn thread(&self) -> libc::pid_t {
        self.thread.load(Ordering::Relaxed)
    }

    /// Called on its own thread: a forked child's thread has another clock.
    fn refresh(&self) {
        let now = forks::generation();
        if self.generation.load(Ordering::Relaxed) != now {
            self.generation.store(now, Ordering::Relaxed);
            self.cpu_clock
                .store(clock::cpu_clock_of_this_thread(), Ordering::Relaxed);
            self.thread.store(this_thread(), Ordering::Relaxed);
            self.set_part(GangPart::None);
            self.away_from_ns.store(0, Ordering::Relaxed);
            self.away_ns.store(0, Ordering::Relaxed);
        }
    }

    /// Counts one tracked lock more.
    pub fn lock_taken(&self) {
        self.locks.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts one tracked lock less.
    pub fn lock_given(&self) {
        self.locks.fetch_sub(1, Ordering::Relaxed);
    }

    /// Whether the phase that runs has put off its turn until its thread holds no lock.
    pub fn set_turn_deferred(&self, deferred: bool) {
        self.turn_deferred.store(deferred, Ordering::Relaxed);
    }

    /// Whether the phase has put off its turn and the last lock has been released.
    pub fn deferred_turn_due(&self) -> bool {
        self.turn_deferred.load(Ordering::Relaxed) && self.locks_held() <= 0
    }

    /// Tracked locks held now.
    pub fn locks_held(&self) -> i64 {
        self.locks.load(Ordering::Relaxed)
    }
}

thread_local! {
    static VIEW: Arc<ThreadView> = Arc::new(ThreadView {
        cpu_clock: AtomicI32::new(clock::cpu_clock_of_this_thread()),
        thread: AtomicI32::new(this_thread()),
        generation: AtomicU64::new(forks::generation()),
        locks: AtomicI64::new(0),
        turn_deferred: AtomicBool::new(false),
        runs_free_since_ns: AtomicU64::new(0),
        chargeable: AtomicBool::new(false),
        charged: AtomicU64::new(0),
        gate: AtomicU64::new(0),
        part: AtomicU8::new(GangPart::None as u8),
        away_from_ns: AtomicU64::new(0),
        away_ns: AtomicU64::new(0),
        computes_from_ns: AtomicU64::new(0),
        computes_as: AtomicUsize::new(0),
        looks: AtomicU64::new(0),
        free_looks: AtomicU64::new(0),
        agreeing: AtomicI32::new(0),
    });
}

fn this_thread() -> libc::pid_t {
    // SAFETY: gettid has no arguments and cannot fail.
    unsafe { libc::gettid() }
}

/// This thread's view; None while the thread is being torn down.
pub fn thread_view() -> Option<Arc<ThreadView>> {
    VIEW.try_with(|view| {
        view.refresh();
        Arc::clone(view)
    })
    .ok()
}
