//! Which threads stand still: looked at without the GIL, which the one that looks would take from those who compute.

use greenlane_process::clock;
use libc::clockid_t;
use pyo3::prelude::*;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// See `_native.pyi`.
#[pyclass(frozen, module = "greenlane._native")]
pub struct StalledThreads {
    wanted: AtomicBool,
    changed: AtomicBool,
}

/// One thread that is looked at.
struct ThreadSample {
    thread: i32,
    /// Its CPU clock at the last look; None = not looked at yet.
    cpu_ns: Option<u64>,
    /// For how many looks it has not moved.
    still: u32,
}

#[pymethods]
impl StalledThreads {
    #[new]
    fn new() -> Self {
        Self {
            wanted: AtomicBool::new(false),
            changed: AtomicBool::new(false),
        }
    }

    fn want(&self, wanted: bool) {
        self.wanted.store(wanted, Ordering::Release);
    }

    fn change(&self) {
        self.changed.store(true, Ordering::Release);
    }

    fn wait(
        &self,
        py: Python<'_>,
        threads: Vec<i32>,
        every_ns: u64,
        still_ns: u64,
        looks: u32,
    ) -> Vec<(i32, Option<u64>)> {
        let samples = threads.into_iter().map(ThreadSample::new).collect();
        py.detach(|| self.look_until_one_stands(samples, every_ns, still_ns, looks))
    }
}

impl StalledThreads {
    fn look_until_one_stands(
        &self,
        mut samples: Vec<ThreadSample>,
        every_ns: u64,
        still_ns: u64,
        looks: u32,
    ) -> Vec<(i32, Option<u64>)> {
        loop {
            std::thread::sleep(Duration::from_nanos(every_ns));
            // In this order: what is told after this look is samples by the next one, or by the next wait.
            if self.changed.swap(false, Ordering::AcqRel) || !self.wanted.load(Ordering::Acquire) {
                return Vec::new();
            }
            let standing: Vec<_> = samples
                .iter_mut()
                .filter_map(|one| one.stands(still_ns, looks))
                .collect();
            if !standing.is_empty() {
                return standing;
            }
        }
    }
}

impl ThreadSample {
    fn new(thread: i32) -> Self {
        Self {
            thread,
            cpu_ns: None,
            still: 0,
        }
    }

    /// Looks; gives the thread and its clock if it has been blocked for this many looks, or has ended (no clock).
    fn stands(&mut self, still_ns: u64, looks: u32) -> Option<(i32, Option<u64>)> {
        let now_ns = clock::read(clock_of(self.thread));
        let moved = match (self.cpu_ns, now_ns) {
            (_, None) => return Some((self.thread, None)),
            (None, _) => true,
            (Some(before_ns), Some(now_ns)) => now_ns.saturating_sub(before_ns) >= still_ns,
        };
        self.cpu_ns = now_ns;
        self.still = if moved { 0 } else { self.still + 1 };
        (self.still >= looks).then_some((self.thread, now_ns))
    }
}

/// The kernel's clock of one thread of this process: its number, complemented, above "per thread" and "scheduler".
fn clock_of(thread: i32) -> clockid_t {
    (!thread << 3) | 6
}
