//! Which order goes to its upstream next, for Python: the shell is `greenlane_work`.

use greenlane_policy::upstream::{
    KeyStatus as CoreLook, Outcome, Rule as CoreRule, Upstreams as CoreUpstreams,
};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The attributes of `greenlane_work.limits.UpstreamRule`, one for one.
#[derive(FromPyObject)]
pub struct Rule {
    limit: u32,
    first_limit: u32,
    least: u32,
    most_frac: f64,
    weight: u32,
    parked_most: u64,
    parked_most_bytes: u64,
    parked_most_ns: u64,
    all_parked_most: u64,
    all_parked_most_bytes: u64,
    failure_rate: f64,
    slow_call_rate: f64,
    slow_call_x: f64,
    slow_call_ns: u64,
    window: u32,
    least_calls: u32,
    probes: u32,
    open_ns: u64,
    open_growth: f64,
    open_most_ns: u64,
    probe_limit_ns: u64,
    seed: u64,
    forget_ns: u64,
    keys_most: u64,
}

impl From<Rule> for CoreRule {
    fn from(rule: Rule) -> Self {
        Self {
            limit: rule.limit,
            first_limit: rule.first_limit,
            least: rule.least,
            most_frac: rule.most_frac,
            weight: rule.weight,
            parked_most: rule.parked_most,
            parked_most_bytes: rule.parked_most_bytes,
            parked_most_ns: rule.parked_most_ns,
            all_parked_most: rule.all_parked_most,
            all_parked_most_bytes: rule.all_parked_most_bytes,
            failure_rate: rule.failure_rate,
            slow_call_rate: rule.slow_call_rate,
            slow_call_x: rule.slow_call_x,
            slow_call_ns: rule.slow_call_ns,
            window: rule.window,
            least_calls: rule.least_calls,
            probes: rule.probes,
            open_ns: rule.open_ns,
            open_growth: rule.open_growth,
            open_most_ns: rule.open_most_ns,
            probe_limit_ns: rule.probe_limit_ns,
            seed: rule.seed,
            forget_ns: rule.forget_ns,
            keys_most: rule.keys_most,
        }
    }
}

/// See `_native.pyi`.
#[pyclass(frozen, get_all, module = "greenlane._native")]
pub struct Start {
    order: u64,
    key: String,
    probe: bool,
    time_limit_ns: u64,
    breaker_ns: u64,
    limit_ns: u64,
    slots_ns: u64,
}

#[pymethods]
impl Start {
    fn __repr__(&self) -> String {
        let Self {
            order,
            key,
            probe,
            time_limit_ns,
            ..
        } = self;
        let probe = if *probe { "True" } else { "False" };
        format!("Start(order={order}, key={key:?}, probe={probe}, time_limit_ns={time_limit_ns})")
    }
}

/// See `_native.pyi`.
#[pyclass(frozen, get_all, module = "greenlane._native")]
pub struct KeyStatus {
    key: String,
    running: u32,
    parked: u64,
    parked_bytes: u64,
    oldest_ns: u64,
    limit: u32,
    breaker: &'static str,
    open_until_ns: u64,
    usual_ns: u64,
    failed_frac: f64,
    slow_frac: f64,
    started: u64,
    probes: u64,
    ok: u64,
    failed: u64,
    timed_out: u64,
    refused: u64,
    cancelled: u64,
    slow: u64,
    opened: u64,
    surplus: u64,
    expired: u64,
}

impl From<CoreLook> for KeyStatus {
    fn from(look: CoreLook) -> Self {
        let [ok, failed, timed_out, refused, cancelled] = look.counts.ended;
        Self {
            key: look.key,
            running: look.running,
            parked: look.parked,
            parked_bytes: look.parked_bytes,
            oldest_ns: look.oldest_ns,
            limit: look.limit,
            breaker: look.breaker,
            open_until_ns: look.open_until_ns,
            usual_ns: look.usual_ns,
            failed_frac: look.failed_frac,
            slow_frac: look.slow_frac,
            started: look.counts.started,
            probes: look.counts.probes,
            ok,
            failed,
            timed_out,
            refused,
            cancelled,
            slow: look.counts.slow,
            opened: look.counts.opened,
            surplus: look.counts.surplus,
            expired: look.counts.expired,
        }
    }
}

/// See `_native.pyi`.
#[pyclass(frozen, get_all, module = "greenlane._native")]
pub struct UpstreamTotals {
    slots: u32,
    running: u32,
    parked: u64,
    parked_bytes: u64,
    keys: u64,
    reserved: u32,
    common: bool,
}

/// See `_native.pyi`.
#[pyclass(frozen, module = "greenlane._native")]
pub struct Upstreams {
    upstreams: Mutex<CoreUpstreams>,
}

#[pymethods]
impl Upstreams {
    #[new]
    fn new(slots: u32, rule: Rule) -> Self {
        Self {
            upstreams: Mutex::new(CoreUpstreams::new(slots, rule.into())),
        }
    }

    #[pyo3(signature = (order, key, now_ns, size=0, deadline_ns=0))]
    fn arrive(&self, order: u64, key: &str, now_ns: u64, size: u64, deadline_ns: u64) -> bool {
        self.lock().arrive(order, key, now_ns, size, deadline_ns)
    }

    fn next(&self, now_ns: u64) -> Option<Start> {
        self.lock().next(now_ns).map(|start| Start {
            order: start.order,
            key: start.key.to_string(),
            probe: start.probe,
            time_limit_ns: start.time_limit_ns,
            breaker_ns: start.held.breaker_ns,
            limit_ns: start.held.limit_ns,
            slots_ns: start.held.slots_ns,
        })
    }

    fn ended(&self, order: u64, now_ns: u64, outcome: usize) -> PyResult<bool> {
        let Some(&outcome) = Outcome::ALL.get(outcome) else {
            return Err(PyValueError::new_err(format!("outcome {outcome}")));
        };
        Ok(self.lock().end(order, now_ns, outcome))
    }

    fn began(&self, order: u64, now_ns: u64, timed: bool) {
        self.lock().began(order, now_ns, timed);
    }

    fn wake_ns(&self, now_ns: u64) -> Option<u64> {
        self.lock().wake_ns(now_ns)
    }

    fn surplus(&self, now_ns: u64) -> Vec<u64> {
        self.lock().surplus(now_ns)
    }

    fn expired(&self, now_ns: u64) -> Vec<u64> {
        self.lock().take_expired(now_ns)
    }

    fn withdraw(&self, order: u64, now_ns: u64) -> bool {
        self.lock().withdraw(order, now_ns)
    }

    fn drain(&self, now_ns: u64) -> Vec<u64> {
        self.lock().drain(now_ns)
    }

    fn set(&self, key: &str, now_ns: u64, rule: Option<Rule>) {
        self.lock().set(key, now_ns, rule.map(Into::into));
    }

    fn lease(&self, key: &str, now_ns: u64, calls: Option<u32>) {
        self.lock().lease(key, now_ns, calls);
    }

    fn presume(&self, key: &str, now_ns: u64, usual_ns: u64) {
        self.lock().presume(key, now_ns, usual_ns);
    }

    fn probes_failed(&self, key: &str, now_ns: u64, open_ns: u64) {
        self.lock().probes_failed(key, now_ns, open_ns);
    }

    fn open(&self, key: &str, now_ns: u64) {
        self.lock().open(key, now_ns);
    }

    fn close(&self, key: &str, now_ns: u64) {
        self.lock().close(key, now_ns);
    }

    fn load(&self, key: &str) -> (u32, u64) {
        self.lock().load(key)
    }

    fn look(&self) -> Vec<KeyStatus> {
        self.lock().look().into_iter().map(Into::into).collect()
    }

    fn look_at(&self, key: &str) -> Option<KeyStatus> {
        self.lock().look_at(key).map(Into::into)
    }

    fn totals(&self) -> UpstreamTotals {
        let totals = self.lock().totals();
        UpstreamTotals {
            slots: totals.slots,
            running: totals.running,
            parked: totals.parked,
            parked_bytes: totals.parked_bytes,
            keys: totals.keys,
            reserved: totals.reserved,
            common: totals.common,
        }
    }
}

impl Upstreams {
    /// Never waits for long, and never for the GIL: nothing of Python runs under it.
    fn lock(&self) -> MutexGuard<'_, CoreUpstreams> {
        self.upstreams
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}
