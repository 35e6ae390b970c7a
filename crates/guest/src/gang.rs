//! The gang, for Python; `_native.pyi` is the manual. Here is what the program's calls say when a member makes them.

use greenlane_methods::call::Call;
use greenlane_methods::table::{self, Owner, Rule};
use greenlane_permits::gang;
use greenlane_policy::gang::{Choice, Core, HandOver, Verdict};
use pyo3::exceptions::PyValueError;
use pyo3::ffi::{self, PyObject};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

/// What a hand-over costs on one core and on two, ns, and whether one core pays.
type Cost = (u64, u64, bool);

/// Starts threads or programs, which use all cores.
struct Freely;
/// Tells which cores a thread uses: a member all.
struct Asked;
/// Sets them: who has chosen its cores is no member.
struct Chosen;

impl Rule for Freely {
    fn wants(&self) -> bool {
        gang::in_force().is_some()
    }

    unsafe fn seen(&self, call: &Call<'_>) -> *mut PyObject {
        // SAFETY: within the call.
        gang::freely(|| unsafe { call.pass() })
    }
}

impl Rule for Asked {
    fn wants(&self) -> bool {
        gang::in_force().is_some()
    }

    unsafe fn seen(&self, call: &Call<'_>) -> *mut PyObject {
        // SAFETY: within the call; the result is a new reference, or null with an error set.
        unsafe {
            let told = call.pass();
            let thread = thread_of(call);
            let (Some(core), Some(allowed)) = (gang::in_force(), gang::allowed()) else {
                return told;
            };
            if told.is_null() || ffi::PySet_Size(told) != 1 || !gang::is_member(thread) {
                return told;
            }
            let number = ffi::PyLong_FromUnsignedLong(core.into());
            if ffi::PySet_Contains(told, number) == 1 {
                for core in allowed.numbers() {
                    let number = ffi::PyLong_FromUnsignedLong(core.into());
                    ffi::PySet_Add(told, number);
                    ffi::Py_XDECREF(number);
                }
            }
            ffi::Py_XDECREF(number);
            told
        }
    }
}

impl Rule for Chosen {
    fn wants(&self) -> bool {
        gang::is_wanted()
    }

    unsafe fn seen(&self, call: &Call<'_>) -> *mut PyObject {
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
/// Within the call, which has succeeded or set an error.
unsafe fn thread_of(call: &Call<'_>) -> i32 {
    call.argument(0, None)
        .and_then(super::blocking::number)
        .map_or(0, |number| number as i32)
}

/// See `_native.pyi`.
#[pyfunction]
pub fn gang_see(callable: &Bound<'_, PyAny>, rule: &str) -> PyResult<()> {
    let rule: Box<dyn Rule> = match rule {
        "freely" => Box::new(Freely),
        "asked" => Box::new(Asked),
        "chosen" => Box::new(Chosen),
        _ => return Err(PyValueError::new_err("no such rule")),
    };
    table::see(callable, Owner::Gang, rule).map_err(PyValueError::new_err)
}

/// See `_native.pyi`.
#[pyfunction]
pub fn gang_put_back() {
    table::put_back(Owner::Gang);
}

/// See `_native.pyi`.
#[pyfunction]
pub fn gang_start(py: Python<'_>, cores: Vec<u32>, always: bool) {
    gang::start(py, cores, always);
}

/// See `_native.pyi`.
#[pyfunction]
pub fn gang_stop(py: Python<'_>) {
    py.detach(gang::stop);
}

/// See `_native.pyi`.
#[pyfunction]
pub fn gang_join(py: Python<'_>) {
    gang::join_here(py);
}

/// See `_native.pyi`.
#[pyfunction]
pub fn gang_measure(py: Python<'_>, cores: Vec<u32>) -> Option<Cost> {
    py.detach(|| gang::measure(&cores)).map(flat)
}

/// See `_native.pyi`.
#[pyfunction]
pub fn gang_shown() -> (Option<u32>, &'static str, Option<Cost>) {
    let shown = gang::shown();
    (shown.core, shown.why, shown.hand_over.map(flat))
}

fn flat(cost: HandOver) -> Cost {
    (cost.one_core_ns, cost.two_cores_ns, cost.pays())
}

/// See `_native.pyi`.
#[pyfunction]
#[pyo3(signature = (callable, *arguments))]
pub fn gang_freely<'py>(
    callable: &Bound<'py, PyAny>,
    arguments: &Bound<'py, PyTuple>,
) -> PyResult<Bound<'py, PyAny>> {
    gang::freely(|| callable.call1(arguments))
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

    fn look(&mut self, cores: Vec<(u32, f64, bool)>, ours_frac: f64) -> Option<u32> {
        let cores: Vec<_> = cores
            .into_iter()
            .map(|(number, foreign_frac, free)| Core {
                number,
                foreign_frac,
                free,
            })
            .collect();
        match self.0.look(&cores, ours_frac) {
            Verdict::Gather(core) => Some(core),
            Verdict::Disband => None,
            Verdict::Stay => self.0.current(),
        }
    }

    fn failed(&mut self) {
        self.0.failed();
    }
}
