//! Waits in an open queue: requests come as they like (Poisson), and wait for one of several like servers, first come
//! first served.
//!
//! | queue | mean | percentiles |
//! |---|---|---|
//! | M/M/k | exact (Erlang C) | exact |
//! | M/G/1 | exact (Pollaczek and Khinchine) | exact up to a grid: [`super::fifo`] |
//! | M/D/k | Cosmetatos 1975, bounded where there is little load: within some 2 % | exponential tail: some per cent |
//! | M/G/k | cv² <= 1: between M/D/k and M/M/k; above: Lee and Longton 1959 | exponential tail; worst where work is rare and huge |
//! | M/G/1-PS | exact for each size: [`shared`] | none is known in closed form: simulate |
//!
//! None of them knows switching costs, or arrivals in bursts. With an index of dispersion of I the wait grows by about
//! (I + cv²) / (1 + cv²) in heavy load (Kingman).

/// Requests, and what serves them. Stable while `utilisation` is below 1; otherwise waits are infinite.
#[derive(Clone, Copy, Debug)]
pub struct Queue {
    /// Arrivals in a unit of time.
    pub rate: f64,
    /// Mean time with a server.
    pub mean: f64,
    /// Variance of that time over its mean's square: 0 constant, 1 exponential.
    pub cv2: f64,
    pub servers: u32,
}

impl Queue {
    /// Share of the time that a server works.
    pub fn utilisation(self) -> f64 {
        self.rate * self.mean / f64::from(self.servers)
    }

    /// Share of requests that wait at all; exact for exponential times and for one server, and hardly different else.
    pub fn waits_frac(self) -> f64 {
        erlang_c(self.rate * self.mean, self.servers)
    }

    /// Mean wait. See the module.
    pub fn wait(self) -> f64 {
        let utilisation = self.utilisation();
        if utilisation >= 1.0 {
            return f64::INFINITY;
        }
        let servers = f64::from(self.servers);
        let exponential = self.waits_frac() * self.mean / (servers * (1.0 - utilisation));
        if self.servers == 1 || self.cv2 > 1.0 || utilisation == 0.0 {
            return exponential * (1.0 + self.cv2) / 2.0;
        }
        let beside = (servers - 1.0) * ((4.0 + 5.0 * servers).sqrt() - 2.0) / (16.0 * servers);
        let ratio = (1.0 + beside * (1.0 - utilisation) / utilisation) / 2.0;
        // With little load who waits does so for the first of k to end: D / (k + 1) against S / k.
        let constant = exponential * ratio.min(servers / (servers + 1.0));
        self.cv2 * exponential + (1.0 - self.cv2) * constant
    }

    /// The share of waits beyond a time, taken as exponential with the mean of those that wait: exact for M/M/k.
    pub fn tail(self) -> Tail {
        let waits = self.waits_frac();
        let mean = if waits > 0.0 {
            self.wait() / waits
        } else {
            0.0
        };
        Tail { waits, mean }
    }

    /// Share of latencies beyond `time` in M/M/k, exactly. `cv2` is not looked at.
    pub fn latency_beyond(self, time: f64) -> f64 {
        if self.utilisation() >= 1.0 {
            return 1.0;
        }
        let served = 1.0 / self.mean;
        let freed = f64::from(self.servers) * served - self.rate;
        let waits = self.waits_frac();
        let alone = (-served * time).exp();
        let waited = if (freed - served).abs() < 1e-9 * served {
            alone * (1.0 + served * time)
        } else {
            (freed * alone - served * (-freed * time).exp()) / (freed - served)
        };
        (1.0 - waits) * alone + waits * waited
    }
}

/// Waits of which a share is 0 and the rest exponential.
#[derive(Clone, Copy, Debug)]
pub struct Tail {
    /// Share that waits.
    pub waits: f64,
    /// Their mean wait.
    pub mean: f64,
}

impl Tail {
    /// Share of waits beyond `time`.
    pub fn beyond(self, time: f64) -> f64 {
        if time < 0.0 {
            1.0
        } else if self.mean <= 0.0 {
            0.0
        } else {
            self.waits * (-time / self.mean).exp()
        }
    }
}

/// The latency of a request that needs `size` by itself, where all that are there share one server evenly: x / (1 - ρ),
/// whatever the others need.
pub fn shared(size: f64, utilisation: f64) -> f64 {
    if utilisation < 1.0 {
        size / (1.0 - utilisation)
    } else {
        f64::INFINITY
    }
}

/// The share of requests that wait for one of `servers` when `offered` of them would be busy on average: Erlang's C.
///
/// By the recursion of Erlang's B, which adds and multiplies positive numbers only. Cost: some ns a server.
pub fn erlang_c(offered: f64, servers: u32) -> f64 {
    let servers_f = f64::from(servers);
    if offered >= servers_f {
        return 1.0;
    }
    let lost = (1..=servers).fold(1.0, |lost, server| {
        offered * lost / (f64::from(server) + offered * lost)
    });
    servers_f * lost / (servers_f - offered * (1.0 - lost))
}

/// The time that a share of 1 - `quantile` exceeds, of a share `beyond(time)` that falls from `beyond(0)`; 0 where that
/// is no more than that. `scale`: a time of the like of the answer.
pub fn quantile(quantile: f64, scale: f64, beyond: impl Fn(f64) -> f64) -> f64 {
    let left = 1.0 - quantile;
    if beyond(0.0) <= left {
        return 0.0;
    }
    let mut high = scale.max(f64::MIN_POSITIVE);
    while beyond(high) > left {
        high *= 2.0;
        if !high.is_finite() {
            return f64::INFINITY;
        }
    }
    let mut low = 0.0;
    // 1e-12 of the answer's octave.
    for _ in 0..44 {
        let middle = (low + high) / 2.0;
        if beyond(middle) > left {
            low = middle;
        } else {
            high = middle;
        }
    }
    high
}

/// Share of latencies beyond `time`: a wait, and then, independent of it, one of `times` as likely as any other.
pub fn after_wait(times: &[f64], time: f64, wait_beyond: impl Fn(f64) -> f64) -> f64 {
    let beyond = times.iter().map(|own| {
        if *own > time {
            1.0
        } else {
            wait_beyond(time - own)
        }
    });
    beyond.sum::<f64>() / times.len() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(utilisation: f64, cv2: f64, servers: u32) -> Queue {
        let rate = utilisation * f64::from(servers);
        Queue {
            rate,
            mean: 1.0,
            cv2,
            servers,
        }
    }

    fn near(found: f64, expected: f64, frac: f64) -> bool {
        (found - expected).abs() <= frac * expected.abs()
    }

    #[test]
    fn one_exponential_server_is_textbook() {
        for (utilisation, p99) in [(0.7, 15.35), (0.8, 23.03), (0.9, 46.05)] {
            let one = queue(utilisation, 1.0, 1);
            assert!(near(one.wait(), utilisation / (1.0 - utilisation), 1e-12));
            let found = quantile(0.99, 1.0, |time| one.latency_beyond(time));
            assert!(near(found, p99, 1e-3), "{found}");
        }
    }

    #[test]
    fn constant_work_waits_half_as_long() {
        assert!(near(queue(0.8, 0.0, 1).wait(), 2.0, 1e-12));
        let four = queue(0.8, 1.0, 4).wait();
        assert!(near(four, 0.7455, 1e-3), "{four}");
        assert!(near(queue(0.8, 0.0, 4).wait(), four / 2.0, 0.05));
        assert!(near(queue(0.8, 4.0, 4).wait(), four * 2.5, 1e-12));
        let idle = queue(0.01, 1.0, 16).wait();
        assert!(near(queue(0.01, 0.0, 16).wait(), idle * 16.0 / 17.0, 1e-9));
    }

    #[test]
    fn erlangs_c_is_the_published_one() {
        // Four lines, an offered load of three: 0.5094; of 3.6: 0.7878.
        assert!(near(erlang_c(3.0, 4), 0.5094, 1e-3));
        assert!(near(erlang_c(3.6, 4), 0.7878, 1e-3));
        assert_eq!(
            (erlang_c(0.0, 4), erlang_c(4.0, 4), erlang_c(9.0, 4)),
            (0.0, 1.0, 1.0)
        );
        assert!(near(erlang_c(0.7, 1), 0.7, 1e-12));
        assert!(erlang_c(950.0, 1_000) < 0.2);
    }

    #[test]
    fn two_equal_rates_are_no_division_by_nothing() {
        // k·mu - lambda = mu: one server's worth is free.
        let three = Queue {
            rate: 2.0,
            mean: 1.0,
            cv2: 1.0,
            servers: 3,
        };
        let beside = Queue {
            rate: 2.0 + 1e-6,
            ..three
        };
        assert!(near(
            three.latency_beyond(4.0),
            beside.latency_beyond(4.0),
            1e-5
        ));
    }

    #[test]
    fn what_is_full_waits_for_ever() {
        let full = queue(1.0, 1.0, 4);
        assert_eq!(
            (full.wait(), full.latency_beyond(1e9)),
            (f64::INFINITY, 1.0)
        );
        assert_eq!(
            quantile(0.5, 1.0, |time| full.latency_beyond(time)),
            f64::INFINITY
        );
        assert_eq!(shared(1.0, 1.0), f64::INFINITY);
        assert_eq!(shared(2.0, 0.5), 4.0);
    }

    #[test]
    fn nobody_waits_where_nobody_is() {
        let idle = queue(0.0, 0.0, 4);
        assert_eq!((idle.wait(), idle.tail().beyond(0.0)), (0.0, 0.0));
        assert_eq!(quantile(0.99, 1.0, |time| idle.tail().beyond(time)), 0.0);
    }

    #[test]
    fn a_latency_is_the_wait_and_then_its_own_time() {
        let wait = Tail {
            waits: 0.5,
            mean: 2.0,
        };
        let beyond = |time: f64| after_wait(&[1.0, 3.0], time, |time| wait.beyond(time));
        assert_eq!(beyond(0.5), 1.0);
        assert!(near(beyond(1.0), 0.75, 1e-12));
        assert!(near(
            beyond(3.0),
            (0.5 * (-1.0f64).exp() + 0.5) / 2.0,
            1e-12
        ));
    }
}
