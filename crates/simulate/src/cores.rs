//! CPU that is being used: who computes until when, on a given number of cores.
//!
//! Who computes does so in *CPU time*, which all share fairly: with more of them than cores it passes more slowly than
//! the clock, for all alike. So a change of their number moves nobody's end, only the rate.

use super::heap::{Class, Heap};

/// Who computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stretch {
    /// A process, in the turn of this number.
    Process { process: u32, turn: u32 },
    /// A job without the GIL.
    Beside(u32),
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Cores {
    cores: u64,
    /// More may compute than there are cores; else CPU time is the clock's.
    scarce: bool,
    running: u64,
    /// CPU time at `since_ns`.
    cpu_ns: u64,
    since_ns: u64,
    ends: Heap<Stretch>,
}

impl Cores {
    /// `cores` 0 = as many as wanted; `most` may compute at once.
    pub fn new(cores: usize, most: usize) -> Self {
        Self {
            cores: cores.max(1) as u64,
            scarce: cores > 0 && most > cores,
            running: 0,
            cpu_ns: 0,
            since_ns: 0,
            ends: Heap::default(),
        }
    }

    /// The CPU time now.
    pub fn cpu_ns(&mut self, now_ns: u64) -> u64 {
        if !self.scarce {
            return now_ns;
        }
        let passed_ns = now_ns - self.since_ns;
        self.since_ns = now_ns;
        self.cpu_ns += if self.running > self.cores {
            passed_ns * self.cores / self.running
        } else {
            passed_ns
        };
        self.cpu_ns
    }

    /// One more computes.
    pub fn enter(&mut self, now_ns: u64) {
        self.cpu_ns(now_ns);
        self.running += 1;
    }

    /// One fewer.
    pub fn leave(&mut self, now_ns: u64) {
        self.cpu_ns(now_ns);
        self.running -= 1;
    }

    /// `who` has computed for `cpu_ns` from now on when [`Cores::pop`] gives it.
    pub fn until(&mut self, now_ns: u64, cpu_ns: u64, who: Stretch) {
        let end_ns = self.cpu_ns(now_ns) + cpu_ns;
        self.ends.push(end_ns, Class::Other, who);
    }

    /// When the next one has computed for as long as it said, by the clock; `u64::MAX` = nobody computes.
    pub fn next_at(&self) -> u64 {
        let end_ns = self.ends.next_at();
        if !self.scarce || end_ns == u64::MAX {
            return end_ns;
        }
        let rest_ns = end_ns.saturating_sub(self.cpu_ns);
        self.since_ns
            + if self.running > self.cores {
                (rest_ns * self.running).div_ceil(self.cores)
            } else {
                rest_ns
            }
    }

    /// Takes it out.
    pub fn pop(&mut self) -> Option<Stretch> {
        self.ends.pop()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_on_two_cores_pass_at_two_thirds() {
        let mut cores = Cores::new(2, 3);
        for job in 0..3 {
            cores.enter(0);
            cores.until(0, 100 * (u64::from(job) + 1), Stretch::Beside(job));
        }
        assert_eq!(cores.next_at(), 150);
        assert_eq!(cores.pop(), Some(Stretch::Beside(0)));
        cores.leave(150);
        assert_eq!(cores.next_at(), 250);
    }

    #[test]
    fn enough_cores_pass_with_the_clock() {
        let mut cores = Cores::new(0, 100);
        (0..5).for_each(|_| cores.enter(7));
        cores.until(7, 10, Stretch::Beside(1));
        assert_eq!(cores.next_at(), 17);
    }
}
