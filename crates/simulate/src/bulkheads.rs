//! Calls held back before their upstream, by the production's own rules (`greenlane_policy::upstream`): limits, breakers
//! and fair order for each key. A request is an order of the upstream that it calls first.

use super::model::Model;
use super::set_up;
use greenlane_policy::upstream::{self, Upstreams};

/// See the module.
#[derive(Debug)]
pub struct Bulkheads {
    pub(crate) upstreams: Upstreams,
    /// When somebody looks again though nothing happens, ns.
    pub(crate) looks_ns: u64,
}

impl Bulkheads {
    /// Nothing has arrived; an upstream with a limit has that one.
    pub fn new(model: &Model, rule: &set_up::Bulkheads) -> Self {
        let mut upstreams = Upstreams::new(rule.slots, rule.general.clone());
        for (upstream, &limit) in model.upstreams.iter().zip(&rule.limits) {
            if limit > 0 {
                let own = upstream::Rule {
                    limit,
                    ..rule.general.clone()
                };
                upstreams.set(upstream, 0, Some(own));
            }
        }
        Self {
            upstreams,
            looks_ns: u64::MAX,
        }
    }
}
