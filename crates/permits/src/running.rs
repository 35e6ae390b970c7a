//! The job that runs on this thread.

use crate::job::Job;
use std::cell::Cell;

thread_local! {
    /// Taken out while it is worked on, so that a re-entrant call (a signal handler) finds no job and does nothing.
    /// Dropped with the thread: a permit never outlives the thread that holds it.
    static JOB: Cell<Option<Box<Job>>> = const { Cell::new(None) };
}

/// Takes this thread's job out; None without one, or while the thread is being torn down.
pub fn take_job() -> Option<Box<Job>> {
    JOB.try_with(Cell::take).ok().flatten()
}

/// Puts a job on this thread. A job that was there is dropped, which ends it.
pub fn put_job(job: Box<Job>) {
    // A failure means that the thread is being torn down; then the job is dropped here, which ends it.
    let _ = JOB.try_with(|place| place.set(Some(job)));
}

/// Whether this thread runs a job of which `is` is true.
pub fn has_job_that(is: impl FnOnce(&Job) -> bool) -> bool {
    take_job().is_some_and(|job| {
        let found = is(&job);
        put_job(job);
        found
    })
}

/// Whether this thread runs a job.
pub fn has_job() -> bool {
    JOB.try_with(|place| {
        // SAFETY: this thread's own, looked at between two changes of it.
        unsafe { &*place.as_ptr() }.is_some()
    })
    .unwrap_or(false)
}
