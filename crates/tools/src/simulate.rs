//! `greenlane_tools._native.simulate`: the simulator shown to Python. See `_native.pyi`.

use greenlane_simulate::{model_and_set_up, simulate as run, Run};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::time::{Duration, Instant};

/// Time between two looks for signals, and calls of `tick`.
const LOOK: Duration = Duration::from_millis(50);

/// See `_native.pyi`.
#[pyfunction]
#[pyo3(signature = (profile_json, set_up_json, jobs, seed, load=1.0, *, tick=None))]
pub fn simulate<'py>(
    py: Python<'py>,
    profile_json: &[u8],
    set_up_json: &[u8],
    jobs: u64,
    seed: u64,
    load: f64,
    tick: Option<Py<PyAny>>,
) -> PyResult<Bound<'py, PyBytes>> {
    let (model, set_up) = model_and_set_up(profile_json, set_up_json)
        .map_err(|wrong| PyValueError::new_err((wrong.what, wrong.value, wrong.rule)))?;
    if !(load > 0.0 && load.is_finite()) {
        let rule = "a number over 0";
        return Err(PyValueError::new_err(("load", load.to_string(), rule)));
    }
    let mut raised = None;
    let text = py.detach(|| {
        let mut looked = Instant::now();
        let amount = Run { jobs, seed, load };
        let report = run(&model, &set_up, &amount, &mut |frac| {
            if looked.elapsed() < LOOK {
                return true;
            }
            looked = Instant::now();
            raised = Python::attach(|py| go_on(py, tick.as_ref(), frac)).err();
            raised.is_none()
        });
        report.map(|report| report.to_json().to_string())
    });
    match (text, raised) {
        (Some(text), None) => Ok(PyBytes::new(py, text.as_bytes())),
        (_, Some(error)) => Err(error),
        (None, None) => unreachable!("only a raised exception stops a run"),
    }
}

fn go_on(py: Python<'_>, tick: Option<&Py<PyAny>>, frac: f64) -> PyResult<()> {
    py.check_signals()?;
    match tick {
        Some(tick) => tick.call1(py, (frac,)).map(drop),
        None => Ok(()),
    }
}
