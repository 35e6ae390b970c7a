//! Which routes compute for so long that they go to a lane apart: learned, with hysteresis.
//!
//! By mean CPU of a request: what a request keeps from others of its worker, beside what it waits for.

use std::collections::HashMap;

/// Requests of one route that have ended: sums.
#[derive(Clone, Copy, Debug, Default)]
pub struct RouteTotals {
    pub jobs: u64,
    pub cpu_ns: u64,
}

/// What is decided by.
#[derive(Clone, Copy, Debug)]
pub struct HeavyRouteRule {
    /// A route goes apart when its mean CPU is over this, ns, and comes back when it is under half of it.
    pub over_ns: u64,
    /// Requests to see before it is judged.
    pub learn_after: u64,
}

/// Routes that are known; further ones are never apart. Arbitrary.
const MOST_ROUTES: usize = 1024;
/// Requests of a route beyond which its past is halved.
const WINDOW: u64 = 256;
/// Looks in a row that must ask for a change.
const HELD: u32 = 2;

#[derive(Clone, Copy, Debug, Default)]
struct RouteMean {
    jobs: u64,
    cpu_ns: u64,
    apart: bool,
    against: u32,
}

/// See the module.
#[derive(Clone, Debug)]
pub struct HeavyRouteLane {
    rule: HeavyRouteRule,
    routes: HashMap<String, RouteMean>,
}

impl HeavyRouteLane {
    /// Of an application of which nothing is known.
    pub fn new(rule: HeavyRouteRule) -> Self {
        Self {
            rule,
            routes: HashMap::new(),
        }
    }

    /// Takes in what has ended since the last call. Gives whether a route went or came back.
    pub fn look<'a>(&mut self, ended: impl IntoIterator<Item = (&'a str, RouteTotals)>) -> bool {
        let mut changed = false;
        for (route, one) in ended {
            if one.jobs == 0
                || (self.routes.len() >= MOST_ROUTES && !self.routes.contains_key(route))
            {
                continue;
            }
            let known = self.routes.entry(route.to_owned()).or_default();
            known.jobs += one.jobs;
            known.cpu_ns += one.cpu_ns;
            changed |= known.judge(&self.rule);
            while known.jobs > WINDOW {
                known.jobs /= 2;
                known.cpu_ns /= 2;
            }
        }
        changed
    }

    /// The routes apart, by name, with their mean CPU, ns.
    pub fn routes(&self) -> Vec<(&str, u64)> {
        let apart = self.routes.iter().filter(|(_, known)| known.apart);
        let mut rows: Vec<_> = apart
            .map(|(route, known)| (route.as_str(), known.cpu_ns / known.jobs.max(1)))
            .collect();
        rows.sort_unstable();
        rows
    }
}

impl RouteMean {
    fn judge(&mut self, rule: &HeavyRouteRule) -> bool {
        if self.jobs < rule.learn_after.max(1) {
            return false;
        }
        let mean_ns = self.cpu_ns / self.jobs;
        let asks = if self.apart {
            mean_ns < rule.over_ns / 2
        } else {
            mean_ns > rule.over_ns
        };
        self.against = if asks { self.against + 1 } else { 0 };
        let changes = self.against >= HELD;
        if changes {
            self.apart = !self.apart;
            self.against = 0;
        }
        changes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;
    const RULE: HeavyRouteRule = HeavyRouteRule {
        over_ns: 20 * MS,
        learn_after: 10,
    };

    fn of(jobs: u64, cpu_ms: u64) -> RouteTotals {
        RouteTotals {
            jobs,
            cpu_ns: jobs * cpu_ms * MS,
        }
    }

    #[test]
    fn a_route_goes_at_the_second_look_and_comes_back_under_half() {
        let mut apart = HeavyRouteLane::new(RULE);
        assert!(!apart.look([("GET /hog", of(10, 30)), ("GET /bike", of(100, 1))]));
        assert!(apart.look([("GET /hog", of(10, 30))]));
        assert_eq!(apart.routes(), [("GET /hog", 30 * MS)]);
        for _ in 0..20 {
            assert!(!apart.look([("GET /hog", of(100, 12))])); // between half and all of it: it stays
        }
        let back = (0..20).position(|_| apart.look([("GET /hog", of(100, 2))]));
        assert!(back.is_some());
        assert!(apart.routes().is_empty());
    }

    #[test]
    fn few_requests_are_no_reason() {
        let mut apart = HeavyRouteLane::new(RULE);
        for _ in 0..9 {
            assert!(!apart.look([("GET /hog", of(1, 500))]));
        }
        assert!(!apart.look([("GET /hog", of(1, 500))]));
        assert!(apart.look([("GET /hog", of(1, 500))]));
    }

    #[test]
    fn a_look_without_requests_changes_nothing() {
        let mut apart = HeavyRouteLane::new(RULE);
        apart.look([("GET /hog", of(10, 30))]);
        assert!(!apart.look([("GET /hog", of(0, 0))]));
        assert!(apart.routes().is_empty());
    }
}
