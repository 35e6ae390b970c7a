//! [`MethodHook`]: called in the place of a method of Python, it has a rule see the call, and the method called.

use crate::types::{self, slot};
use greenlane_methods::call::{Arguments, Call, Function, Shape};
use greenlane_methods::table::Rule;
use pyo3::ffi::{self, PyObject, Py_ssize_t};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use std::mem::offset_of;
use std::ptr;

/// See the module.
#[repr(C)]
pub struct MethodHook {
    head: PyObject,
    vectorcall: Option<ffi::vectorcallfunc>,
    original: *mut PyObject,
    pub rule: Box<dyn Rule>,
}

static TYPE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();

/// Has `rule` see what is called in the place of `original`.
pub fn make<'py>(original: &Bound<'py, PyAny>, rule: Box<dyn Rule>) -> PyResult<Bound<'py, PyAny>> {
    let py = original.py();
    let kind = TYPE.get_or_try_init(py, || {
        types::make::<MethodHook>(
            py,
            c"greenlane._native.MethodHook",
            u64::from(ffi::Py_TPFLAGS_HAVE_VECTORCALL as u32),
            vec![types::offset(
                c"__vectorcalloffset__",
                offset_of!(MethodHook, vectorcall),
            )],
            vec![slot(ffi::Py_tp_dealloc, dealloc as *const ())],
        )
    })?;
    // SAFETY: the type is of objects shaped `MethodHook`, and each field is written before anybody sees the object.
    unsafe {
        let made = ffi::PyType_GenericAlloc(kind.as_ptr().cast(), 0);
        let made = Bound::from_owned_ptr_or_err(py, made)?;
        let lead = made.as_ptr().cast::<MethodHook>();
        (*lead).vectorcall = Some(call);
        (*lead).original = original.clone().into_ptr();
        ptr::write(&raw mut (*lead).rule, rule);
        Ok(made)
    }
}

/// The `MethodHook` that `object` is.
pub fn of<'a>(object: &'a Bound<'_, PyAny>) -> Option<&'a MethodHook> {
    let kind = TYPE.get(object.py())?.as_ptr();
    // SAFETY: only instances of our own type are looked at; the caller holds a reference.
    unsafe {
        (ffi::Py_TYPE(object.as_ptr()).cast() == kind)
            .then(|| &*object.as_ptr().cast::<MethodHook>())
    }
}

unsafe extern "C" fn call(
    this: *mut PyObject,
    all: *const *mut PyObject,
    count: usize,
    names: *mut PyObject,
) -> *mut PyObject {
    // SAFETY: CPython calls it with an instance, which it keeps alive during the call, and the arguments of the call.
    unsafe {
        let lead = &*this.cast::<MethodHook>();
        let given = ffi::PyVectorcall_NARGS(count);
        if given == 0 || !lead.rule.wants() {
            return ffi::PyObject_Vectorcall(lead.original, all, given as usize, names);
        }
        lead.rule.see(&Call {
            this: *all,
            given: Arguments::Vector(all.add(1), given as Py_ssize_t - 1, names),
            class: ptr::null_mut(),
            function: &Function {
                address: lead.original as usize,
                shape: Shape::Object,
                class: ptr::null_mut(),
            },
        })
    }
}

unsafe extern "C" fn dealloc(this: *mut PyObject) {
    // SAFETY: the last reference is gone; the type counts its instances.
    unsafe {
        let kind = ffi::Py_TYPE(this);
        let lead = this.cast::<MethodHook>();
        ffi::Py_DECREF((*lead).original);
        ptr::drop_in_place(&raw mut (*lead).rule);
        ffi::PyObject_Free(this.cast());
        ffi::Py_DECREF(kind.cast());
    }
}
