//! The production's rules with their settings, as a set-up brings them.

use super::at::{At, Read, MOST};
use crate::set_up::PermitRule;
use greenlane_policy::shed::ShedRule;
use greenlane_policy::weight::WeightRule;
use greenlane_policy::worker_concurrency::ConcurrencyRule;

pub fn permit_rule(at: &At<'_>) -> Read<PermitRule> {
    Ok(PermitRule {
        permits: at.of("permits").number(1.0, MOST)? as usize,
        weight: WeightRule {
            heavy_ns: at.of("heavy_ns").ns()?,
            least_ns: at.of("heavy_ns").ns()?,
            quantile: at.of("quantile").number(0.0, 1.0)?,
            margin: at.of("margin").number(0.0, MOST)?,
            learn_after: at.of("learn_after").number(0.0, MOST)? as u64,
        },
        wait_max_ns: at.of("wait_max_ns").ns()?,
        share_ns: at.of("share_ns").ns()?,
        interval_ns: (at.of("interval_s").number(1e-6, MOST)? * 1e9) as u64,
        phases: at.of("max_phases").number(1.0, MOST)? as usize,
    })
}

pub fn shed_rule(at: &At<'_>) -> Read<ShedRule> {
    Ok(ShedRule {
        waited_ns: at.of("waited_ns").ns()?,
        stands_ns: at.of("stands_ns").ns()?,
        stands_count: at.of("stands_count").number(0.0, MOST)? as u64,
        frac: at.of("frac").number(0.0, 1.0)?,
        most: at.of("most").number(0.0, 1.0)?,
    })
}

pub fn at_once_rule(at: &At<'_>) -> Read<ConcurrencyRule> {
    Ok(ConcurrencyRule {
        busy: at.of("busy").number(0.0, 1.0)?,
        least: at.of("least").number(1.0, MOST)? as u32,
        most: at.of("most").number(1.0, MOST)? as u32,
        gap_ns: at.of("gap_ns").ns()?,
        window_ns: at.of("window_ns").ns()?,
    })
}
