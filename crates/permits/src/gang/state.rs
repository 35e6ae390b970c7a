//! What all of the gang know: its core, what it was started with, its members.
//!
//! A forked child reads it, and another thread of its parent may have had the lock: nothing is freed, and members are of
//! one generation.

use crate::thread_view::{GangPart, ThreadView, AWAY};
use greenlane_process::affinity::Cores;
use greenlane_process::forks;
use std::path::PathBuf;
use std::sync::atomic::{AtomicI32, AtomicPtr, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::JoinHandle;

/// The core in force; -1 = none.
pub(super) static CORE: AtomicI32 = AtomicI32::new(-1);
/// What the gang was started with; null = none is wanted.
pub(super) static RULE: AtomicPtr<Rule> = AtomicPtr::new(std::ptr::null_mut());
/// With the fork generation that it is of.
pub(super) static STATE: AtomicPtr<(u64, Mutex<GangState>)> = AtomicPtr::new(std::ptr::null_mut());

/// What a gang is started with.
pub struct Rule {
    /// What the process may use, in the order in which equal ones are preferred.
    pub cores: Vec<u32>,
    /// Keep to one core whether it pays or not.
    pub always: bool,
    /// Where the cost of a hand-over is kept for other processes; None = it is measured again.
    pub cache: Option<PathBuf>,
}

#[derive(Default)]
pub(super) struct GangState {
    pub(super) members: Vec<Weak<ThreadView>>,
    pub(super) watcher: Option<JoinHandle<()>>,
    /// Why no gang is in force.
    pub(super) why: &'static str,
}

impl GangState {
    pub(super) fn views(&self) -> Vec<Arc<ThreadView>> {
        self.members.iter().filter_map(Weak::upgrade).collect()
    }
}

impl Rule {
    pub(super) fn allowed_cores(&self) -> Cores {
        Cores::of(self.cores.iter().copied())
    }

    /// Lets a thread, which counts as away, use all cores, from another one on: the kernel would leave it where it is for
    /// some ms. One of as many as there are cores stays: a core that nobody is sent to is idle until the kernel looks.
    pub(super) fn send_away(&self, thread: i32, core: u32) {
        if AWAY.load(Ordering::Relaxed) % self.cores.len() != 0 {
            let others = self.cores.iter().copied().filter(|&other| other != core);
            Cores::of(others).give_to(thread);
        }
        self.allowed_cores().give_to(thread);
    }
}

pub fn in_force() -> Option<u32> {
    u32::try_from(CORE.load(Ordering::SeqCst)).ok()
}

/// Gives a member other cores; false: the present ones are of the program's choice, and it is a member no longer.
pub(super) fn give(rule: &Rule, view: &ThreadView, now: Option<Cores>, wanted: &Cores) -> bool {
    // One, or all others, a gang may have left it with.
    let is_ours = now.is_some_and(|now| {
        let numbers = now.numbers();
        (numbers.len() == 1 || numbers.len() + 1 >= rule.cores.len())
            && numbers.iter().all(|core| rule.cores.contains(core))
    });
    if !is_ours {
        view.set_part(GangPart::Left);
        return false;
    }
    wanted.give_to(view.thread())
}

pub(super) fn rule() -> Option<&'static Rule> {
    // SAFETY: null, or from a Box that is never freed.
    unsafe { RULE.load(Ordering::Acquire).as_ref() }
}

pub(super) fn lock() -> MutexGuard<'static, GangState> {
    loop {
        let found = STATE.load(Ordering::Acquire);
        // SAFETY: null, or from a Box that is never freed.
        let known = unsafe { found.as_ref() };
        if let Some((_, state)) = known.filter(|(made, _)| *made == forks::generation()) {
            return state.lock().unwrap_or_else(PoisonError::into_inner);
        }
        let made = Box::into_raw(Box::new((forks::generation(), Mutex::default())));
        let _ = STATE.compare_exchange(found, made, Ordering::AcqRel, Ordering::Acquire);
    }
}
