//! Whether a phase needs a CPU permit: learned from its bursts, pinned by its owner, or waived because it runs without
//! the GIL.

use crate::burst::{bucket_of, edge_ns, BurstSketch};

/// The rules by which a phase is judged.
#[derive(Clone, Copy, Debug)]
pub struct WeightRule {
    /// A phase is heavy when its expected burst is over this, ns.
    pub heavy_ns: u64,
    /// Or when it is over this one and much of its CPU is spent in bursts over `heavy_ns`, ns; the same where nothing is
    /// learned of others.
    pub least_ns: u64,
    /// The quantile of its recent bursts that counts as "expected" for that question. 0.9: heavy when more than about
    /// a tenth of its bursts are over `heavy_ns`, so that a cache that misses once in five still takes turns.
    pub quantile: f64,
    /// The expected burst is multiplied by this first; over 1 takes more phases in, under 1 fewer.
    pub margin: f64,
    /// Bursts to see before judging; until then the phase runs free.
    pub learn_after: u64,
}

/// What a phase is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weight {
    /// Not seen often enough: runs free.
    Unknown,
    /// Runs free.
    Light,
    /// Takes turns.
    Heavy,
    /// Heavy, but it computes without the GIL (numpy, zlib): it has nothing to take turns for.
    Native,
}

impl Weight {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Light => "light",
            Self::Heavy => "heavy",
            Self::Native => "native",
        }
    }
}

/// What the application or its owner said of a route.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pin {
    /// Nothing: learned.
    #[default]
    Auto,
    /// Its phases take turns from the first request on, except those learned to be trifles (a response's send).
    Heavy,
    /// Its phases never wait.
    Light,
    /// Nor do these, which compute without the GIL.
    Native,
}

/// A job that has used this many times the CPU of a heavy phase is no quick request. With 1, requests of 4.8 ms in four
/// phases took turns on slow cores, and lost the threads that are kept for light ones.
const WORKED: u64 = 3;
/// In such a job the next phases are heavy from this part of `heavy_ns` on: they would pass all heavy ones at each.
const WORKED_FRAC: f64 = 0.5;
/// Part of its CPU in long bursts from which a phase is not let go beyond `least_ns`: 8 ms, or 100 on a cache miss.
const MUCH_FRAC: f64 = 0.25;
/// Samples in a row on the other side of `heavy_ns` after which the past is mostly forgotten: behaviour has changed.
/// 32: a phase that is heavy one time in five gets there by chance once in 1,300 runs.
const CHANGED_AFTER: u32 = 32;
/// Part of the looks that must find a phase without the GIL before it counts as native, and below which it no longer
/// does. Both by more than chance, so that each run of a service comes to the same: what is without it in two looks of
/// three stays as it is.
const NATIVE_FRAC: f64 = 0.7;
const NATIVE_STAYS_FRAC: f64 = 0.5;
/// Looks at which both counts are halved.
const LOOKS_WINDOW: u32 = 256;

/// What is known of one (route, phase).
#[derive(Clone, Debug, Default)]
pub struct PhaseProfile {
    sketch: BurstSketch,
    /// Looks at this phase while it computed, and how many of them found it without the GIL.
    looks: u32,
    free: u32,
    native: bool,
    /// Samples in a row that contradict the present weight.
    contradicted: u32,
    /// Decided at the last update, so that asking costs nothing. The second: in a job that has computed for long.
    over: bool,
    over_in_worked: bool,
    long_ns: u64,
}

impl PhaseProfile {
    /// Takes in the CPU burst (ns) of one run.
    pub fn update(&mut self, burst_ns: u64, rule: &WeightRule) {
        self.sketch.update(burst_ns);
        let contradicts = (burst_ns > rule.heavy_ns) != self.over;
        self.contradicted = if contradicts {
            self.contradicted + 1
        } else {
            0
        };
        if self.contradicted >= CHANGED_AFTER {
            self.contradicted = 0;
            self.sketch.forget(3);
        }
        // One more short burst makes nothing heavy that was not.
        let was_light = !self.over && !self.over_in_worked && self.long_ns == 0;
        let longest_ns = edge_ns(bucket_of(burst_ns)) as f64 * rule.margin;
        if !was_light || longest_ns > rule.least_ns as f64 * WORKED_FRAC {
            self.judge(rule);
        }
    }

    /// Takes in looks at one run while it computed, and how many of them found it without the GIL.
    pub fn add_looks(&mut self, looks: u32, free: u32) {
        self.looks += looks;
        self.free += free;
        while self.looks >= LOOKS_WINDOW {
            self.looks /= 2;
            self.free /= 2;
        }
        let (looks, free) = (f64::from(self.looks), f64::from(self.free));
        self.native = match self.native {
            true => free > looks * NATIVE_STAYS_FRAC - looks.sqrt(),
            false => free > looks * NATIVE_FRAC + looks.sqrt(),
        };
    }

    /// What the phase is now, in a job that has used `attained_ns` of CPU.
    pub fn weight(&self, rule: &WeightRule, pin: Pin, attained_ns: u64) -> Weight {
        let over = match attained_ns >= WORKED * rule.heavy_ns {
            true => self.over_in_worked,
            false => self.over,
        };
        match pin {
            Pin::Light => Weight::Light,
            Pin::Heavy if self.is_no_trifle(rule) => Weight::Heavy,
            Pin::Native if self.is_no_trifle(rule) => Weight::Native,
            Pin::Heavy | Pin::Native => Weight::Light,
            Pin::Auto if self.sketch.samples() < rule.learn_after => Weight::Unknown,
            Pin::Auto if !over => Weight::Light,
            Pin::Auto if self.is_native() => Weight::Native,
            Pin::Auto => Weight::Heavy,
        }
    }

    /// Whether it computes without the GIL.
    pub fn is_native(&self) -> bool {
        self.native
    }

    /// Whether it may be more than a response's send.
    fn is_no_trifle(&self, rule: &WeightRule) -> bool {
        self.sketch.samples() < rule.learn_after
            || self.sketch.quantile_ns(rule.quantile) > rule.heavy_ns / 4
    }

    /// Expected burst, ns: the decayed mean.
    pub fn expected_ns(&self) -> u64 {
        self.sketch.mean_ns()
    }

    /// What it takes when it turns out heavy, ns; 0 = unknown. A loop's last round is long, its others are short.
    pub fn long_ns(&self) -> u64 {
        self.long_ns
    }

    /// The bursts seen.
    pub fn sketch(&self) -> &BurstSketch {
        &self.sketch
    }

    /// (looks while it computed, how many found it without the GIL), both decayed.
    pub fn looks(&self) -> (u32, u32) {
        (self.looks, self.free)
    }

    fn judge(&mut self, rule: &WeightRule) {
        let expected_ns = self.sketch.quantile_ns(rule.quantile) as f64 * rule.margin;
        self.over = expected_ns > rule.heavy_ns as f64
            || (expected_ns > rule.least_ns as f64
                && self.sketch.part_over(rule.heavy_ns) > MUCH_FRAC);
        self.over_in_worked = expected_ns > rule.heavy_ns as f64 * WORKED_FRAC;
        self.long_ns = self.sketch.mean_over_ns(rule.heavy_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULE: WeightRule = WeightRule {
        heavy_ns: 4_000_000,
        least_ns: 4_000_000,
        quantile: 0.9,
        margin: 1.0,
        learn_after: 3,
    };

    fn after(bursts_ns: &[u64]) -> PhaseProfile {
        let mut profile = PhaseProfile::default();
        for &burst in bursts_ns {
            profile.update(burst, &RULE);
        }
        profile
    }

    #[test]
    fn a_phase_is_unknown_until_learned() {
        assert_eq!(
            after(&[40_000_000; 2]).weight(&RULE, Pin::Auto, 0),
            Weight::Unknown
        );
        assert_eq!(
            after(&[40_000_000; 3]).weight(&RULE, Pin::Auto, 0),
            Weight::Heavy
        );
        assert_eq!(
            after(&[2_000_000; 3]).weight(&RULE, Pin::Auto, 0),
            Weight::Light
        );
    }

    #[test]
    fn a_cache_that_misses_once_in_five_takes_turns() {
        let bursts: Vec<u64> = (0..60)
            .map(|i| if i % 5 == 0 { 40_000_000 } else { 100_000 })
            .collect();
        assert_eq!(after(&bursts).weight(&RULE, Pin::Auto, 0), Weight::Heavy);
    }

    #[test]
    fn what_others_let_go_is_no_phase_with_a_cache_that_misses_now_and_then() {
        let raised = WeightRule {
            heavy_ns: 11_314_000,
            ..RULE
        };
        let weight = |miss_ms: u64| {
            let mut profile = PhaseProfile::default();
            (0..60).for_each(|i| {
                let ms = if i % 15 == 7 { miss_ms } else { 7 };
                profile.update(ms * 1_000_000, &raised);
            });
            profile.weight(&raised, Pin::Auto, 0)
        };
        assert_eq!(weight(7), Weight::Light);
        assert_eq!(weight(15), Weight::Light);
        assert_eq!(weight(100), Weight::Heavy);
    }

    #[test]
    fn a_rare_outlier_does_not() {
        let bursts: Vec<u64> = (0..60)
            .map(|i| if i == 30 { 40_000_000 } else { 100_000 })
            .collect();
        assert_eq!(after(&bursts).weight(&RULE, Pin::Auto, 0), Weight::Light);
    }

    #[test]
    fn a_middling_phase_takes_turns_in_a_job_that_has_computed_and_not_in_a_quick_one() {
        let middling = after(&[3_000_000; 20]);
        let weight = |attained_ns| middling.weight(&RULE, Pin::Auto, attained_ns);
        assert_eq!(weight(11_900_000), Weight::Light);
        assert_eq!(weight(12_000_000), Weight::Heavy);
        let short = after(&[1_500_000; 20]);
        assert_eq!(short.weight(&RULE, Pin::Auto, 90_000_000), Weight::Light);
    }

    #[test]
    fn a_phase_that_became_light_is_light_again_within_forty_runs() {
        let mut profile = after(&[40_000_000; 500]);
        for _ in 0..64 {
            profile.update(100_000, &RULE);
        }
        assert_eq!(profile.weight(&RULE, Pin::Auto, 0), Weight::Light);
    }

    #[test]
    fn a_phase_that_became_heavy_is_heavy_within_ten_runs() {
        let mut profile = after(&[100_000; 500]);
        for _ in 0..10 {
            profile.update(40_000_000, &RULE);
        }
        assert_eq!(profile.weight(&RULE, Pin::Auto, 0), Weight::Heavy);
    }

    #[test]
    fn what_computes_without_the_gil_is_native_after_a_dozen_looks_and_what_holds_it_never() {
        let mut native = after(&[40_000_000; 17]);
        (0..11).for_each(|_| native.add_looks(1, 1));
        assert_eq!(native.weight(&RULE, Pin::Auto, 0), Weight::Heavy);
        native.add_looks(1, 1);
        assert_eq!(native.weight(&RULE, Pin::Auto, 0), Weight::Native);
        let mut heavy = after(&[40_000_000; 17]);
        (0..400).for_each(|look| heavy.add_looks(1, u32::from(look % 3 == 0)));
        assert_eq!(heavy.weight(&RULE, Pin::Auto, 0), Weight::Heavy);
    }

    #[test]
    fn what_computes_two_thirds_of_its_time_without_the_gil_keeps_its_weight() {
        let mut heavy = after(&[40_000_000; 17]);
        (0..400).for_each(|_| heavy.add_looks(10, 6));
        assert_eq!(heavy.weight(&RULE, Pin::Auto, 0), Weight::Heavy);
        let mut native = after(&[40_000_000; 17]);
        native.add_looks(20, 20);
        (0..400).for_each(|_| native.add_looks(10, 6));
        assert_eq!(native.weight(&RULE, Pin::Auto, 0), Weight::Native);
        (0..40).for_each(|_| native.add_looks(10, 2));
        assert_eq!(native.weight(&RULE, Pin::Auto, 0), Weight::Heavy);
    }

    #[test]
    fn a_judgement_left_out_would_have_said_the_same() {
        let mut random = 1_u64;
        for (heavy_us, margin) in [(4_000, 1.0), (4_000, 4.0), (100, 1.0), (11_314, 1.0)] {
            let rule = WeightRule {
                heavy_ns: heavy_us * 1_000,
                least_ns: heavy_us.min(4_000) * 1_000,
                margin,
                ..RULE
            };
            let mut profile = PhaseProfile::default();
            for sample in 0..4_000 {
                random = random
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                // From 1 us to some 30 ms; in every other stretch of 200 up to 1 ms.
                let octaves = if sample / 200 % 2 == 0 { 10 } else { 15 };
                profile.update(1_000 << ((random >> 33) % octaves), &rule);
                let mut judged = profile.clone();
                judged.judge(&rule);
                assert_eq!(
                    (profile.over, profile.over_in_worked, profile.long_ns),
                    (judged.over, judged.over_in_worked, judged.long_ns),
                    "sample {sample} of {rule:?}"
                );
            }
        }
    }

    #[test]
    fn pins_win_but_a_heavy_route_keeps_its_trifles_free() {
        assert_eq!(after(&[]).weight(&RULE, Pin::Heavy, 0), Weight::Heavy);
        assert_eq!(
            after(&[50_000; 5]).weight(&RULE, Pin::Heavy, 0),
            Weight::Light
        );
        assert_eq!(
            after(&[2_000_000; 5]).weight(&RULE, Pin::Heavy, 0),
            Weight::Heavy
        );
        assert_eq!(
            after(&[40_000_000; 5]).weight(&RULE, Pin::Light, 0),
            Weight::Light
        );
        let native = |burst_ns| after(&[burst_ns; 5]).weight(&RULE, Pin::Native, 0);
        assert_eq!(native(40_000_000), Weight::Native);
        assert_eq!(native(50_000), Weight::Light);
    }
}
