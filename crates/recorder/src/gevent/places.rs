//! Where wrapped methods were put. gevent's compiled classes are immutable to Python; their dictionaries are not to C.

use super::roles::Role;
use super::wrapped::{wrap, wrapped};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyString, PyType};
use std::sync::{Mutex, PoisonError};

struct Put {
    owner: Py<PyType>,
    name: Py<PyString>,
    ours: Py<PyAny>,
}

static PUT: Mutex<Vec<Put>> = Mutex::new(Vec::new());

/// Puts a wrapped method in the place of `owner.name`; false if `owner` itself has none of that name, or ours already.
pub fn put(owner: &Bound<'_, PyType>, name: &str, role: Role) -> PyResult<bool> {
    let py = owner.py();
    let name = PyString::intern(py, name);
    // SAFETY: a class's own dictionary, changed with the GIL; the caches are told.
    unsafe {
        let class = owner.as_type_ptr();
        let dictionary = (*class).tp_dict;
        let original = ffi::PyDict_GetItemWithError(dictionary, name.as_ptr());
        if original.is_null() || wrapped(original).is_some() {
            return Ok(false);
        }
        let ours = Bound::from_owned_ptr_or_err(py, wrap(original, role))?;
        if ffi::PyDict_SetItem(dictionary, name.as_ptr(), ours.as_ptr()) != 0 {
            return Err(PyErr::fetch(py));
        }
        ffi::PyType_Modified(class);
        PUT.lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(Put {
                owner: owner.clone().unbind(),
                name: name.unbind(),
                ours: ours.unbind(),
            });
    }
    Ok(true)
}

/// Puts every original back where ours still stands. Who wrapped ours keeps it; it passes everything on.
pub fn put_back(py: Python<'_>) {
    let put = std::mem::take(&mut *PUT.lock().unwrap_or_else(PoisonError::into_inner));
    for place in put {
        let class = place.owner.bind(py).as_type_ptr();
        // SAFETY: as in `put`.
        unsafe {
            let dictionary = (*class).tp_dict;
            let standing = ffi::PyDict_GetItemWithError(dictionary, place.name.as_ptr());
            if standing != place.ours.as_ptr() {
                continue;
            }
            if let Some(wrapped) = wrapped(standing) {
                let original = ffi::Py_NewRef(wrapped.original);
                if ffi::PyDict_SetItem(dictionary, place.name.as_ptr(), original) != 0 {
                    ffi::PyErr_Clear();
                }
                ffi::Py_DECREF(original);
                ffi::PyType_Modified(class);
            }
        }
    }
}
