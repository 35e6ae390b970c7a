//! The hash of a builtin function stays what it was while its calls are seen.
//!
//! CPython makes it from `ml_meth`, the very word that leads to us: a dict that was filled before would miss its key.

use crate::watched;
use pyo3::ffi::{self, PyCFunctionObject, PyObject, Py_hash_t};
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};

type Hash = unsafe extern "C" fn(*mut PyObject) -> Py_hash_t;

/// CPython's own; 0 = not known yet.
static ORIGINAL: AtomicUsize = AtomicUsize::new(0);

/// `tp_hash` of builtin functions, and of those that know the class they are of, which inherit it.
fn slots() -> [&'static AtomicUsize; 2] {
    // SAFETY: static types of CPython; the slot is a function pointer, aligned, which CPython reads whole.
    [&raw mut ffi::PyCFunction_Type, &raw mut ffi::PyCMethod_Type]
        .map(|kind| unsafe { &*(&raw const (*kind).tp_hash).cast::<AtomicUsize>() })
}

/// From now on hashes are made from what words said before they led to us.
pub fn keep() {
    for slot in slots() {
        let found = slot.load(Ordering::Acquire);
        if found != own_hash() {
            ORIGINAL.store(found, Ordering::Release);
            slot.store(own_hash(), Ordering::Release);
        }
    }
}

/// No word leads to us now.
pub fn restore() {
    let original = ORIGINAL.load(Ordering::Acquire);
    for slot in slots() {
        // What is no longer ours stays.
        let _ = slot.compare_exchange(own_hash(), original, Ordering::AcqRel, Ordering::Acquire);
    }
}

fn own_hash() -> usize {
    hash as Hash as usize
}

unsafe extern "C" fn hash(this: *mut PyObject) -> Py_hash_t {
    // SAFETY: CPython calls it with a builtin function; the slot was filled after `ORIGINAL`.
    unsafe {
        let original: Hash = std::mem::transmute(ORIGINAL.load(Ordering::Acquire));
        let function = this.cast::<PyCFunctionObject>();
        let Some(mut entry) = watched::original_entry((*function).m_ml) else {
            return original(this);
        };
        // It is made from `m_self` and from what `m_ml` says.
        let mut original_entry = ptr::read(function);
        original_entry.m_ml = &raw mut entry;
        original((&raw mut original_entry).cast())
    }
}
