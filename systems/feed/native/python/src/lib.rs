//! feed-core for Python: `_native.pyi` is the manual.

mod array;
mod fetching;
mod values;

use feed_core::candidates::{chosen, Named};
use feed_core::{forest, layout, matrix, ranking, rules, viewer};
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use array::Array;
use values::Values;

/// `feed._native`.
#[pymodule(gil_used = false)]
mod _native {
    #[pymodule_export]
    use super::array::Array;
    #[pymodule_export]
    use super::fetching::{Asking, Fetched, Replies};
    #[pymodule_export]
    use super::{candidates, features, rank, ranked, Forest, Matrix, Ranking};
    #[pymodule_export]
    const FEATURES: [&str; super::layout::FEATURE_COUNT] = super::layout::FEATURES;
    #[pymodule_export]
    const RECORD_BYTES: usize = super::layout::RECORD_BYTES;
}

/// Features of items: what `features` gives.
#[pyclass(frozen)]
struct Matrix {
    #[pyo3(get)]
    columns: Py<Array>,
    items: Vec<matrix::Found>,
    #[pyo3(get)]
    unreadable: usize,
}

#[pymethods]
impl Matrix {
    #[getter]
    fn ids(&self) -> Array {
        column(&self.items, |item| item.item_id)
    }

    #[getter]
    fn places(&self) -> Array {
        column(&self.items, |item| item.place)
    }

    fn __len__(&self) -> usize {
        self.items.len()
    }

    /// The order that these scores give.
    fn ranked(&self, py: Python<'_>, scores: PyBuffer<f64>) -> PyResult<Ranking> {
        let scores = numbers(py, "scores", &scores, self.items.len())?;
        let made = ranking::Ranking::of_scores(&self.items, &scores);
        Ok(Ranking(ranking::Ranking {
            unreadable: self.unreadable,
            ..made
        }))
    }
}

/// Items by falling score: what `rank` gives.
#[pyclass(frozen)]
struct Ranking(ranking::Ranking);

#[pymethods]
impl Ranking {
    #[getter]
    fn ids(&self) -> Array {
        column(&self.0.items, |item| item.item_id)
    }

    #[getter]
    fn scores(&self) -> Array {
        Array::from(self.0.scores.clone())
    }

    #[getter]
    fn places(&self) -> Array {
        column(&self.0.items, |item| item.place)
    }

    #[getter]
    fn boosts(&self) -> Array {
        column(&self.0.items, |item| u32::from(item.boost))
    }

    #[getter]
    fn sellers(&self) -> Array {
        column(&self.0.items, |item| item.seller_id)
    }

    #[getter]
    fn categories(&self) -> Array {
        column(&self.0.items, |item| u32::from(item.category))
    }

    #[getter]
    fn unreadable(&self) -> usize {
        self.0.unreadable
    }

    #[getter]
    fn older(&self) -> usize {
        self.0.older
    }

    #[getter]
    fn features_ns(&self) -> u64 {
        self.0.spent.features_ns
    }

    #[getter]
    fn predict_ns(&self) -> u64 {
        self.0.spent.predict_ns
    }

    #[getter]
    fn sort_ns(&self) -> u64 {
        self.0.spent.sort_ns
    }

    fn __len__(&self) -> usize {
        self.0.items.len()
    }

    fn __reduce__(&self) -> PyResult<()> {
        Err(unpicklable(
            "Ranking",
            "give numpy.array of its ids and scores back instead, or place the call inline or thread",
        ))
    }

    /// The feed after the business rules; `lacking` comes last.
    #[pyo3(signature = (lacking = Vec::new()))]
    fn arranged(&self, lacking: Vec<u32>) -> Array {
        let items = self.0.items.iter().map(|item| rules::Shown {
            item_id: item.item_id,
            seller_id: item.seller_id,
            category: item.category,
            boost: item.boost,
        });
        let ranked: Vec<_> = items
            .chain(lacking.into_iter().map(rules::Shown::lacking))
            .collect();
        Array::from(rules::arranged(&ranked))
    }
}

fn column(items: &[matrix::Found], of: impl Fn(&matrix::Found) -> u32) -> Array {
    Array::from(items.iter().map(of).collect::<Vec<_>>())
}

/// A buffer's numbers; there must be `count`.
fn numbers<T: pyo3::buffer::Element>(
    py: Python<'_>,
    name: &str,
    buffer: &PyBuffer<T>,
    count: usize,
) -> PyResult<Vec<T>> {
    if buffer.item_count() != count {
        return Err(PyValueError::new_err(format!(
            "ranking items: {} {name}, expected {count}",
            buffer.item_count()
        )));
    }
    buffer.to_vec(py)
}

#[pyfunction]
fn features(py: Python<'_>, values: Values<'_>, user: &[u8], now_s: i64) -> PyResult<Matrix> {
    let viewer = viewer_of(user, now_s)?;
    let values = values.slices()?;
    let made = py.detach(|| matrix::Matrix::new(&values, &viewer));
    Ok(Matrix {
        columns: Py::new(py, Array::columns(made.columns, made.items.len()))?,
        items: made.items,
        unreadable: made.unreadable,
    })
}

/// The order of items that others computed: columns of one length.
#[pyfunction]
#[pyo3(signature = (ids, scores, *, sellers, categories, boosts))]
fn ranked(
    py: Python<'_>,
    ids: PyBuffer<u32>,
    scores: PyBuffer<f64>,
    sellers: PyBuffer<u32>,
    categories: PyBuffer<u32>,
    boosts: PyBuffer<u32>,
) -> PyResult<Ranking> {
    let count = ids.item_count();
    let ids = numbers(py, "ids", &ids, count)?;
    let sellers = numbers(py, "sellers", &sellers, count)?;
    let categories = numbers(py, "categories", &categories, count)?;
    let boosts = numbers(py, "boosts", &boosts, count)?;
    let item = |place: usize| matrix::Found {
        item_id: ids[place],
        place: place as u32,
        seller_id: sellers[place],
        category: categories[place] as u8,
        boost: boosts[place] as u8,
        is_older: false,
    };
    let items: Vec<_> = (0..count).map(item).collect();
    let scores = numbers(py, "scores", &scores, count)?;
    Ok(Ranking(ranking::Ranking::of_scores(&items, &scores)))
}

/// What user.py chooses, from the models' own JSON.
#[pyfunction]
fn candidates(
    py: Python<'_>,
    bodies: Vec<Option<Bound<'_, PyBytes>>>,
    seen: Vec<u32>,
    most: usize,
) -> (Vec<u32>, Vec<usize>) {
    let texts: Vec<Option<&[u8]>> = bodies
        .iter()
        .map(|body| body.as_ref().map(|body| body.as_bytes()))
        .collect();
    py.detach(|| {
        let read = |text: &Option<&[u8]>| text.map(Named::from_json);
        let answers: Vec<_> = texts.iter().map(read).collect();
        let bad = |(at, answer): (usize, &Option<Result<_, _>>)| {
            matches!(answer, Some(Err(_))).then_some(at)
        };
        let unreadable = answers.iter().enumerate().filter_map(bad).collect();
        let answers: Vec<_> = answers.into_iter().map(|answer| answer?.ok()).collect();
        (chosen(&answers, &seen, most), unreadable)
    })
}

#[pyfunction]
fn rank(
    py: Python<'_>,
    values: Values<'_>,
    user: &[u8],
    now_s: i64,
    forest: &Forest,
) -> PyResult<Ranking> {
    let viewer = viewer_of(user, now_s)?;
    let values = values.slices()?;
    let forest = &forest.0;
    if forest.features() != layout::FEATURE_COUNT {
        return Err(PyValueError::new_err(format!(
            "ranking items: features of the model={}, expected {}",
            forest.features(),
            layout::FEATURE_COUNT
        )));
    }
    Ok(Ranking(py.detach(|| {
        ranking::Ranking::new(&values, &viewer, forest)
    })))
}

/// A model of CatBoost.
#[pyclass(frozen)]
struct Forest(forest::Forest);

#[pymethods]
impl Forest {
    #[new]
    fn new(py: Python<'_>, text: &[u8]) -> PyResult<Self> {
        let made = py.detach(|| forest::Forest::from_json(text));
        made.map(Self)
            .map_err(|error| PyValueError::new_err(error.to_string()))
    }

    fn predict(&self, py: Python<'_>, columns: &Bound<'_, Array>) -> PyResult<Array> {
        self.scored(py, columns, forest::Forest::predict)
    }

    fn predict_plain(&self, py: Python<'_>, columns: &Bound<'_, Array>) -> PyResult<Array> {
        self.scored(py, columns, forest::Forest::predict_plain)
    }

    /// A model is megabytes, and each process has its own.
    fn __reduce__(&self) -> PyResult<()> {
        Err(unpicklable(
            "Forest",
            "load the model in the process that needs it (feed.model.load_forest), or place the call inline or thread",
        ))
    }

    fn metadata(&self, key: &str) -> Option<&str> {
        self.0.metadata(key)
    }

    #[getter]
    fn features(&self) -> usize {
        self.0.features()
    }

    #[getter]
    fn trees(&self) -> usize {
        self.0.trees()
    }

    #[getter]
    fn error_bound(&self) -> f64 {
        self.0.error_bound()
    }
}

impl Forest {
    fn scored(
        &self,
        py: Python<'_>,
        columns: &Bound<'_, Array>,
        predict: impl Fn(&forest::Forest, &[f32], &mut [f64]) + Sync,
    ) -> PyResult<Array> {
        let columns = columns.get().float32()?;
        if columns.len() % self.0.features() != 0 {
            return Err(PyValueError::new_err(format!(
                "predicting: {} numbers, expected {} for each row",
                columns.len(),
                self.0.features()
            )));
        }
        let mut scores = vec![0.0; columns.len() / self.0.features()];
        py.detach(|| predict(&self.0, columns, &mut scores));
        Ok(Array::from(scores))
    }
}

/// Why an object stays in its process.
fn unpicklable(kind: &str, hint: &str) -> PyErr {
    PyTypeError::new_err(format!(
        "pickling for another process: object={kind}, expected one that Python holds; native code does\nhint: {hint}"
    ))
}

fn viewer_of(user: &[u8], now_s: i64) -> PyResult<viewer::Viewer> {
    viewer::Viewer::new(user, now_s).ok_or_else(|| {
        PyValueError::new_err(format!(
            "reading a user: {} bytes, expected {} (User.packed)",
            user.len(),
            layout::USER_BYTES
        ))
    })
}
