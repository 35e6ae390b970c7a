//! `greenlane_simulate::theory`, shown to Python: bounds, closed loops, queues. Times of one unit, rates in its inverse.

use greenlane_policy::at_once::modelled;
use greenlane_policy::closed_loop::one_cpu;
use greenlane_simulate::theory::asymptotes::Work;
use greenlane_simulate::theory::fifo::Waits;
use greenlane_simulate::theory::lanes::HardLane;
use greenlane_simulate::theory::waiting::{after_wait, erlang_c, quantile, shared, Queue};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// See `_native.pyi`.
#[pyfunction]
pub fn closed_bounds(cpu: f64, io: f64, number: u32) -> PyResult<(f64, f64, f64)> {
    at_least(&[("cpu", cpu), ("io", io)])?;
    let work = Work { cpu, io };
    Ok((work.knee(), work.most(number), work.least(number)))
}

/// See `_native.pyi`.
#[pyfunction]
pub fn closed_means(cpu: f64, io: f64, number: u32) -> PyResult<(f64, f64, f64)> {
    at_least(&[("cpu", cpu), ("io", io)])?;
    let means = one_cpu(cpu, io).nth(number.saturating_sub(1) as usize);
    let means = means.ok_or_else(|| wrong("number", f64::from(number), "a number that ends"))?;
    Ok((means.per, means.response + io, means.per * cpu))
}

/// See `_native.pyi`.
#[pyfunction]
pub fn closed_number(cpu: f64, io: f64, busy: f64, most: u32) -> PyResult<u32> {
    at_least(&[("cpu", cpu), ("io", io), ("busy", busy)])?;
    Ok(modelled(cpu, io, busy, most))
}

/// See `_native.pyi`.
#[pyfunction]
pub fn waits_frac(offered: f64, servers: u32) -> PyResult<f64> {
    at_least(&[("offered", offered)])?;
    Ok(erlang_c(offered, servers))
}

/// See `_native.pyi`.
#[pyfunction]
pub fn shared_latency(size: f64, utilisation: f64) -> PyResult<f64> {
    at_least(&[("size", size), ("utilisation", utilisation)])?;
    Ok(shared(size, utilisation))
}

/// See `_native.pyi`.
#[pyclass(frozen, module = "greenlane_tools._native")]
pub struct OpenQueue {
    queue: Queue,
    /// Times with a server, as likely as each other; empty: exponential.
    times: Vec<f64>,
    /// The exact distribution of the wait, where there is one.
    waits: Option<Waits>,
}

#[pymethods]
impl OpenQueue {
    #[new]
    #[pyo3(signature = (*, rate, servers, mean=0.0, times=Vec::new()))]
    fn new(py: Python<'_>, rate: f64, servers: u32, mean: f64, times: Vec<f64>) -> PyResult<Self> {
        at_least(&[("rate", rate), ("mean", mean)])?;
        for time in &times {
            at_least(&[("times", *time)])?;
        }
        if servers == 0 {
            return Err(wrong("servers", 0.0, "at least 1"));
        }
        let (mean, cv2) = if times.is_empty() {
            (mean, 1.0)
        } else {
            moments(&times)
        };
        if mean <= 0.0 {
            return Err(wrong("mean", mean, "more than 0"));
        }
        let queue = Queue {
            rate,
            mean,
            cv2,
            servers,
        };
        let waits = py.detach(|| (servers == 1).then(|| Waits::of(rate, &times)).flatten());
        Ok(Self {
            queue,
            times,
            waits,
        })
    }

    fn utilisation(&self) -> f64 {
        self.queue.utilisation()
    }

    fn cv2(&self) -> f64 {
        self.queue.cv2
    }

    fn waits_frac(&self) -> f64 {
        self.queue.waits_frac()
    }

    fn wait(&self) -> f64 {
        self.queue.wait()
    }

    fn exact(&self) -> bool {
        self.times.is_empty() || self.waits.is_some()
    }

    fn wait_beyond(&self, time: f64) -> f64 {
        match &self.waits {
            Some(waits) => waits.beyond(time),
            None if self.queue.utilisation() >= 1.0 => 1.0,
            None => self.queue.tail().beyond(time),
        }
    }

    fn latency_beyond(&self, time: f64) -> f64 {
        if self.times.is_empty() {
            self.queue.latency_beyond(time)
        } else {
            after_wait(&self.times, time, |time| self.wait_beyond(time))
        }
    }

    fn wait_quantile(&self, py: Python<'_>, share: f64) -> PyResult<f64> {
        within(share)?;
        Ok(py.detach(|| quantile(share, self.queue.mean, |time| self.wait_beyond(time))))
    }

    fn latency_quantile(&self, py: Python<'_>, share: f64) -> PyResult<f64> {
        within(share)?;
        Ok(py.detach(|| quantile(share, self.queue.mean, |time| self.latency_beyond(time))))
    }
}

/// Mean, and variance over its square.
fn moments(times: &[f64]) -> (f64, f64) {
    let number = times.len() as f64;
    let mean = times.iter().sum::<f64>() / number;
    let variance = times.iter().map(|time| (time - mean).powi(2)).sum::<f64>() / number;
    (
        mean,
        if mean > 0.0 {
            variance / (mean * mean)
        } else {
            0.0
        },
    )
}

/// See `_native.pyi`.
#[pyfunction]
pub fn hard_lane(processes: u32, own: u32, share: f64) -> PyResult<(f64, f64)> {
    if !(0.0..=1.0).contains(&share) {
        return Err(wrong("share", share, "0 to 1"));
    }
    if processes == 0 || own > processes {
        return Err(wrong(
            "own",
            f64::from(own),
            "at most the processes, of which there is one at least",
        ));
    }
    let lane = HardLane {
        processes,
        own,
        share,
    };
    Ok((lane.others_full(), lane.lane_full()))
}

fn at_least(values: &[(&str, f64)]) -> PyResult<()> {
    match values
        .iter()
        .find(|(_, value)| !(*value >= 0.0 && value.is_finite()))
    {
        Some((name, value)) => Err(wrong(name, *value, "a finite number, at least 0")),
        None => Ok(()),
    }
}

fn within(share: f64) -> PyResult<()> {
    if (0.0..1.0).contains(&share) {
        Ok(())
    } else {
        Err(wrong("share", share, "0 to 1, without 1"))
    }
}

fn wrong(name: &str, value: f64, rule: &str) -> PyErr {
    PyValueError::new_err(format!("{name}={value}, expected {rule}"))
}
