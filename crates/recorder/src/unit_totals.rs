//! Where a unit's time went so far: running sums, for callers that want a figure now and not the recording's account.
//!
//! Coarse on purpose, like `live`: of this unit alone, children are not in it.

use super::live::WAITING_KINDS;
use greenlane_recording_format::event::WaitKind;

/// Names of `WaitKind`, by number, but of [`WaitKind::Stopped`]: only earlier releases wrote that.
pub const WAITS: [&str; 7] = ["gil", "loop", "permit", "accept", "lock", "pool", "os"];

/// See the module.
#[derive(Clone, Copy, Default)]
pub struct UnitTotals {
    pub cpu_ns: u64,
    pub io_ns: u64,
    /// By `WaitKind`.
    pub wait_ns: [u64; WAITS.len()],
}

impl UnitTotals {
    /// It was blocked on `kind` for `blocked_ns`, and resumed `late_ns` after it was ready.
    pub fn add_block(&mut self, kind: u8, blocked_ns: u64, late_ns: u64) {
        if WAITING_KINDS.contains(&kind) {
            self.wait_ns[WaitKind::Lock as usize] += blocked_ns;
        } else {
            self.io_ns += blocked_ns;
        }
        self.wait_ns[WaitKind::Loop as usize] += late_ns;
    }

    /// It waited for `waited_ns`. A pool's wait has been counted as the wait for its lock.
    pub fn add_wait(&mut self, kind: WaitKind, waited_ns: u64) {
        if kind == WaitKind::Pool {
            let lock_ns = &mut self.wait_ns[WaitKind::Lock as usize];
            *lock_ns = lock_ns.saturating_sub(waited_ns);
        }
        if let Some(sum_ns) = self.wait_ns.get_mut(kind as usize) {
            *sum_ns += waited_ns;
        }
    }
}
