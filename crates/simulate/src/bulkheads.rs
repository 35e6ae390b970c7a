//! Calls held back before their upstream, by the production's own rules (`greenlane_policy::upstream`): limits, breakers
//! and fair order for each key. A request is an order of the upstream that it calls first.

use super::model::Model;
use greenlane_policy::upstream::{Rule, Upstreams};

/// See the module.
#[derive(Debug)]
pub struct Bulkheads {
    pub(crate) upstreams: Upstreams,
    /// When somebody looks again though nothing happens, ns.
    pub(crate) looks_ns: u64,
}

impl Bulkheads {
    /// Nothing has arrived. Everything is parked that may not begin: there is nowhere to send it to.
    pub fn new(model: &Model, slots: u32, limits: &[u32]) -> Self {
        let general = Rule {
            parked_most: u64::MAX,
            parked_most_bytes: u64::MAX,
            parked_most_ns: 0,
            ..Rule::default()
        };
        let mut upstreams = Upstreams::new(slots, general.clone());
        for (upstream, &limit) in model.upstreams.iter().zip(limits) {
            if limit > 0 {
                let own = Rule {
                    limit,
                    ..general.clone()
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
