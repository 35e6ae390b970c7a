//! The part of a thread that other threads may look at: its CPU clock, and the tracked locks that it holds.

use greenlane_process::{clock, forks};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicI64, AtomicU64, Ordering};
use std::sync::Arc;

/// The part of a thread that other threads may look at.
pub struct ThreadFace {
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
}

impl ThreadFace {
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

    /// Called on its own thread: a forked child's thread has another clock.
    fn refresh(&self) {
        let now = forks::generation();
        if self.generation.load(Ordering::Relaxed) != now {
            self.generation.store(now, Ordering::Relaxed);
            self.cpu_clock
                .store(clock::cpu_clock_of_this_thread(), Ordering::Relaxed);
            self.thread.store(this_thread(), Ordering::Relaxed);
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
    static FACE: Arc<ThreadFace> = Arc::new(ThreadFace {
        cpu_clock: AtomicI32::new(clock::cpu_clock_of_this_thread()),
        thread: AtomicI32::new(this_thread()),
        generation: AtomicU64::new(forks::generation()),
        locks: AtomicI64::new(0),
        turn_deferred: AtomicBool::new(false),
        runs_free_since_ns: AtomicU64::new(0),
        chargeable: AtomicBool::new(false),
        charged: AtomicU64::new(0),
        gate: AtomicU64::new(0),
    });
}

fn this_thread() -> libc::pid_t {
    // SAFETY: gettid has no arguments and cannot fail.
    unsafe { libc::gettid() }
}

/// This thread's face; None while the thread is being torn down.
pub fn face() -> Option<Arc<ThreadFace>> {
    FACE.try_with(|face| {
        face.refresh();
        Arc::clone(face)
    })
    .ok()
}
