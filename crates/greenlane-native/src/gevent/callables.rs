//! Two kinds of Python callables, written by hand because they stand on gevent's hottest calls.
//!
//! [`Wrapped`] stands in a class in the place of one of its methods: it looks at the call and passes it on, with no
//! object made for binding (`Py_TPFLAGS_METHOD_DESCRIPTOR`). [`Stamped`] goes round a callback that the loop is given,
//! and remembers when: gevent's loop shows nobody which callback it runs.

use super::roles::{self, Role};
use super::switches::{self, here, Cause};
use crate::record;
use pyo3::ffi;
use std::cell::UnsafeCell;
use std::ffi::{c_int, c_void};
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

/// See the module.
#[repr(C)]
pub struct Stamped {
    head: ffi::PyObject,
    vectorcall: Option<ffi::vectorcallfunc>,
    callback: *mut ffi::PyObject,
    cause: Cause,
}

static WRAPPED: AtomicPtr<ffi::PyTypeObject> = AtomicPtr::new(ptr::null_mut());
static STAMPED: AtomicPtr<ffi::PyTypeObject> = AtomicPtr::new(ptr::null_mut());

/// Stamped callbacks to use again: one is needed for each that a loop is given.
struct Free(UnsafeCell<Vec<*mut Stamped>>);
// SAFETY: looked at with the GIL only; nothing calls Python meanwhile.
unsafe impl Sync for Free {}
static FREE: Free = Free(UnsafeCell::new(Vec::new()));
const MOST_FREE: usize = 256;

/// Makes the two types; false with a Python error set when that fails.
pub fn load() -> bool {
    if !STAMPED.load(Ordering::Relaxed).is_null() {
        return true;
    }
    // SAFETY: the specifications describe the structs above.
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
        let stamped = make_type(
            c"greenlane._native.Stamped",
            size_of::<Stamped>(),
            offset_of!(Stamped, vectorcall),
            ffi::Py_TPFLAGS_HAVE_GC,
            &mut [
                slot(ffi::Py_tp_dealloc, free_stamped as *mut c_void),
                slot(ffi::Py_tp_traverse, traverse as *mut c_void),
                slot(ffi::Py_tp_clear, clear as *mut c_void),
                slot(ffi::Py_tp_getattro, stamped_attribute as *mut c_void),
                slot(ffi::Py_tp_repr, stamped_repr as *mut c_void),
            ],
        );
        if wrapped.is_null() || stamped.is_null() {
            return false;
        }
        WRAPPED.store(wrapped, Ordering::Relaxed);
        STAMPED.store(stamped, Ordering::Relaxed);
    }
    true
}

fn slot(number: c_int, function: *mut c_void) -> ffi::PyType_Slot {
    ffi::PyType_Slot {
        slot: number,
        pfunc: function,
    }
}

unsafe fn make_type(
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

/// `callback` with the moment that it was given to the loop: a new reference, or null with an error set.
pub fn stamp(callback: *mut ffi::PyObject, cause: Cause) -> *mut ffi::PyObject {
    // SAFETY: as in `wrap`; the collector sees the object only when it is whole.
    unsafe {
        let free = &mut *FREE.0.get();
        let stamped = match free.pop() {
            Some(stamped) => {
                ffi::PyObject_Init(stamped.cast(), STAMPED.load(Ordering::Relaxed)).cast()
            }
            None => ffi::PyObject_GC_New::<Stamped>(STAMPED.load(Ordering::Relaxed)),
        };
        if !stamped.is_null() {
            (*stamped).vectorcall = Some(call_stamped);
            (*stamped).callback = ffi::Py_NewRef(callback);
            (*stamped).cause = cause;
            ffi::PyObject_GC_Track(stamped.cast());
        }
        stamped.cast()
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
        if !record::on() || !switches::installed() {
            return ffi::PyObject_Vectorcall(wrapped.original, arguments, count, names);
        }
        roles::play(wrapped, arguments, count, names)
    }
}

unsafe extern "C" fn call_stamped(
    callable: *mut ffi::PyObject,
    arguments: *const *mut ffi::PyObject,
    count: usize,
    names: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: as above. The cause is put back by whoever set it, so that it never outlives the callback.
    unsafe {
        let stamped = &*callable.cast::<Stamped>();
        switches::watch_from(true);
        let before = std::mem::replace(&mut here().cause, stamped.cause);
        let result = ffi::PyObject_Vectorcall(stamped.callback, arguments, count, names);
        here().cause = before;
        result
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

unsafe extern "C" fn free_stamped(object: *mut ffi::PyObject) {
    // SAFETY: as above, and the collector forgets it first.
    unsafe {
        let kind = ffi::Py_TYPE(object);
        ffi::PyObject_GC_UnTrack(object.cast());
        let stamped = object.cast::<Stamped>();
        ffi::Py_XDECREF((*stamped).callback);
        let free = &mut *FREE.0.get();
        if free.len() < MOST_FREE {
            free.push(stamped);
        } else {
            ffi::PyObject_GC_Del(object.cast());
        }
        ffi::Py_DECREF(kind.cast());
    }
}

unsafe extern "C" fn traverse(
    object: *mut ffi::PyObject,
    visit: ffi::visitproc,
    argument: *mut c_void,
) -> c_int {
    // SAFETY: the collector's protocol.
    unsafe {
        let callback = (*object.cast::<Stamped>()).callback;
        if !callback.is_null() {
            let stop = visit(callback, argument);
            if stop != 0 {
                return stop;
            }
        }
        visit(ffi::Py_TYPE(object).cast(), argument)
    }
}

unsafe extern "C" fn clear(object: *mut ffi::PyObject) -> c_int {
    // SAFETY: the collector's protocol. What it calls afterwards is None, which says so.
    unsafe {
        let stamped = object.cast::<Stamped>();
        let callback = std::mem::replace(&mut (*stamped).callback, ffi::Py_NewRef(ffi::Py_None()));
        ffi::Py_XDECREF(callback);
    }
    0
}

/// What it has not itself, it has from `behind`; `__wrapped__` is `behind`.
unsafe fn attribute(
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

unsafe extern "C" fn wrapped_attribute(
    object: *mut ffi::PyObject,
    name: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: an instance.
    unsafe { attribute(object, name, (*object.cast::<Wrapped>()).original) }
}

unsafe extern "C" fn stamped_attribute(
    object: *mut ffi::PyObject,
    name: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: an instance.
    unsafe { attribute(object, name, (*object.cast::<Stamped>()).callback) }
}

unsafe extern "C" fn wrapped_repr(object: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // SAFETY: an instance.
    unsafe { ffi::PyObject_Repr((*object.cast::<Wrapped>()).original) }
}

unsafe extern "C" fn stamped_repr(object: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // SAFETY: an instance.
    unsafe { ffi::PyObject_Repr((*object.cast::<Stamped>()).callback) }
}

extern "C" {
    fn PyMethod_New(function: *mut ffi::PyObject, object: *mut ffi::PyObject)
        -> *mut ffi::PyObject;
}
