//! The gang, for Python; `_native.pyi` is the manual. Here is what the program's own calls give when a member makes them.

use greenlane_methods::call::Call;
use greenlane_methods::table::{self, Owner, Rule};
use greenlane_permits::gang;
use greenlane_policy::gang::{Choice, Core, HandOver};
use pyo3::exceptions::PyValueError;
use pyo3::ffi::{self, PyObject};
use pyo3::prelude::*;
use std::path::PathBuf;

/// What a hand-over costs on one core and on two, ns, and whether one core pays.
type Cost = (u64, u64, bool);

/// Starts threads or programs, which use all cores.
struct Freely;
/// Gives the cores of a thread: of a member all.
struct Asked;
/// Sets them: who has chosen its cores is no member.
struct Chosen;

impl Rule for Freely {
    fn wants(&self) -> bool {
        gang::in_force().is_some()
    }

    unsafe fn see(&self, call: &Call<'_>) -> *mut PyObject {
        // SAFETY: within the call.
        gang::freely(|| unsafe { call.pass() })
    }
}

impl Rule for Asked {
    fn wants(&self) -> bool {
        gang::in_force().is_some()
    }

    unsafe fn see(&self, call: &Call<'_>) -> *mut PyObject {
        // SAFETY: within the call; the result is a new reference, or null with an error set.
        unsafe {
            let told = call.pass();
            if told.is_null() || ffi::PySet_Size(told) != 1 {
                return told;
            }
            if let Some((core, cores)) = gang::untold(thread_of(call)) {
                let py = Python::assume_attached();
                let set = Bound::from_borrowed_ptr(py, told);
                if set.contains(core).unwrap_or(false) {
                    for core in cores {
                        if set.call_method1("add", (core,)).is_err() {
                            break;
                        }
                    }
                }
            }
            told
        }
    }
}

impl Rule for Chosen {
    fn wants(&self) -> bool {
        gang::is_wanted()
    }

    unsafe fn see(&self, call: &Call<'_>) -> *mut PyObject {
        // SAFETY: within the call.
        unsafe {
            let told = call.pass();
            if !told.is_null() {
                gang::leave(thread_of(call));
            }
            told
        }
    }
}

/// The first argument; a call without one has raised.
///
/// # Safety
/// Within the call.
unsafe fn thread_of(call: &Call<'_>) -> i32 {
    call.argument(0, None)
        .and_then(super::blocking::number)
        .map_or(0, |number| number as i32)
}

/// See `_native.pyi`.
#[pyfunction]
pub fn gang_see(callable: &Bound<'_, PyAny>, rule: &str) -> PyResult<()> {
    let rule: Box<dyn Rule> = match rule {
        "starts" => Box::new(Freely),
        "asks" => Box::new(Asked),
        "chooses" => Box::new(Chosen),
        _ => return Err(PyValueError::new_err("no such rule")),
    };
    table::see(callable, Owner::Gang, rule).map_err(PyValueError::new_err)
}

/// See `_native.pyi`.
#[pyfunction]
pub fn gang_start(cores: Vec<u32>, always: bool, cache: Option<PathBuf>) {
    gang::start(gang::Rule {
        cores,
        always,
        cache,
    });
}

/// See `_native.pyi`.
#[pyfunction]
#[pyo3(signature = (watch=false))]
pub fn gang_stop(py: Python<'_>, watch: bool) {
    table::restore(Owner::Gang);
    py.detach(|| gang::stop(watch));
}

/// See `_native.pyi`.
#[pyfunction]
pub fn gang_join(py: Python<'_>) {
    gang::join_here(py);
}

/// See `_native.pyi`.
#[pyfunction]
pub fn gang_shown() -> (Option<u32>, &'static str) {
    gang::shown()
}

/// See `_native.pyi`.
#[pyfunction]
#[pyo3(signature = (cache, cores))]
pub fn hand_over(py: Python<'_>, cache: Option<PathBuf>, cores: Vec<u32>) -> Option<Cost> {
    let known = gang::load_or_measure(cache.as_deref());
    let cost = known.or_else(|| py.detach(|| gang::measure(&cores, cache.as_deref())));
    let flat = |cost: HandOver| (cost.one_core_ns, cost.two_cores_ns, cost.pays());
    cost.map(flat)
}

/// See `_native.pyi`.
#[pyclass(module = "greenlane._native")]
pub struct GangChoice(Choice);

#[pymethods]
impl GangChoice {
    #[new]
    fn new(always: bool) -> Self {
        Self(Choice::new(always))
    }

    fn look(&mut self, cores: Vec<(u32, f64, f64, bool)>) -> Option<u32> {
        self.0.look(&cores_of(cores));
        self.0.current()
    }

    fn glance(&mut self, cores: Vec<(u32, f64, f64, bool)>) -> Option<u32> {
        let cores = cores_of(cores);
        if self.0.is_crowded(&cores) {
            self.0.leave(&cores);
        }
        self.0.current()
    }

    fn disband(&mut self) {
        self.0.disband();
    }
}

fn cores_of(cores: Vec<(u32, f64, f64, bool)>) -> Vec<Core> {
    cores
        .into_iter()
        .map(|(number, foreign_frac, ours_frac, free)| Core {
            number,
            foreign_frac,
            ours_frac,
            free,
        })
        .collect()
}
