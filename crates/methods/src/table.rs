//! The words of the method tables that lead to us, and their putting back.

use crate::call::{Function, Shape};
use crate::hash;
use crate::watched::{entrance, find, watched_functions, word_of, WatchedFunction, MOST, WATCHED};
pub use crate::watched::{Owner, Rule};
use greenlane_process::pages::Pages;
use pyo3::ffi::{self, PyMethodDef, PyObject, Py_ssize_t};
use pyo3::prelude::*;
use pyo3::types::PyType;
use std::ffi::CStr;
use std::ptr;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};

/// How many places of [`WATCHED`] are used; changed by one thread at a time.
static USED: Mutex<usize> = Mutex::new(0);

/// Has `rule` see every call of `callable`: a builtin function, a method of a C class, or a function of Cython. Again,
/// after [`restore`]: the rule of the first time goes on.
pub fn see(
    callable: &Bound<'_, PyAny>,
    owner: Owner,
    rule: Box<dyn Rule>,
) -> Result<(), &'static str> {
    let (entry, function) = look_up(callable)?;
    let mut used = USED.lock().unwrap_or_else(PoisonError::into_inner);
    let seen = match find(entry) {
        Some(seen) if seen.owner != owner => return Err("another probe of ours sees it"),
        Some(seen) => seen,
        None if *used == MOST => return Err("too many functions are seen"),
        None => {
            let ours = entrance(*used, function.shape);
            let made = Box::into_raw(Box::new(WatchedFunction {
                entry,
                owner,
                function,
                ours,
                rule,
            }));
            WATCHED[*used].store(made, Ordering::Release);
            *used += 1;
            // SAFETY: just made, and never freed.
            unsafe { &*made }
        }
    };
    hash::keep();
    // SAFETY: `looked_up` has found the word mapped and writable.
    let word = unsafe { word_of(entry) };
    match word.compare_exchange(
        seen.function.address,
        seen.ours,
        Ordering::AcqRel,
        Ordering::Acquire,
    ) {
        Err(found) if found != seen.ours => Err("somebody else has changed its method table"),
        _ => Ok(()),
    }
}

/// Puts every word back that leads to us for `owner`. Calls under way end as they began.
pub fn restore(owner: Owner) {
    let _one_at_a_time = USED.lock().unwrap_or_else(PoisonError::into_inner);
    watched_functions()
        .filter(|seen| seen.owner == owner)
        .for_each(WatchedFunction::restore);
    restore_hash();
}

/// Likewise the word of `callable`, if it leads to us.
pub fn restore_one(callable: &Bound<'_, PyAny>) -> Result<(), &'static str> {
    let (entry, _) = look_up(callable)?;
    let _one_at_a_time = USED.lock().unwrap_or_else(PoisonError::into_inner);
    find(entry).into_iter().for_each(WatchedFunction::restore);
    restore_hash();
    Ok(())
}

fn restore_hash() {
    if !watched_functions().any(WatchedFunction::is_replaced) {
        hash::restore();
    }
}

/// A method of `class` that does what `callable`, one of its own, did before its calls were seen. Made once for each that
/// is ever asked for: its table stays.
pub fn unseen_method<'py>(
    class: &Bound<'py, PyType>,
    callable: &Bound<'py, PyAny>,
) -> PyResult<Result<Bound<'py, PyAny>, &'static str>> {
    let (entry, function) = match look_up(callable) {
        Ok(found) => found,
        Err(reason) => return Ok(Err(reason)),
    };
    // SAFETY: a copy of the entry, with the word that it had; the class lives.
    unsafe {
        let mut copy = ptr::read(entry);
        word_of(&raw mut copy).store(function.address, Ordering::Relaxed);
        let copy = Box::into_raw(Box::new(copy));
        let made = ffi::PyDescr_NewMethod(class.as_type_ptr(), copy);
        Bound::from_owned_ptr_or_err(class.py(), made).map(Ok)
    }
}

/// The C function of `callable`, whether its calls are seen or not: to be called without being seen.
pub fn unseen(callable: &Bound<'_, PyAny>) -> Result<Function, &'static str> {
    look_up(callable).map(|(_, function)| function)
}

/// Whether the page at `address` may be written; None if it is not mapped. The map is read again for what it lacks.
fn writable(address: usize) -> Option<bool> {
    static PAGES: Mutex<Option<Pages>> = Mutex::new(None);
    let mut pages = PAGES.lock().unwrap_or_else(PoisonError::into_inner);
    let found = pages.as_mut().and_then(|pages| pages.writable(address));
    if found.is_some() {
        return found;
    }
    pages.insert(Pages::with_room()).writable(address)
}

/// The entry of `callable`, and what it said before it led to us.
fn look_up(callable: &Bound<'_, PyAny>) -> Result<(*mut PyMethodDef, Function), &'static str> {
    let object = callable.as_ptr();
    // SAFETY: the types say what the objects are; both are public structures of CPython.
    let (entry, class) = unsafe {
        if ffi::Py_TYPE(object) == &raw mut ffi::PyMethodDescr_Type {
            let method = &*object.cast::<ffi::PyMethodDescrObject>();
            (method.d_method, method.d_common.d_type)
        } else if ffi::PyCFunction_CheckExact(object) != 0 || is_cythons(object) {
            let function = &*object.cast::<ffi::PyCFunctionObject>();
            (function.m_ml, ptr::null_mut())
        } else {
            return Err("it is no function of C");
        }
    };
    if let Some(seen) = find(entry) {
        return Ok((entry, seen.function));
    }
    if writable(entry as usize) != Some(true) {
        return Err("its method table cannot be written");
    }
    // SAFETY: mapped.
    let (name, flags, address) = unsafe {
        let entry = &*entry;
        (
            entry.ml_name,
            entry.ml_flags,
            word_of(entry).load(Ordering::Acquire),
        )
    };
    let said: String = callable
        .getattr("__name__")
        .and_then(|name| name.extract())
        .map_err(|_| "it has no name")?;
    // SAFETY: the table's own string, of a module that is never unloaded.
    let written = unsafe { writable(name as usize).map(|_| CStr::from_ptr(name)) };
    if written.is_none_or(|written| written.to_bytes() != said.as_bytes()) {
        return Err("its method table has another name");
    }
    let shape = Shape::of(flags).ok_or("its calling convention is not known")?;
    Ok((
        entry,
        Function {
            address,
            shape,
            class,
        },
    ))
}

/// Whether it is a function of Cython: a type of its own, which begins as a builtin function does, has no base in common
/// with it, and reads its method table at each call, too.
///
/// # Safety
/// A valid object.
unsafe fn is_cythons(object: *mut PyObject) -> bool {
    // SAFETY: the type's name is text, and lives as long as it.
    unsafe {
        let kind = ffi::Py_TYPE(object);
        CStr::from_ptr((*kind).tp_name)
            .to_bytes()
            .ends_with(b"cython_function_or_method")
            && (*kind).tp_basicsize >= size_of::<ffi::PyCFunctionObject>() as Py_ssize_t
    }
}
