//! What nothing can exceed: a closed loop of requests that take turns on one CPU and wait beside it.
//!
//! Asymptotic bounds of operational analysis (Denning and Buzen 1978). They hold for any distribution and any order that
//! gives each request one CPU at a time; they are reached only without any variance. CPU that runs beside this one (a
//! released GIL, another process) belongs to `io`.

/// What one request does: CPU, and I/O beside it; neither negative.
#[derive(Clone, Copy, Debug)]
pub struct Work {
    pub cpu: f64,
    pub io: f64,
}

impl Work {
    /// So many requests fill the CPU if none ever waits: 1 + I/O / CPU. Infinite without CPU.
    ///
    /// The same number is the largest speed-up of requests side by side against one after the other: Amdahl's
    /// 1 / (1 - p) with p = I/O / (CPU + I/O).
    pub fn knee(self) -> f64 {
        if self.cpu > 0.0 {
            (self.cpu + self.io) / self.cpu
        } else {
            f64::INFINITY
        }
    }

    /// The most that `number` requests in progress can end in a unit of time: min(N / (C+S), 1 / C).
    pub fn most(self, number: u32) -> f64 {
        let alone = self.cpu + self.io;
        let beside = if alone > 0.0 {
            f64::from(number) / alone
        } else {
            f64::INFINITY
        };
        if self.cpu > 0.0 {
            beside.min(1.0 / self.cpu)
        } else {
            beside
        }
    }

    /// The least mean latency of `number` requests in progress: max(C+S, N·C).
    pub fn least(self, number: u32) -> f64 {
        (self.cpu + self.io).max(f64::from(number) * self.cpu)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LYFT: Work = Work { cpu: 5.0, io: 55.0 };

    #[test]
    fn five_and_fifty_five_bend_at_twelve() {
        assert_eq!(LYFT.knee(), 12.0);
        assert_eq!(
            [1, 12, 13, 20, 50].map(|number| LYFT.least(number)),
            [60.0, 60.0, 65.0, 100.0, 250.0]
        );
        assert_eq!(
            [1, 12, 50].map(|number| LYFT.most(number)),
            [1.0 / 60.0, 0.2, 0.2]
        );
    }

    #[test]
    fn work_of_one_kind_has_bounds_too() {
        let waits = Work { cpu: 0.0, io: 50.0 };
        assert_eq!((waits.knee(), waits.most(4)), (f64::INFINITY, 0.08));
        let computes = Work { cpu: 5.0, io: 0.0 };
        assert_eq!((computes.knee(), computes.most(50)), (1.0, 0.2));
        let nothing = Work { cpu: 0.0, io: 0.0 };
        assert_eq!((nothing.most(1), nothing.least(9)), (f64::INFINITY, 0.0));
    }
}
