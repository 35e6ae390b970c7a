//! Exact means of closed loops: so many requests are in progress, and one that ends is followed by the next at once.
//!
//! Mean value analysis (Reiser and Lavenberg, JACM 27, 1980): who comes to a station finds there what would be there on
//! average with one request fewer. It holds for networks of product form: stations that serve first come first served
//! with exponential bursts of one mean for all, or that share their time evenly, with any bursts; and delays of any
//! distribution. Constant work needs fewer requests than it says (down to the bounds of [`super::asymptotes`]), work
//! that varies more waits longer under first come first served. Means say nothing of percentiles.

/// Means with one CPU and a delay.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Means {
    /// Ended in a unit of time.
    pub per: f64,
    /// From coming to the CPU until leaving it, all visits of a request together.
    pub response: f64,
    /// At the CPU: computing, or waiting for it.
    pub at_cpu: f64,
}

/// The means with 1, 2, 3 … requests in progress, of one CPU and a delay. They do not depend on how many bursts `cpu` is
/// cut into. Cost: some ns each.
pub fn one_cpu(cpu: f64, delay: f64) -> impl Iterator<Item = Means> {
    let mut at_cpu = 0.0;
    (1u32..).map(move |number| {
        let response = cpu * (1.0 + at_cpu);
        // Nothing to do at all takes no time, which no rate can say.
        let per = f64::from(number) / (response + delay).max(1e-9);
        at_cpu = per * response;
        Means {
            per,
            response,
            at_cpu,
        }
    })
}

/// What requests of a network visit. `demand`: its time with it, all visits together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Station {
    /// One queue for `servers` like servers (at least 1): processes behind a central queue, a pool of connections.
    Servers { demand: f64, servers: u32 },
    /// As many as come at once: a network, an upstream without a limit.
    Delay { demand: f64 },
}

/// Means of a network.
#[derive(Clone, Debug, PartialEq)]
pub struct NetworkMeans {
    pub per: f64,
    /// A whole turn of a request.
    pub latency: f64,
    /// At each station, waiting ones included; they add up to the requests in progress.
    pub at: Vec<f64>,
}

/// Means with 1, 2 … `number` requests in progress, of any stations.
///
/// Throughput by convolution (Buzen, CACM 16, 1973), in logarithms: the recursion of mean values loses its digits where
/// several servers are busy. Queues by mean values. Cost: stations × `number`² × about 10 ns, and again for each station
/// with several servers.
pub fn network(stations: &[Station], number: u32) -> Vec<NetworkMeans> {
    let most = number as usize;
    let all = constants(stations, most);
    let mut queues: Vec<Queue> = (0..stations.len())
        .map(|index| Queue::new(stations, index, most))
        .collect();
    (1..=most)
        .map(|now| {
            let per = (all[now - 1] - all[now]).exp();
            let at: Vec<f64> = queues
                .iter_mut()
                .map(|queue| queue.step(now, per, all[now]))
                .collect();
            NetworkMeans {
                per,
                latency: now as f64 / per,
                at,
            }
        })
        .collect()
}

/// One station while the number of requests grows.
struct Queue {
    demand: f64,
    /// 0 = a delay.
    servers: u32,
    at: f64,
    /// Shares of the time with 0, 1 … requests, below `servers`.
    shares: Vec<f64>,
    /// Logarithms of the normalising constants of the other stations; empty with fewer than two servers.
    others: Vec<f64>,
}

impl Queue {
    fn new(stations: &[Station], index: usize, most: usize) -> Self {
        let (demand, servers) = match stations[index] {
            Station::Servers { demand, servers } => (demand, servers.max(1)),
            Station::Delay { demand } => (demand, 0),
        };
        let several = servers > 1;
        let others = several.then(|| {
            let others: Vec<Station> = [&stations[..index], &stations[index + 1..]].concat();
            constants(&others, most)
        });
        let mut shares = vec![0.0; if several { servers as usize } else { 0 }];
        if let Some(empty) = shares.first_mut() {
            *empty = 1.0;
        }
        Self {
            demand,
            servers,
            at: 0.0,
            shares,
            others: others.unwrap_or_default(),
        }
    }

    /// On to `now` requests in all, of which `per` end in a unit of time; gives how many are here.
    fn step(&mut self, now: usize, per: f64, all: f64) -> f64 {
        if self.servers == 0 {
            return per * self.demand;
        }
        let servers = f64::from(self.servers);
        // Places that one who comes finds free shorten its wait.
        let free: f64 = self
            .shares
            .iter()
            .enumerate()
            .map(|(here, share)| (servers - 1.0 - here as f64).max(0.0) * share)
            .sum();
        self.at = per * self.demand / servers * (1.0 + self.at + free);
        for here in (1..self.shares.len()).rev() {
            self.shares[here] = self.shares[here - 1] * per * self.demand / here as f64;
        }
        if let Some(empty) = self.shares.first_mut() {
            *empty = (self.others[now] - all).exp();
        }
        self.at
    }
}

/// Logarithms of the normalising constants with 0, 1 … `most` requests.
fn constants(stations: &[Station], most: usize) -> Vec<f64> {
    let mut found = vec![f64::NEG_INFINITY; most + 1];
    found[0] = 0.0;
    for station in stations {
        let weights = weights(*station, most);
        found = (0..=most)
            .map(|all| {
                let part = |here: usize| weights[here] + found[all - here];
                let top = (0..=all).map(part).fold(f64::NEG_INFINITY, f64::max);
                if top == f64::NEG_INFINITY {
                    return top;
                }
                top + (0..=all)
                    .map(|here| (part(here) - top).exp())
                    .sum::<f64>()
                    .ln()
            })
            .collect();
    }
    found
}

/// Logarithms of a station's weights with 0, 1 … `most` requests at it.
fn weights(station: Station, most: usize) -> Vec<f64> {
    let (demand, servers) = match station {
        Station::Servers { demand, servers } => (demand, f64::from(servers.max(1))),
        Station::Delay { demand } => (demand, f64::INFINITY),
    };
    let mut found = Vec::with_capacity(most + 1);
    found.push(0.0);
    for here in 1..=most {
        let served = (here as f64).min(servers);
        found.push(found[here - 1] + demand.ln() - served.ln());
    }
    found
}

/// Requests of one kind.
#[derive(Clone, Debug)]
pub struct Class {
    /// In progress, always.
    pub number: u32,
    /// Time that a request spends beside all stations.
    pub delay: f64,
    /// Time that it needs of each station, one server each.
    pub demands: Vec<f64>,
}

/// Means of one class among others.
#[derive(Clone, Debug, PartialEq)]
pub struct ClassMeans {
    pub per: f64,
    pub latency: f64,
    /// Of this class at each station.
    pub at: Vec<f64>,
}

/// States times stations up to which several classes are computed: 32 MB, about 0.1 s.
pub const MOST_CELLS: usize = 4 << 20;

/// Exact means of several classes; `None`: more than [`MOST_CELLS`], which is what a simulation is for.
///
/// Every class has the same stations. Beyond the module's conditions, first come first served with other bursts for each
/// class is not of product form: then it is what an even share of the CPU would give.
pub fn classes(classes: &[Class]) -> Option<Vec<ClassMeans>> {
    let stations = classes.first()?.demands.len();
    let mut strides = Vec::with_capacity(classes.len());
    let mut states = 1usize;
    for class in classes {
        strides.push(states);
        states = states.checked_mul(class.number as usize + 1)?;
    }
    if states.checked_mul(stations.max(1))? > MOST_CELLS {
        return None;
    }
    // Requests of all classes at each station, for each state.
    let mut at = vec![0.0; states * stations];
    let mut last = vec![
        ClassMeans {
            per: 0.0,
            latency: 0.0,
            at: vec![0.0; stations]
        };
        classes.len()
    ];
    for state in 1..states {
        let mut here = vec![0.0; stations];
        for ((class, stride), means) in classes.iter().zip(&strides).zip(&mut last) {
            let number = state / stride % (class.number as usize + 1);
            if number == 0 {
                *means = ClassMeans {
                    per: 0.0,
                    latency: 0.0,
                    at: vec![0.0; stations],
                };
                continue;
            }
            let found = &at[(state - stride) * stations..][..stations];
            let stays = || {
                class
                    .demands
                    .iter()
                    .zip(found)
                    .map(|(demand, ahead)| demand * (1.0 + ahead))
            };
            means.latency = class.delay + stays().sum::<f64>();
            means.per = number as f64 / means.latency.max(1e-9);
            for (station, stay) in stays().enumerate() {
                means.at[station] = means.per * stay;
                here[station] += means.at[station];
            }
        }
        at[state * stations..][..stations].copy_from_slice(&here);
    }
    Some(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(found: f64, expected: f64, frac: f64) -> bool {
        (found - expected).abs() <= frac * expected.abs()
    }

    #[test]
    fn one_cpu_has_the_published_means() {
        let rows: Vec<Means> = one_cpu(5.0, 55.0).take(50).collect();
        for (number, per_s, latency) in [
            (1, 16.667, 60.0),
            (5, 80.515, 62.1),
            (11, 158.8, 69.27),
            (12, 168.221, 71.335),
            (20, 199.0, 100.5),
            (50, 200.0, 250.0),
        ] {
            let means = rows[number - 1];
            assert!(near(1000.0 * means.per, per_s, 1e-3), "{number}: {means:?}");
            assert!(
                near(means.response + 55.0, latency, 1e-3),
                "{number}: {means:?}"
            );
        }
    }

    #[test]
    fn a_network_of_one_cpu_and_a_delay_is_the_same() {
        let stations = [
            Station::Servers {
                demand: 5.0,
                servers: 1,
            },
            Station::Delay { demand: 55.0 },
        ];
        for (means, one) in network(&stations, 60).iter().zip(one_cpu(5.0, 55.0)) {
            assert!(near(means.per, one.per, 1e-9));
            assert!(near(means.at[0], one.at_cpu, 1e-9));
        }
    }

    /// Two servers, by hand: 3 requests, demand 2, no delay; a third always waits for one of two.
    #[test]
    fn two_servers_do_two_at_once() {
        let rows = network(
            &[Station::Servers {
                demand: 2.0,
                servers: 2,
            }],
            3,
        );
        let per: Vec<f64> = rows.iter().map(|means| means.per).collect();
        assert!(near(per[0], 0.5, 1e-12) && near(per[1], 1.0, 1e-12) && near(per[2], 1.0, 1e-12));
        assert!(near(rows[2].latency, 3.0, 1e-12));
    }

    /// The machine repairman: of N machines, each up for a time of mean Z, are repaired by c men: a birth-death chain.
    #[test]
    fn several_servers_agree_with_the_chain_that_they_are() {
        let (demand, delay, servers) = (4.0, 10.0, 3u32);
        let stations = [
            Station::Delay { demand: delay },
            Station::Servers { demand, servers },
        ];
        for (index, means) in network(&stations, 40).iter().enumerate() {
            let number = index + 1;
            let mut weights = vec![1.0];
            for here in 1..=number {
                let up = (number - here + 1) as f64 / delay;
                let down = here.min(servers as usize) as f64 / demand;
                weights.push(weights[here - 1] * up / down);
            }
            let all: f64 = weights.iter().sum();
            let mean_of = |value: &dyn Fn(usize) -> f64| {
                weights
                    .iter()
                    .enumerate()
                    .map(|(here, weight)| value(here) * weight)
                    .sum::<f64>()
                    / all
            };
            let per = mean_of(&|here| here.min(servers as usize) as f64 / demand);
            assert!(near(means.per, per, 1e-9), "{number}");
            assert!(
                near(means.at[1], mean_of(&|here| here as f64), 1e-9),
                "{number}"
            );
            assert!(near(means.at.iter().sum(), number as f64, 1e-9));
        }
    }

    #[test]
    fn long_delays_and_many_requests_keep_their_digits() {
        let stations = [
            Station::Servers {
                demand: 1.0,
                servers: 16,
            },
            Station::Delay { demand: 1e4 },
            Station::Servers {
                demand: 0.5,
                servers: 1,
            },
        ];
        let rows = network(&stations, 600);
        assert!(rows.iter().enumerate().all(|(index, means)| {
            near(means.at.iter().sum(), (index + 1) as f64, 1e-6) && means.per <= 2.0 + 1e-9
        }));
    }

    #[test]
    fn a_station_that_nobody_needs_is_not_there() {
        let with = network(
            &[
                Station::Servers {
                    demand: 5.0,
                    servers: 1,
                },
                Station::Servers {
                    demand: 0.0,
                    servers: 2,
                },
            ],
            3,
        );
        assert!(near(with[2].per, 0.2, 1e-12));
        assert_eq!(with[2].at[1], 0.0);
    }

    fn class(number: u32, delay: f64, demands: &[f64]) -> Class {
        Class {
            number,
            delay,
            demands: demands.to_vec(),
        }
    }

    #[test]
    fn like_classes_are_one_class() {
        let both = classes(&[class(4, 55.0, &[5.0]), class(8, 55.0, &[5.0])]).unwrap();
        let one = one_cpu(5.0, 55.0).nth(11).unwrap();
        assert!(near(both[0].per + both[1].per, one.per, 1e-9));
        assert!(near(both[0].latency, one.response + 55.0, 1e-9));
        assert!(near(both[0].at[0] + both[1].at[0], one.at_cpu, 1e-9));
    }

    /// Two classes, one request of each, one shared CPU: three states of who computes, solved by hand.
    ///
    /// a: demand 1, delay 1; b: demand 2, delay 2. Alone both would be at the CPU half of the time.
    #[test]
    fn two_classes_agree_with_the_chain_that_they_are() {
        let found = classes(&[class(1, 1.0, &[1.0]), class(1, 2.0, &[2.0])]).unwrap();
        // At the CPU: nobody, a, b, both; product form: 1, Da/Za, Db/Zb, 2 * (Da/Za) * (Db/Zb).
        let (both, all) = (2.0, 5.0);
        assert!(near(found[0].per, (1.0 + both / 2.0) / all, 1e-12));
        assert!(near(found[1].per, (1.0 + both / 2.0) / all / 2.0, 1e-12));
    }

    #[test]
    fn more_than_can_be_computed_is_said() {
        let many = class(400, 1.0, &[1.0]);
        assert!(classes(&[many.clone(), many.clone(), many]).is_none());
        assert!(classes(&[]).is_none());
    }

    #[test]
    fn a_class_of_nobody_does_nothing() {
        let found = classes(&[class(0, 1.0, &[1.0]), class(2, 0.0, &[1.0])]).unwrap();
        assert_eq!((found[0].per, found[1].per), (0.0, 1.0));
    }
}
