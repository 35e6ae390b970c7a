//! The gang: the threads of a process that share a GIL and run jobs. While that pays they keep to one core, so that the GIL
//! is handed on where it was released; nobody else does.
//!
//! | module | is |
//! |---|---|
//! | [`state`] | its core, what it was started with, its members |
//! | [`watch`] | our thread: it sees who computes without the GIL, chooses the core, sets free what need not keep to it |
//! | [`usage`] | what others use of each core, and which process a core belongs to |
//! | [`hand_over`] | what a hand-over costs on this machine |
//!
//! A member's thread and the watcher both change its cores: the watcher after it has stored the gang's core, and a thread
//! looks at that again after it has set its own. What slips through is put right at the watcher's next look.
//!
//! A forked child is in no gang: its thread uses all cores, and it makes a gang of its own with its jobs. It reads what is
//! here, and another thread of its parent may have had the lock: nothing is freed, and members are of one generation.

mod hand_over;
mod state;
mod usage;
mod watch;

use crate::thread_view::{thread_view, GangPart, ThreadView};
use greenlane_interpreter::gil;
use greenlane_process::affinity::{threads, Cores};
use greenlane_process::{forks, signals};
use pyo3::Python;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Once};
use std::thread::JoinHandle;

use state::{give, lock, rule, GangState, CORE, RULE};

pub use hand_over::{load_or_measure, measure};
pub use state::{in_force, Rule};

/// A thread by itself hands nothing on.
const FEWEST: usize = 2;

static FORKS: Once = Once::new();

/// Starts our thread, if there is something to watch and it does not run.
fn watch(state: &mut GangState) {
    let runs = |watcher: &JoinHandle<()>| !watcher.is_finished();
    if state.members.len() >= FEWEST && !state.watcher.as_ref().is_some_and(runs) {
        let thread = std::thread::Builder::new()
            .name("greenlane-gang".into())
            .stack_size(256 * 1024);
        // Without room for a thread nobody is seen, and there is no gang.
        state.watcher = signals::with_all_blocked(|| thread.spawn(watch::run)).ok();
    }
}

/// From now on threads that run jobs keep to one core, as `rule` says.
pub fn start(rule: Rule) {
    if state::rule().is_some() {
        return;
    }
    FORKS.call_once(|| {
        forks::watch();
        // SAFETY: the handler makes system calls and stores atomics, which a forked child may do.
        unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
    });
    RULE.store(Box::into_raw(Box::new(rule)), Ordering::Release);
    watch(&mut lock());
}

/// From now on every thread uses all cores, also those that a member has started; with `still_watch`, who computes without the
/// GIL is seen as before. Waits for the watcher's end, some ms: not with the GIL.
pub fn stop(still_watch: bool) {
    let rule = rule();
    RULE.store(std::ptr::null_mut(), Ordering::SeqCst);
    let watcher = lock().watcher.take();
    if let Some(watcher) = watcher {
        watcher.thread().unpark();
        let _ = watcher.join();
    }
    let core = in_force();
    CORE.store(-1, Ordering::SeqCst);
    usage::give_up_claim();
    if let (Some(rule), Some(core)) = (rule.filter(|rule| rule.cores.len() > 1), core) {
        let here = Cores::of_core(core);
        let free = |&thread: &i32| {
            Cores::of_thread(thread) == Some(here) && rule.allowed_cores().give_to(thread)
        };
        // Again for threads that one of them started meanwhile.
        while threads().iter().filter(|thread| free(thread)).count() > 0 {}
    }
    let mut state = lock();
    state.why = "";
    if still_watch {
        watch(&mut state);
    }
}

/// The calling thread runs jobs, or hands requests to those that do.
pub fn join(py: Python<'_>, view: &Arc<ThreadView>) {
    if view.part() != GangPart::None {
        return;
    }
    gil::find(py);
    view.set_part(GangPart::Member);
    {
        let mut state = lock();
        state.members.retain(|member| member.strong_count() > 0);
        state.members.push(Arc::downgrade(view));
        watch(&mut state);
    }
    keep(view);
}

/// As [`join`], for a thread that runs no jobs itself.
pub fn join_here(py: Python<'_>) {
    if let Some(view) = thread_view() {
        join(py, &view);
    }
}

/// A member's phase begins that computes without the GIL, or may do so: until its end it uses all cores, with `now` from
/// another one on.
pub fn go_away(view: &ThreadView, now: bool) {
    if let (Some(rule), Some(core)) = (rule(), in_force()) {
        if view.part() == GangPart::Member && view.change_part(GangPart::Member, GangPart::Away) {
            match now {
                true => rule.send_away(0, core),
                false => _ = rule.allowed_cores().give_to(0),
            }
        }
    }
}

/// Such a phase ends, or one that was found to.
pub fn come_back(view: &ThreadView) {
    if view.part() == GangPart::Away && view.change_part(GangPart::Away, GangPart::Member) {
        keep(view);
    }
}

/// Does what may start threads or programs; those use all cores.
pub fn freely<T>(does: impl FnOnce() -> T) -> T {
    let (Some(rule), Some(core)) = (rule(), in_force()) else {
        return does();
    };
    let starts = |view: &Arc<ThreadView>| view.change_part(GangPart::Member, GangPart::Starting);
    let member = thread_view().filter(starts);
    // Native code of a member may have started this thread.
    if member.is_some() || Cores::of_thread(0) == Some(Cores::of_core(core)) {
        rule.allowed_cores().give_to(0);
    }
    let result = does();
    if let Some(view) = member.filter(|view| view.change_part(GangPart::Starting, GangPart::Member))
    {
        keep(&view);
    }
    result
}

/// The cores that the kernel does not tell of a thread, 0 = the calling one, because it keeps to the gang's one.
pub fn untold(thread: i32) -> Option<(u32, &'static [u32])> {
    let (rule, core) = (rule()?, in_force()?);
    let view = view_of(thread)?;
    (!matches!(view.part(), GangPart::None | GangPart::Left)).then_some((core, &rule.cores))
}

/// The program has set the cores of a thread, 0 = of the calling one: that one is no member from now on.
pub fn leave(thread: i32) {
    if let Some(view) = view_of(thread) {
        view.set_part(GangPart::Left);
    }
}

fn view_of(thread: i32) -> Option<Arc<ThreadView>> {
    let is_it = |view: &Arc<ThreadView>| thread == 0 || view.thread() == thread;
    thread_view()
        .filter(is_it)
        .or_else(|| lock().views().into_iter().find(is_it))
}

pub fn is_wanted() -> bool {
    rule().is_some()
}

/// The gang's core, and why there is none.
pub fn shown() -> (Option<u32>, &'static str) {
    (in_force(), lock().why)
}

/// Lets this thread, a member, use what the gang uses, unless the program has chosen its cores.
fn keep(view: &ThreadView) {
    let Some(rule) = rule() else { return };
    loop {
        let core = in_force();
        let wanted = core.map_or(rule.allowed_cores(), Cores::of_core);
        let now = Cores::of_thread(0);
        if now != Some(wanted) && !give(rule, view, now, &wanted) {
            return;
        }
        if in_force() == core {
            return;
        }
    }
}

extern "C" fn in_child() {
    usage::give_up_claim();
    if let (Some(rule), Some(core)) = (rule(), in_force()) {
        if Cores::of_thread(0) == Some(Cores::of_core(core)) {
            rule.allowed_cores().give_to(0);
        }
    }
    CORE.store(-1, Ordering::SeqCst);
}
