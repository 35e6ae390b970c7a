//! Which threads of jobs wait for the GIL, since when, and who has it: told by the redirected calls, read by the sampler.

use crate::alarm::{self, ASLEEP, LIGHTLY};
use crate::thread_state;
use greenlane_recording_format::event::NO_JOB;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

/// A wait for the GIL shorter than this is the interpreter's own slicing.
pub const WAITED_NS: u64 = 5_000_000;
/// A wait that nobody has spoken of for so long is over; longer than any switch interval in use.
const SILENT_NS: u64 = 200_000_000;

/// Threads of jobs that wait for the GIL, since when the first of them does, and when one last said so.
pub static WAITING: AtomicU32 = AtomicU32::new(0);
pub static WAITS_SINCE_NS: AtomicU64 = AtomicU64::new(0);
static WAITED_AT_NS: AtomicU64 = AtomicU64::new(0);
/// Who had the GIL then.
pub static HOLDER: AtomicUsize = AtomicUsize::new(0);
/// Whom the sampler has got the GIL from; 0 = it was free.
pub static GIVER: AtomicUsize = AtomicUsize::new(0);

/// The calling thread has waited for the GIL since `since_ns` and waits on. `said`: it told so before. True: it is
/// counted now; then it answers with [`waited`]. `holder`: the `PyThreadState` that has the GIL. Called with the GIL's
/// mutex held.
pub fn waits(since_ns: u64, now_ns: u64, said: bool, holder: usize) -> bool {
    if !said && (now_ns - since_ns < WAITED_NS || thread_state::running().1 == NO_JOB) {
        return false;
    }
    WAITED_AT_NS.store(now_ns, Ordering::Relaxed);
    HOLDER.store(holder, Ordering::Relaxed);
    if !said && WAITING.fetch_add(1, Ordering::Relaxed) == 0 {
        WAITS_SINCE_NS.store(since_ns, Ordering::Relaxed);
    }
    if ASLEEP.load(Ordering::Relaxed) == LIGHTLY {
        alarm::wake();
    }
    true
}

/// The sampler waits for the GIL, and `state` had it last.
pub fn got_from(state: usize) {
    GIVER.store(state, Ordering::Relaxed);
}

/// When a thread of a job last said that it waits for the GIL.
pub fn waited_at_ns() -> u64 {
    WAITED_AT_NS.load(Ordering::Relaxed)
}

/// A thread that was counted has the GIL.
pub fn end_wait() {
    let fewer = |waiting: u32| Some(waiting.saturating_sub(1));
    let _ = WAITING.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fewer);
}

/// Whether a thread of a job waits for the GIL at `now_ns`. One that has not said so for long was lost: recording was
/// switched off meanwhile, or the thread is gone.
pub fn gil_waited_for(now_ns: u64) -> bool {
    if WAITING.load(Ordering::Relaxed) == 0 {
        return false;
    }
    if now_ns.saturating_sub(WAITED_AT_NS.load(Ordering::Relaxed)) > SILENT_NS {
        WAITING.store(0, Ordering::Relaxed);
        return false;
    }
    true
}
