//! Types made by hand: callables that stand on gevent's hottest calls, and look like what is behind them.

use pyo3::ffi;
use std::ffi::{c_int, c_void};
use std::ptr;

pub fn slot(number: c_int, function: *mut c_void) -> ffi::PyType_Slot {
    ffi::PyType_Slot {
        slot: number,
        pfunc: function,
    }
}

/// Makes a type whose instances are called by a vectorcall; null with a Python error set when that fails.
///
/// # Safety
/// `size`, `vectorcall` and `own` describe the instances.
pub unsafe fn make_type(
    name: &'static std::ffi::CStr,
    size: usize,
    vectorcall: usize,
    flags: std::ffi::c_ulong,
    own: &mut [ffi::PyType_Slot],
) -> *mut ffi::PyTypeObject {
    let mut members = [
        ffi::PyMemberDef {
            name: c"__vectorcalloffset__".as_ptr(),
            type_code: ffi::Py_T_PYSSIZET,
            offset: vectorcall as ffi::Py_ssize_t,
            flags: ffi::Py_READONLY,
            doc: ptr::null(),
        },
        ffi::PyMemberDef::default(),
    ];
    let mut slots = vec![
        slot(ffi::Py_tp_call, ffi::PyVectorcall_Call as *mut c_void),
        slot(ffi::Py_tp_members, members.as_mut_ptr().cast()),
    ];
    slots.extend_from_slice(own);
    slots.push(slot(0, ptr::null_mut()));
    let mut spec = ffi::PyType_Spec {
        name: name.as_ptr(),
        basicsize: size as c_int,
        itemsize: 0,
        flags: (ffi::Py_TPFLAGS_DEFAULT
            | ffi::Py_TPFLAGS_HAVE_VECTORCALL
            | ffi::Py_TPFLAGS_DISALLOW_INSTANTIATION
            | flags) as std::ffi::c_uint,
        slots: slots.as_mut_ptr(),
    };
    // SAFETY: everything that the specification points to outlives the call, which copies it.
    unsafe { ffi::PyType_FromSpec(&mut spec).cast() }
}

/// What it has not itself, it has from `behind`; `__wrapped__` is `behind`.
///
/// # Safety
/// Objects and a name that live, with the GIL.
pub unsafe fn attribute(
    object: *mut ffi::PyObject,
    name: *mut ffi::PyObject,
    behind: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: plain attribute look-ups.
    unsafe {
        if ffi::PyUnicode_CompareWithASCIIString(name, c"__class__".as_ptr()) == 0 {
            return ffi::PyObject_GenericGetAttr(object, name);
        }
        if ffi::PyUnicode_CompareWithASCIIString(name, c"__wrapped__".as_ptr()) == 0 {
            return ffi::Py_NewRef(behind);
        }
        ffi::PyObject_GetAttr(behind, name)
    }
}
