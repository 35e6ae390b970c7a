//! The CPU time of a thread's work, read as rarely as the answer allows.
//!
//! Reading a thread's CPU clock is a system call, up to 1 us on a virtual machine: most of the cost of a short stretch of
//! work. A stretch cannot have used more CPU than it took by the wall clock. So that bound stands for a short stretch,
//! and the clock is read at the end of the next longer one, less what the skipped ones may have used.

use crate::clock;

/// The CPU clock of one thread, and what of it has been given to stretches already. Used by that thread only.
#[derive(Clone, Copy, Debug)]
pub struct CpuMeter {
    /// The thread's CPU clock when it was last read, ns.
    read_ns: u64,
    /// What the stretches since then have been given, ns.
    unread_ns: u64,
}

/// The CPU of one stretch, ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cpu {
    Measured(u64),
    /// Not measured: the most that it can be.
    AtMost(u64),
}

impl Cpu {
    /// The number, measured or not.
    pub fn ns(self) -> u64 {
        match self {
            Self::Measured(ns) | Self::AtMost(ns) => ns,
        }
    }
}

impl CpuMeter {
    /// Of the calling thread, from now on. Reads its clock.
    pub fn of_this_thread() -> Self {
        Self {
            read_ns: clock::thread_cpu_ns(),
            unread_ns: 0,
        }
    }

    /// The CPU of a stretch that ends now and used at most `most_ns`. The clock is read if that is `look_ns` or more.
    #[inline]
    pub fn stretch(&mut self, most_ns: u64, look_ns: u64) -> Cpu {
        if most_ns < look_ns {
            self.unread_ns += most_ns;
            return Cpu::AtMost(most_ns);
        }
        let now_ns = clock::thread_cpu_ns();
        let used_ns = now_ns
            .saturating_sub(self.read_ns)
            .saturating_sub(self.unread_ns);
        self.read_ns = now_ns;
        self.unread_ns = 0;
        Cpu::Measured(used_ns.min(most_ns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn burn(ns: u64) {
        let until_ns = clock::thread_cpu_ns() + ns;
        while clock::thread_cpu_ns() < until_ns {}
    }

    #[test]
    fn a_short_stretch_is_taken_for_what_it_took() {
        let mut meter = CpuMeter::of_this_thread();
        assert_eq!(meter.stretch(99, 100), Cpu::AtMost(99));
    }

    #[test]
    fn a_long_stretch_is_measured_and_never_more_than_it_took() {
        let mut meter = CpuMeter::of_this_thread();
        burn(2_000_000);
        let Cpu::Measured(ns) = meter.stretch(1_000_000_000, 1) else {
            panic!("it is measured");
        };
        assert!((2_000_000..1_000_000_000).contains(&ns), "{ns}");
        burn(100_000);
        assert_eq!(meter.stretch(1_000, 1), Cpu::Measured(1_000));
    }

    #[test]
    fn what_short_stretches_were_given_is_kept_off_the_next_look() {
        let mut meter = CpuMeter::of_this_thread();
        burn(2_000_000);
        assert_eq!(
            meter.stretch(u64::MAX / 2, u64::MAX),
            Cpu::AtMost(u64::MAX / 2)
        );
        assert_eq!(meter.stretch(1_000_000, 1), Cpu::Measured(0));
    }
}
