//! Where a placed function's calls run, for Python: the shell is `greenlane/placement`.
//!
//! What to do with a call crosses as one small number, since this stands on the path of every call.

use greenlane_policy::choosing::{ChoiceRule, Chooser as CoreChooser, Measured, Next, Place, Why};
use greenlane_policy::weight::{Pin, WeightRule};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::sync::{Mutex, MutexGuard, PoisonError};

const TRIED: u8 = 4;
const MEASURE: u8 = 8;
const INSPECT: u8 = 16;
const PREPARE: u8 = 32;

/// (place, why, settled, weight, calls, expected ns)
type Chosen = (&'static str, &'static str, bool, &'static str, u64, u64);

/// See `_native.pyi`.
#[pyclass(frozen, module = "greenlane._native")]
pub struct Chooser {
    rule: ChoiceRule,
    chooser: Mutex<CoreChooser>,
}

#[pymethods]
impl Chooser {
    #[new]
    #[pyo3(signature = (*, light_ns, quantile, margin, learn_after, inline, process, budget_ns, workers))]
    #[allow(clippy::too_many_arguments)] // named, and all of one rule
    fn new(
        light_ns: u64,
        quantile: f64,
        margin: f64,
        learn_after: u64,
        inline: bool,
        process: bool,
        budget_ns: u64,
        workers: u64,
    ) -> Self {
        Self {
            rule: ChoiceRule {
                call: WeightRule {
                    heavy_ns: light_ns,
                    least_ns: light_ns,
                    quantile,
                    margin,
                    learn_after,
                },
                inline,
                process,
                budget_ns,
                workers,
            },
            chooser: Mutex::default(),
        }
    }

    fn next(&self, now_ns: u64) -> u8 {
        packed(self.locked().next(now_ns, &self.rule))
    }

    #[pyo3(signature = (next, now_ns, *, took_ns, ran_ns, cpu_ns=0, lag_ns=None, released=None, computed=false, crowd=0))]
    #[allow(clippy::too_many_arguments)] // named, and all of one call
    fn observe(
        &self,
        next: u8,
        now_ns: u64,
        took_ns: u64,
        ran_ns: u64,
        cpu_ns: u64,
        lag_ns: Option<u64>,
        released: Option<u64>,
        computed: bool,
        crowd: u64,
    ) {
        let cost = Measured {
            took_ns,
            ran_ns,
            cpu_ns,
            lag_ns,
            released,
            computed,
            crowd,
        };
        self.locked()
            .observe(unpacked(next), &cost, now_ns, &self.rule);
    }

    fn ran_inline(&self, took_ns: u64) {
        self.locked().ran_inline(took_ns, &self.rule);
    }

    fn lost(&self, next: u8) {
        self.locked().lost(unpacked(next));
    }

    fn inspected(&self, kept_ns: u64) {
        self.locked().inspected(kept_ns);
    }

    fn ready(&self) {
        self.locked().ready();
    }

    fn refuse(&self, now_ns: u64) {
        self.locked().refuse(now_ns);
    }

    fn forked(&self) {
        self.locked().forked();
    }

    fn restore(&self, place: &str, why: &str, took_ns: u64, now_ns: u64) -> PyResult<()> {
        let (Some(place), Some(why)) = (Place::named(place), Why::named(why)) else {
            return Err(PyValueError::new_err(format!("{place}, {why}")));
        };
        self.locked()
            .restore(place, why, took_ns, now_ns, &self.rule);
        Ok(())
    }

    fn chosen(&self) -> Chosen {
        let chooser = self.locked();
        let (place, why) = chooser.chosen();
        let profile = chooser.profile();
        (
            place.name(),
            why.name(),
            chooser.settled(),
            profile.weight(&self.rule.call, Pin::Auto).name(),
            profile.samples(),
            profile.expected_ns(),
        )
    }

    fn seen(&self) -> Vec<(usize, u64, u64)> {
        let chooser = self.locked();
        Place::ALL.map(|place| chooser.seen(place)).to_vec()
    }

    fn weighed(&self) -> Vec<(u64, u64)> {
        self.locked().weighed().to_vec()
    }

    fn costs(&self) -> (u64, u64, u64) {
        self.locked().costs()
    }
}

impl Chooser {
    /// Never waits for long, and never for the GIL: nothing of Python runs under it.
    fn locked(&self) -> MutexGuard<'_, CoreChooser> {
        self.chooser.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn packed(next: Next) -> u8 {
    let flag = |set: bool, bit: u8| if set { bit } else { 0 };
    next.place as u8
        | flag(next.tried, TRIED)
        | flag(next.measure, MEASURE)
        | flag(next.inspect, INSPECT)
        | flag(next.prepare, PREPARE)
}

fn unpacked(next: u8) -> Next {
    Next {
        place: Place::ALL[usize::from(next & 3).min(2)],
        tried: next & TRIED != 0,
        measure: next & MEASURE != 0,
        inspect: next & INSPECT != 0,
        prepare: next & PREPARE != 0,
    }
}
