//! C types made by hand: `#[pyclass]` has no vectorcall, and a call without it makes a tuple.

use pyo3::ffi::{self, PyObject};
use pyo3::prelude::*;
use std::ffi::{c_int, c_uint, c_void, CStr};
use std::mem;

extern "C" {
    // CPython's, which pyo3 does not declare.
    pub static mut PyMethod_Type: ffi::PyTypeObject;
}

/// A slot of a type.
pub fn slot(number: c_int, function: *const ()) -> ffi::PyType_Slot {
    ffi::PyType_Slot {
        slot: number,
        pfunc: function as *mut c_void,
    }
}

/// A hidden member that says where in an object something lies.
pub fn offset(name: &'static CStr, at: usize) -> ffi::PyMemberDef {
    ffi::PyMemberDef {
        name: name.as_ptr(),
        type_code: ffi::Py_T_PYSSIZET,
        offset: at as ffi::Py_ssize_t,
        flags: ffi::Py_READONLY,
        doc: std::ptr::null(),
    }
}

/// Makes a type of objects shaped `T`, which only C makes. Lives for ever, as what it points to must.
pub fn make<T>(
    py: Python<'_>,
    name: &'static CStr,
    flags: u64,
    mut members: Vec<ffi::PyMemberDef>,
    mut slots: Vec<ffi::PyType_Slot>,
) -> PyResult<Py<PyAny>> {
    members.push(ffi::PyMemberDef::default());
    slots.push(slot(ffi::Py_tp_members, members.leak().as_ptr().cast()));
    slots.push(slot(ffi::Py_tp_call, ffi::PyVectorcall_Call as *const ()));
    slots.push(ffi::PyType_Slot::default());
    let own = ffi::Py_TPFLAGS_DEFAULT | ffi::Py_TPFLAGS_DISALLOW_INSTANTIATION;
    let mut spec = ffi::PyType_Spec {
        name: name.as_ptr(),
        basicsize: mem::size_of::<T>() as c_int,
        itemsize: 0,
        flags: (own | flags) as c_uint,
        slots: slots.leak().as_mut_ptr(),
    };
    // SAFETY: the spec and all that it points to is valid; CPython copies the spec itself.
    unsafe { Bound::from_owned_ptr_or_err(py, ffi::PyType_FromSpec(&mut spec)).map(Bound::unbind) }
}

/// A new reference to `object`.
pub unsafe fn new_reference(object: *mut PyObject) -> *mut PyObject {
    unsafe { ffi::Py_INCREF(object) };
    object
}

/// An attribute of what looks like `behind`: what it has not itself is `behind`'s, and `__wrapped__` is `behind`.
///
/// # Safety
/// Objects and a name that live, attached.
pub unsafe fn attribute(
    object: *mut PyObject,
    name: *mut PyObject,
    behind: *mut PyObject,
) -> *mut PyObject {
    unsafe {
        if ffi::PyUnicode_CompareWithASCIIString(name, c"__wrapped__".as_ptr()) == 0 {
            return new_reference(behind);
        }
        if ffi::PyUnicode_CompareWithASCIIString(name, c"__class__".as_ptr()) == 0 {
            return ffi::PyObject_GenericGetAttr(object, name);
        }
        ffi::PyObject_GetAttr(behind, name)
    }
}
