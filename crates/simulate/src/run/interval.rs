//! Who holds a permit decides how long the switch interval of a process is; those who wait do so by it.

use crate::interval::Interval;
use crate::world::World;

impl World<'_> {
    /// Somebody has a permit of `process`.
    pub(super) fn shorten(&mut self, process: usize) {
        self.change(process, |interval, _| interval.is_long(), Interval::shorten);
    }

    /// A phase has ended in `process`.
    pub(super) fn tend(&mut self, process: usize) {
        let due = |interval: &Interval, now_ns| now_ns >= interval.due_ns;
        self.change(process, due, Interval::tend);
    }

    /// Nobody holds a permit of `process` now.
    pub(super) fn restore(&mut self, process: usize) {
        let forced = |interval: &Interval, _| interval.forced.is_some();
        self.change(process, forced, Interval::restore);
    }

    /// Does `how` to the interval if `due`; those who wait do so by it then.
    fn change(
        &mut self,
        process: usize,
        due: impl Fn(&Interval, u64) -> bool,
        how: impl Fn(&mut Interval, u64, u64),
    ) {
        let one = &mut self.processes[process];
        let (Some(permits), waiters) = (&mut one.permits, &mut one.line) else {
            return;
        };
        let interval = &mut permits.interval;
        if due(interval, self.now_ns) {
            how(interval, self.now_ns, waiters.wakes(self.now_ns));
            waiters.set_interval(self.now_ns, interval.ns().max(1));
        }
    }
}
