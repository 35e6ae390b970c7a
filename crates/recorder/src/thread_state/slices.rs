//! A state's slices: their begin and end, the CPU that they used, and the block between two of them.

use super::blocked_stack;
use super::state::ThreadState;
use super::unit::{Unit, NO_IO};
use crate::ring::{Ring, ESTIMATED, LOOP_EVENTS};
use crate::thread_registry;
use greenlane_process::cpu::Cpu;
use greenlane_recording_format::event::{Event, Text, HELD_THE_LOOP, NO_JOB, READY_EXACT};
use std::sync::atomic::Ordering;
use std::sync::Arc;

/// A slice this long is worth a look at the thread's CPU clock, a system call. Shorter ones count as all CPU except
/// their waits, and what they took is kept off the next look.
pub(super) const CPU_LOOK_NS: u64 = 250_000;
/// On a loop's thread: a call that blocks all units this long is written down. A driver's short calls add up.
pub(super) const HELD_NS: u64 = 200_000;
/// A blocking call shorter than this did not block: the slice goes on.
pub(super) const BLOCKED_NS: u64 = 20_000;
/// A wait for the GIL shorter than this is not written down.
pub(super) const WAITED_NS: u64 = 10_000;

impl ThreadState {
    pub(super) fn push(&mut self, event: Event) {
        if let Some(block) = self.pending.take() {
            self.push_unordered(block);
        }
        self.push_unordered(event);
    }

    /// Goes on with a larger ring. Allocates.
    #[cold]
    pub(super) fn grow(&mut self) {
        let larger = Arc::new(Ring::new(LOOP_EVENTS));
        let state = self.ring.state.load(Ordering::Relaxed);
        larger.state.store(state, Ordering::Relaxed);
        larger.thread.store(self.thread, Ordering::Relaxed);
        let epoll_fd = self.ring.epoll_fd.load(Ordering::Relaxed);
        larger.epoll_fd.store(epoll_fd, Ordering::Relaxed);
        let former = &self.ring;
        let (unit, job) = (&former.unit, &former.job);
        larger
            .unit
            .store(unit.load(Ordering::Relaxed), Ordering::Relaxed);
        larger
            .job
            .store(job.load(Ordering::Relaxed), Ordering::Relaxed);
        thread_registry::register(&larger);
        let former = std::mem::replace(&mut self.ring, larger);
        former.from_ns.store(0, Ordering::Relaxed);
        former.end();
    }

    pub(super) fn push_unordered(&self, event: Event) {
        if self.ring.push(event) {
            thread_registry::wake();
        }
    }

    /// The kernel had the bytes at `stamp_ns` that the running unit has just read: they are what it was blocked on.
    pub(super) fn refine(&mut self, stamp_ns: u64) {
        let Some(mut event) = self.pending.take() else {
            return;
        };
        if let Event::Block {
            from_ns,
            known_ns,
            ready_ns,
            flags,
            ..
        } = &mut event
        {
            // Later than the poll: more bytes came since, and the stamp is of the last one.
            if stamp_ns <= *ready_ns {
                *ready_ns = stamp_ns.max(*from_ns);
                *known_ns = *ready_ns;
                *flags |= READY_EXACT;
                if let Some(unit) = self.current() {
                    unit.io_ready_ns = stamp_ns;
                }
            }
        }
        self.push_unordered(event);
    }

    /// The bytes that the running unit has read last came at `stamp_ns` (0 = unknown), whenever it came to read them.
    pub(super) fn set_read_stamp(&mut self, stamp_ns: u64) {
        if stamp_ns != 0 {
            if let Some(unit) = self.current() {
                unit.io_ready_ns = stamp_ns;
            }
        }
    }

    pub(super) fn current(&mut self) -> Option<&'static mut Unit> {
        // SAFETY: null, `own`, or a unit that its probe keeps alive while it runs; only this thread looks at it.
        unsafe { self.current.as_mut() }
    }

    pub(super) fn begin(&mut self, from_ns: u64, gil_ns: u64) {
        self.from_ns = from_ns;
        self.gil_at_from_ns = gil_ns;
        let (unit, job) = self
            .current()
            .map_or((0, NO_JOB), |unit| (unit.id, unit.job));
        self.ring.unit.store(unit, Ordering::Relaxed);
        self.ring.job.store(job, Ordering::Relaxed);
        self.ring.from_ns.store(from_ns, Ordering::Relaxed);
    }

    /// Ends the running slice at `to_ns`; `gil_ns` is what had been waited for the GIL by then.
    pub(super) fn end(&mut self, to_ns: u64, gil_ns: u64) {
        let from_ns = std::mem::take(&mut self.from_ns);
        self.ring.from_ns.store(0, Ordering::Relaxed);
        if from_ns == 0 || to_ns <= from_ns {
            return;
        }
        let waited_ns = gil_ns.saturating_sub(self.gil_at_from_ns);
        let most_ns = (to_ns - from_ns).saturating_sub(waited_ns);
        let cpu = self.cpu.stretch(most_ns, CPU_LOOK_NS);
        let cpu_ns = match cpu {
            Cpu::Measured(ns) => ns,
            Cpu::AtMost(ns) => ns | ESTIMATED,
        };
        if let Some(unit) = self.current() {
            unit.totals.cpu_ns += cpu.ns();
            let (unit, job, phase) = (unit.id, unit.job, unit.phase);
            self.push(Event::Slice {
                from_ns,
                to_ns,
                unit,
                job,
                phase,
                cpu_ns,
            });
        }
    }

    /// Writes down how the running unit was blocked (from, known, ready, back), and begins its next slice when it is back.
    pub(super) fn block(
        &mut self,
        (from_ns, known_ns, ready_ns, to_ns): (u64, u64, u64, u64),
        (kind, flags, call): (u8, u8, Text),
        gil_ns: u64,
    ) {
        if let Some(unit) = self.current() {
            if !NO_IO.contains(&kind) {
                unit.io_ready_ns = ready_ns;
            }
            unit.totals
                .add_block(kind, ready_ns.saturating_sub(from_ns), 0);
            let (unit, job) = (unit.id, unit.job);
            if flags & HELD_THE_LOOP != 0 && ready_ns - from_ns >= HELD_NS {
                blocked_stack::sample_stack(unit, job, from_ns, ready_ns);
            }
            self.push(Event::Block {
                from_ns,
                known_ns,
                ready_ns,
                to_ns,
                unit,
                job,
                kind,
                flags,
                call,
                peer: 0,
            });
        }
        self.begin(to_ns, gil_ns);
    }
}
