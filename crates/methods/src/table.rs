//! The words of the method tables that lead to us, and their putting back.

use crate::call::{self, Call, Function, Given, Shape};
use greenlane_process::pages::Pages;
use pyo3::ffi::{self, PyMethodDef, PyObject, PyTypeObject, Py_ssize_t};
use pyo3::prelude::*;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// Most functions that can be seen; each has code of its own for every calling convention.
const MOST: usize = 96;

/// What is done with the calls of a function.
pub trait Rule: Send + Sync {
    /// Whether the calling thread's calls matter now. Asked at each call: some ns.
    fn wants(&self) -> bool;

    /// In the place of the call: gives what it gives.
    ///
    /// # Safety
    /// Within the call, on its thread, attached to the main interpreter.
    unsafe fn seen(&self, call: &Call<'_>) -> *mut PyObject;
}

/// Who has a function seen; each puts back its own.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Owner {
    /// Probes of blocking calls.
    Blocking,
    /// Listeners of single functions.
    Listeners,
}

/// A function that is seen. Never freed: a call may be under way when it is put back.
struct Seen {
    entry: *mut PyMethodDef,
    owner: Owner,
    function: Function,
    ours: usize,
    rule: Box<dyn Rule>,
}

static SEEN: [AtomicPtr<Seen>; MOST] = [const { AtomicPtr::new(ptr::null_mut()) }; MOST];
/// How many of them are used; changed by one thread at a time.
static USED: Mutex<usize> = Mutex::new(0);

/// Has `rule` see every call of `callable`: a builtin function, or a method of a C class. Again, after [`put_back`]: the
/// rule of the first time goes on.
pub fn see(
    callable: &Bound<'_, PyAny>,
    owner: Owner,
    rule: Box<dyn Rule>,
) -> Result<(), &'static str> {
    let (entry, function) = looked_up(callable)?;
    let mut used = USED.lock().unwrap_or_else(PoisonError::into_inner);
    let seen = match known(entry) {
        Some(seen) if seen.owner != owner => return Err("another probe of ours sees it"),
        Some(seen) => seen,
        None if *used == MOST => return Err("too many functions are seen"),
        None => {
            let ours = entrance(*used, function.shape);
            let made = Box::into_raw(Box::new(Seen {
                entry,
                owner,
                function,
                ours,
                rule,
            }));
            SEEN[*used].store(made, Ordering::Release);
            *used += 1;
            // SAFETY: just made, and never freed.
            unsafe { &*made }
        }
    };
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
pub fn put_back(owner: Owner) {
    let _one_at_a_time = USED.lock().unwrap_or_else(PoisonError::into_inner);
    seen()
        .filter(|seen| seen.owner == owner)
        .for_each(Seen::put_back);
}

/// Likewise the word of `callable`, if it leads to us.
pub fn put_back_one(callable: &Bound<'_, PyAny>) -> Result<(), &'static str> {
    let (entry, _) = looked_up(callable)?;
    let _one_at_a_time = USED.lock().unwrap_or_else(PoisonError::into_inner);
    known(entry).into_iter().for_each(Seen::put_back);
    Ok(())
}

impl Seen {
    fn put_back(&self) {
        // SAFETY: the word was writable when it was changed, and modules of C are never unloaded.
        let word = unsafe { word_of(self.entry) };
        // What is no longer ours stays.
        let _ = word.compare_exchange(
            self.ours,
            self.function.address,
            Ordering::AcqRel,
            Ordering::Acquire,
        );
    }
}

/// The C function of `callable`, whether its calls are seen or not: to be called without being seen.
pub fn unseen(callable: &Bound<'_, PyAny>) -> Result<Function, &'static str> {
    looked_up(callable).map(|(_, function)| function)
}

fn seen() -> impl Iterator<Item = &'static Seen> {
    SEEN.iter().filter_map(|place| {
        // SAFETY: null, or made by `see` and never freed.
        unsafe { place.load(Ordering::Acquire).as_ref() }
    })
}

fn known(entry: *const PyMethodDef) -> Option<&'static Seen> {
    seen().find(|seen| ptr::eq(seen.entry, entry))
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
fn looked_up(callable: &Bound<'_, PyAny>) -> Result<(*mut PyMethodDef, Function), &'static str> {
    let object = callable.as_ptr();
    // SAFETY: the types say what the objects are; both are public structures of CPython.
    let (entry, class) = unsafe {
        if ffi::Py_TYPE(object) == &raw mut ffi::PyMethodDescr_Type {
            let method = &*object.cast::<ffi::PyMethodDescrObject>();
            (method.d_method, method.d_common.d_type)
        } else if ffi::PyCFunction_CheckExact(object) != 0 {
            let function = &*object.cast::<ffi::PyCFunctionObject>();
            (function.m_ml, ptr::null_mut())
        } else {
            return Err("it is no function of C");
        }
    };
    if let Some(seen) = known(entry) {
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
    let written = unsafe { writable(name as usize).map(|_| std::ffi::CStr::from_ptr(name)) };
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

/// # Safety
/// `entry` is a method table's entry.
unsafe fn word_of<'a>(entry: *const PyMethodDef) -> &'a AtomicUsize {
    // SAFETY: a function pointer, aligned, which CPython reads whole.
    unsafe { &*(&raw const (*entry).ml_meth).cast::<AtomicUsize>() }
}

/// # Safety
/// Called for the function that `PLACE` is of, with its arguments.
#[inline]
unsafe fn enter<const PLACE: usize>(
    this: *mut PyObject,
    class: *mut PyTypeObject,
    given: Given,
) -> *mut PyObject {
    // SAFETY: the table leads here only after the place has been filled; it is never freed.
    unsafe {
        let seen = &*SEEN[PLACE].load(Ordering::Relaxed);
        let call = Call {
            this,
            given,
            class,
            function: &seen.function,
        };
        // Subinterpreters share the tables.
        if seen.rule.wants() && ffi::PyInterpreterState_Get() == ffi::PyInterpreterState_Main() {
            return seen.rule.seen(&call);
        }
        call.pass()
    }
}

unsafe extern "C" fn no_args<const PLACE: usize>(
    this: *mut PyObject,
    _: *mut PyObject,
) -> *mut PyObject {
    // SAFETY: as CPython called it; so below.
    unsafe { enter::<PLACE>(this, ptr::null_mut(), Given::Nothing) }
}

unsafe extern "C" fn one<const PLACE: usize>(
    this: *mut PyObject,
    one: *mut PyObject,
) -> *mut PyObject {
    // SAFETY: see above.
    unsafe { enter::<PLACE>(this, ptr::null_mut(), Given::One(one)) }
}

unsafe extern "C" fn tuple<const PLACE: usize>(
    this: *mut PyObject,
    all: *mut PyObject,
) -> *mut PyObject {
    // SAFETY: see above.
    unsafe { enter::<PLACE>(this, ptr::null_mut(), Given::Tuple(all, ptr::null_mut())) }
}

unsafe extern "C" fn tuple_named<const PLACE: usize>(
    this: *mut PyObject,
    all: *mut PyObject,
    named: *mut PyObject,
) -> *mut PyObject {
    // SAFETY: see above.
    unsafe { enter::<PLACE>(this, ptr::null_mut(), Given::Tuple(all, named)) }
}

unsafe extern "C" fn fast<const PLACE: usize>(
    this: *mut PyObject,
    all: *const *mut PyObject,
    count: Py_ssize_t,
) -> *mut PyObject {
    // SAFETY: see above.
    unsafe {
        enter::<PLACE>(
            this,
            ptr::null_mut(),
            Given::Vector(all, count, ptr::null_mut()),
        )
    }
}

unsafe extern "C" fn fast_named<const PLACE: usize>(
    this: *mut PyObject,
    all: *const *mut PyObject,
    count: Py_ssize_t,
    names: *mut PyObject,
) -> *mut PyObject {
    // SAFETY: see above.
    unsafe { enter::<PLACE>(this, ptr::null_mut(), Given::Vector(all, count, names)) }
}

unsafe extern "C" fn in_class<const PLACE: usize>(
    this: *mut PyObject,
    class: *mut PyTypeObject,
    all: *const *mut PyObject,
    count: Py_ssize_t,
    names: *mut PyObject,
) -> *mut PyObject {
    // SAFETY: see above.
    unsafe { enter::<PLACE>(this, class, Given::Vector(all, count, names)) }
}

macro_rules! entrances {
    ($($place:literal,)*) => {
        /// The address of the code that takes the calls of the function at `place`.
        fn entrance(place: usize, shape: Shape) -> usize {
            match shape {
                Shape::NoArgs => [$(no_args::<$place> as call::Pair),*][place] as usize,
                Shape::One => [$(one::<$place> as call::Pair),*][place] as usize,
                Shape::Tuple => [$(tuple::<$place> as call::Pair),*][place] as usize,
                Shape::TupleNamed => [$(tuple_named::<$place> as call::Named),*][place] as usize,
                Shape::Fast => [$(fast::<$place> as call::Fast),*][place] as usize,
                Shape::FastNamed => [$(fast_named::<$place> as call::FastNamed),*][place] as usize,
                Shape::InClass => [$(in_class::<$place> as call::InClass),*][place] as usize,
            }
        }
    };
}

#[rustfmt::skip]
entrances!(
        0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15,
        16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31,
        32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43, 44, 45, 46, 47,
        48, 49, 50, 51, 52, 53, 54, 55, 56, 57, 58, 59, 60, 61, 62, 63,
        64, 65, 66, 67, 68, 69, 70, 71, 72, 73, 74, 75, 76, 77, 78, 79,
        80, 81, 82, 83, 84, 85, 86, 87, 88, 89, 90, 91, 92, 93, 94, 95,
);
