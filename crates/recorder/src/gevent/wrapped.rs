//! [`Wrapped`] stands in a class in the place of one of its methods: it looks at the call and passes it on, with no object
//! made for binding (`Py_TPFLAGS_METHOD_DESCRIPTOR`).

use super::roles::{self, Role};
use super::switches;
use super::types::{attribute, make_type, slot};
use crate::switch;
use pyo3::ffi;
use std::ffi::c_void;
use std::mem::offset_of;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

/// See the module.
#[repr(C)]
pub struct Wrapped {
    head: ffi::PyObject,
    vectorcall: Option<ffi::vectorcallfunc>,
    pub original: *mut ffi::PyObject,
    pub role: Role,
}

static WRAPPED: AtomicPtr<ffi::PyTypeObject> = AtomicPtr::new(ptr::null_mut());

/// Makes the type; false with a Python error set when that fails.
pub fn load() -> bool {
    if !WRAPPED.load(Ordering::Relaxed).is_null() {
        return true;
    }
    // SAFETY: the specification describes the struct above.
    unsafe {
        let wrapped = make_type(
            c"greenlane._native.Wrapped",
            size_of::<Wrapped>(),
            offset_of!(Wrapped, vectorcall),
            ffi::Py_TPFLAGS_METHOD_DESCRIPTOR,
            &mut [
                slot(ffi::Py_tp_dealloc, free_wrapped as *mut c_void),
                slot(ffi::Py_tp_descr_get, bind as *mut c_void),
                slot(ffi::Py_tp_getattro, wrapped_attribute as *mut c_void),
                slot(ffi::Py_tp_repr, wrapped_repr as *mut c_void),
            ],
        );
        WRAPPED.store(wrapped, Ordering::Relaxed);
        !wrapped.is_null()
    }
}

/// `original` as seen through `role`: a new reference, or null with an error set.
pub fn wrap(original: *mut ffi::PyObject, role: Role) -> *mut ffi::PyObject {
    // SAFETY: the type's instances have this layout; every field is set before anybody sees the object.
    unsafe {
        let kind = WRAPPED.load(Ordering::Relaxed);
        let wrapped = ffi::PyType_GenericAlloc(kind, 0).cast::<Wrapped>();
        if !wrapped.is_null() {
            (*wrapped).vectorcall = Some(call_wrapped);
            (*wrapped).original = ffi::Py_NewRef(original);
            ptr::write(&raw mut (*wrapped).role, role);
        }
        wrapped.cast()
    }
}

/// The `Wrapped` that `object` is.
pub fn wrapped(object: *mut ffi::PyObject) -> Option<&'static Wrapped> {
    // SAFETY: only instances of our own type are looked at; the caller holds a reference.
    unsafe {
        (ffi::Py_TYPE(object) == WRAPPED.load(Ordering::Relaxed))
            .then(|| &*object.cast::<Wrapped>())
    }
}

unsafe extern "C" fn call_wrapped(
    callable: *mut ffi::PyObject,
    arguments: *const *mut ffi::PyObject,
    count: usize,
    names: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: CPython calls it with an instance, which it keeps alive during the call.
    unsafe {
        let wrapped = &*callable.cast::<Wrapped>();
        if !switch::on() || !switches::installed() {
            return ffi::PyObject_Vectorcall(wrapped.original, arguments, count, names);
        }
        roles::play(wrapped.role, wrapped.original, arguments, count, names)
    }
}

unsafe extern "C" fn bind(
    wrapped: *mut ffi::PyObject,
    object: *mut ffi::PyObject,
    _class: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: the descriptor protocol.
    unsafe {
        if object.is_null() || object == ffi::Py_None() {
            return ffi::Py_NewRef(wrapped);
        }
        PyMethod_New(wrapped, object)
    }
}

unsafe extern "C" fn free_wrapped(object: *mut ffi::PyObject) {
    // SAFETY: the last reference is gone; the type counts its instances.
    unsafe {
        let kind = ffi::Py_TYPE(object);
        ffi::Py_XDECREF((*object.cast::<Wrapped>()).original);
        ffi::PyObject_Free(object.cast());
        ffi::Py_DECREF(kind.cast());
    }
}

unsafe extern "C" fn wrapped_attribute(
    object: *mut ffi::PyObject,
    name: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: an instance.
    unsafe { attribute(object, name, (*object.cast::<Wrapped>()).original) }
}

unsafe extern "C" fn wrapped_repr(object: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // SAFETY: an instance.
    unsafe { ffi::PyObject_Repr((*object.cast::<Wrapped>()).original) }
}

extern "C" {
    fn PyMethod_New(function: *mut ffi::PyObject, object: *mut ffi::PyObject)
        -> *mut ffi::PyObject;
}
