//! The functions that are seen, and the code that takes their calls.

use crate::call::{self, Arguments, Call, Function, Shape};
use pyo3::ffi::{self, PyMethodDef, PyObject, PyTypeObject, Py_ssize_t};
use std::mem::transmute_copy;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

/// Most functions that can be seen; each has code of its own for every calling convention.
pub(crate) const MOST: usize = 128;

/// What is done with the calls of a function.
pub trait Rule: Send + Sync {
    /// Whether the calling thread's calls matter now. Asked at each call: some ns.
    fn wants(&self) -> bool;

    /// In the place of the call: gives what it gives.
    ///
    /// # Safety
    /// Within the call, on its thread, attached to the main interpreter.
    unsafe fn see(&self, call: &Call<'_>) -> *mut PyObject;
}

/// Who has a function seen; each puts back its own.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Owner {
    /// Probes of blocking calls.
    Blocking,
    /// Listeners of single functions.
    Listeners,
    /// The gang: what starts threads and programs, and what tells of cores.
    Gang,
}

/// A function that is seen. Never freed: a call may be under way when it is put back.
pub(crate) struct WatchedFunction {
    pub(crate) entry: *mut PyMethodDef,
    pub(crate) owner: Owner,
    pub(crate) function: Function,
    pub(crate) ours: usize,
    pub(crate) rule: Box<dyn Rule>,
}

pub(crate) static WATCHED: [AtomicPtr<WatchedFunction>; MOST] =
    [const { AtomicPtr::new(ptr::null_mut()) }; MOST];
impl WatchedFunction {
    pub(crate) fn is_replaced(&self) -> bool {
        // SAFETY: modules of C are never unloaded.
        unsafe { word_of(self.entry) }.load(Ordering::Acquire) == self.ours
    }

    pub(crate) fn restore(&self) {
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

/// The entry as it was before it led to us; None: it does not.
///
/// # Safety
/// `entry` is a method table's entry.
pub(crate) unsafe fn original_entry(entry: *const PyMethodDef) -> Option<PyMethodDef> {
    let seen = find(entry).filter(|seen| seen.is_replaced())?;
    // SAFETY: as promised; the copy's word is nobody else's.
    unsafe {
        let mut copy = ptr::read(entry);
        word_of(&raw mut copy).store(seen.function.address, Ordering::Relaxed);
        Some(copy)
    }
}

pub(crate) fn watched_functions() -> impl Iterator<Item = &'static WatchedFunction> {
    WATCHED.iter().filter_map(|place| {
        // SAFETY: null, or made by `see` and never freed.
        unsafe { place.load(Ordering::Acquire).as_ref() }
    })
}

pub(crate) fn find(entry: *const PyMethodDef) -> Option<&'static WatchedFunction> {
    watched_functions().find(|seen| ptr::eq(seen.entry, entry))
}

/// # Safety
/// `entry` is a method table's entry.
pub(crate) unsafe fn word_of<'a>(entry: *const PyMethodDef) -> &'a AtomicUsize {
    // SAFETY: a function pointer, aligned, which CPython reads whole.
    unsafe { &*(&raw const (*entry).ml_meth).cast::<AtomicUsize>() }
}

/// # Safety
/// Called for the function that `PLACE` is of, with its arguments; `pass` calls a function of its type with them.
#[inline(always)]
unsafe fn enter<const PLACE: usize, F>(
    this: *mut PyObject,
    class: *mut PyTypeObject,
    given: Arguments,
    pass: impl FnOnce(F) -> *mut PyObject,
) -> *mut PyObject {
    // SAFETY: the table leads here only after the place has been filled; it is never freed. An address is a pointer.
    unsafe {
        let seen = &*WATCHED[PLACE].load(Ordering::Relaxed);
        if seen.rule.wants() {
            return seen.take(this, class, given);
        }
        pass(transmute_copy::<usize, F>(&seen.function.address))
    }
}

impl WatchedFunction {
    /// A call that its rule wants, unless another interpreter makes it: they share the tables.
    ///
    /// # Safety
    /// Called for this function, with its arguments.
    #[inline(never)]
    unsafe fn take(
        &self,
        this: *mut PyObject,
        class: *mut PyTypeObject,
        given: Arguments,
    ) -> *mut PyObject {
        let call = Call {
            this,
            given,
            class,
            function: &self.function,
        };
        // SAFETY: as promised.
        unsafe {
            if ffi::PyInterpreterState_Get() == ffi::PyInterpreterState_Main() {
                return self.rule.see(&call);
            }
            call.pass()
        }
    }
}

unsafe extern "C" fn no_args<const PLACE: usize>(
    this: *mut PyObject,
    nothing: *mut PyObject,
) -> *mut PyObject {
    // SAFETY: as CPython called it; so below.
    unsafe {
        let given = Arguments::Nothing;
        enter::<PLACE, call::Pair>(this, ptr::null_mut(), given, |pass| pass(this, nothing))
    }
}

unsafe extern "C" fn one_argument<const PLACE: usize>(
    this: *mut PyObject,
    one: *mut PyObject,
) -> *mut PyObject {
    // SAFETY: see above.
    unsafe {
        let given = Arguments::One(one);
        enter::<PLACE, call::Pair>(this, ptr::null_mut(), given, |pass| pass(this, one))
    }
}

unsafe extern "C" fn tuple<const PLACE: usize>(
    this: *mut PyObject,
    all: *mut PyObject,
) -> *mut PyObject {
    // SAFETY: see above.
    unsafe {
        let given = Arguments::Tuple(all, ptr::null_mut());
        enter::<PLACE, call::Pair>(this, ptr::null_mut(), given, |pass| pass(this, all))
    }
}

unsafe extern "C" fn tuple_named<const PLACE: usize>(
    this: *mut PyObject,
    all: *mut PyObject,
    named: *mut PyObject,
) -> *mut PyObject {
    // SAFETY: see above.
    unsafe {
        let given = Arguments::Tuple(all, named);
        enter::<PLACE, call::Named>(this, ptr::null_mut(), given, |pass| pass(this, all, named))
    }
}

unsafe extern "C" fn fast<const PLACE: usize>(
    this: *mut PyObject,
    all: *const *mut PyObject,
    count: Py_ssize_t,
) -> *mut PyObject {
    // SAFETY: see above.
    unsafe {
        let given = Arguments::Vector(all, count, ptr::null_mut());
        enter::<PLACE, call::Fast>(this, ptr::null_mut(), given, |pass| pass(this, all, count))
    }
}

unsafe extern "C" fn fast_named<const PLACE: usize>(
    this: *mut PyObject,
    all: *const *mut PyObject,
    count: Py_ssize_t,
    names: *mut PyObject,
) -> *mut PyObject {
    // SAFETY: see above.
    unsafe {
        let given = Arguments::Vector(all, count, names);
        enter::<PLACE, call::FastNamed>(this, ptr::null_mut(), given, |pass| {
            pass(this, all, count, names)
        })
    }
}

unsafe extern "C" fn in_class<const PLACE: usize>(
    this: *mut PyObject,
    class: *mut PyTypeObject,
    all: *const *mut PyObject,
    count: Py_ssize_t,
    names: *mut PyObject,
) -> *mut PyObject {
    // SAFETY: see above.
    unsafe {
        let given = Arguments::Vector(all, count, names);
        enter::<PLACE, call::InClass>(this, class, given, |pass| {
            pass(this, class, all, count, names)
        })
    }
}

macro_rules! entrances {
    ($($place:literal,)*) => {
        /// The address of the code that takes the calls of the function at `place`.
        pub(crate) fn entrance(place: usize, shape: Shape) -> usize {
            match shape {
                Shape::NoArgs => [$(no_args::<$place> as call::Pair),*][place] as usize,
                Shape::One => [$(one_argument::<$place> as call::Pair),*][place] as usize,
                Shape::Tuple => [$(tuple::<$place> as call::Pair),*][place] as usize,
                Shape::TupleNamed => [$(tuple_named::<$place> as call::Named),*][place] as usize,
                Shape::Fast => [$(fast::<$place> as call::Fast),*][place] as usize,
                Shape::FastNamed => [$(fast_named::<$place> as call::FastNamed),*][place] as usize,
                Shape::InClass => [$(in_class::<$place> as call::InClass),*][place] as usize,
                Shape::Object => unreachable!("method tables have no objects"),
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
        96, 97, 98, 99, 100, 101, 102, 103, 104, 105, 106, 107, 108, 109, 110, 111,
        112, 113, 114, 115, 116, 117, 118, 119, 120, 121, 122, 123, 124, 125, 126, 127,
);
