//! One call as it came, in whichever of CPython's calling conventions, and how to pass it on.

use pyo3::ffi::{self, PyObject, PyTypeObject, Py_ssize_t};
use std::ffi::{c_int, CStr};
use std::mem::transmute;
use std::ptr;

pub type Pair = unsafe extern "C" fn(*mut PyObject, *mut PyObject) -> *mut PyObject;
pub type Named = unsafe extern "C" fn(*mut PyObject, *mut PyObject, *mut PyObject) -> *mut PyObject;
pub type Fast =
    unsafe extern "C" fn(*mut PyObject, *const *mut PyObject, Py_ssize_t) -> *mut PyObject;
pub type FastNamed = unsafe extern "C" fn(
    *mut PyObject,
    *const *mut PyObject,
    Py_ssize_t,
    *mut PyObject,
) -> *mut PyObject;
pub type InClass = unsafe extern "C" fn(
    *mut PyObject,
    *mut PyTypeObject,
    *const *mut PyObject,
    Py_ssize_t,
    *mut PyObject,
) -> *mut PyObject;

/// A calling convention, by `ml_flags`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    NoArgs,
    One,
    Tuple,
    TupleNamed,
    Fast,
    FastNamed,
    InClass,
}

impl Shape {
    /// None for flags that CPython has not had so far, and for class and static methods.
    pub fn of(flags: c_int) -> Option<Self> {
        const VARARGS: c_int = ffi::METH_VARARGS;
        const KEYWORDS: c_int = ffi::METH_KEYWORDS;
        const FAST: c_int = ffi::METH_FASTCALL;
        Some(match flags & !ffi::METH_COEXIST {
            ffi::METH_NOARGS => Self::NoArgs,
            ffi::METH_O => Self::One,
            VARARGS => Self::Tuple,
            _ if flags & !ffi::METH_COEXIST == VARARGS | KEYWORDS => Self::TupleNamed,
            FAST => Self::Fast,
            _ if flags & !ffi::METH_COEXIST == FAST | KEYWORDS => Self::FastNamed,
            _ if flags & !ffi::METH_COEXIST == FAST | KEYWORDS | ffi::METH_METHOD => Self::InClass,
            _ => return None,
        })
    }
}

/// The arguments, as the convention hands them over.
#[derive(Clone, Copy)]
pub enum Given {
    Nothing,
    One(*mut PyObject),
    Tuple(*mut PyObject, *mut PyObject),
    Vector(*const *mut PyObject, Py_ssize_t, *mut PyObject),
}

/// A C function: what a method table said before it led to us, or says still.
#[derive(Clone, Copy)]
pub struct Function {
    /// Of the type that `shape` says.
    pub address: usize,
    pub shape: Shape,
    /// The class that has the method; null for a module's function.
    pub class: *mut PyTypeObject,
}

// SAFETY: C code and a type, which live as long as the process; called with the GIL, or where there is none to have.
unsafe impl Send for Function {}
// SAFETY: likewise.
unsafe impl Sync for Function {}

impl Function {
    /// Calls it.
    ///
    /// # Safety
    /// The thread is attached, `this` is what the function is for, and `given` is what `shape` takes.
    #[inline]
    unsafe fn pass(
        &self,
        this: *mut PyObject,
        given: Given,
        class: *mut PyTypeObject,
    ) -> *mut PyObject {
        let at = self.address as *const ();
        // SAFETY: `address` is a function of the type that `shape` stands for.
        unsafe {
            match (self.shape, given) {
                (Shape::TupleNamed, Given::Tuple(all, named)) => {
                    transmute::<*const (), Named>(at)(this, all, named)
                }
                (_, Given::Tuple(all, _)) => transmute::<*const (), Pair>(at)(this, all),
                (_, Given::One(one)) => transmute::<*const (), Pair>(at)(this, one),
                (_, Given::Nothing) => transmute::<*const (), Pair>(at)(this, ptr::null_mut()),
                (Shape::Fast, Given::Vector(all, count, _)) => {
                    transmute::<*const (), Fast>(at)(this, all, count)
                }
                (Shape::InClass, Given::Vector(all, count, names)) => {
                    transmute::<*const (), InClass>(at)(this, class, all, count, names)
                }
                (_, Given::Vector(all, count, names)) => {
                    transmute::<*const (), FastNamed>(at)(this, all, count, names)
                }
            }
        }
    }

    /// Calls it with `arguments`, all by place: a new reference, or null with an error set.
    ///
    /// # Safety
    /// The thread is attached, and `this` is what the function is for.
    pub unsafe fn call(&self, this: *mut PyObject, arguments: &[*mut PyObject]) -> *mut PyObject {
        let count = arguments.len() as Py_ssize_t;
        // SAFETY: the arguments are objects that the caller holds; the tuple takes references of its own.
        unsafe {
            match self.shape {
                Shape::NoArgs => self.pass(this, Given::Nothing, self.class),
                Shape::One => self.pass(this, Given::One(arguments[0]), self.class),
                Shape::Tuple | Shape::TupleNamed => {
                    let all = ffi::PyTuple_New(count);
                    if all.is_null() {
                        return ptr::null_mut();
                    }
                    for (place, &each) in arguments.iter().enumerate() {
                        ffi::Py_INCREF(each);
                        ffi::PyTuple_SetItem(all, place as Py_ssize_t, each);
                    }
                    let result = self.pass(this, Given::Tuple(all, ptr::null_mut()), self.class);
                    ffi::Py_DECREF(all);
                    result
                }
                _ => {
                    let given = Given::Vector(arguments.as_ptr(), count, ptr::null_mut());
                    self.pass(this, given, self.class)
                }
            }
        }
    }
}

/// One call of a function that is seen.
pub struct Call<'a> {
    pub this: *mut PyObject,
    pub given: Given,
    pub class: *mut PyTypeObject,
    pub function: &'a Function,
}

impl Call<'_> {
    /// Passes it on as it came.
    ///
    /// # Safety
    /// Within the call that it stands for.
    #[inline]
    pub unsafe fn pass(&self) -> *mut PyObject {
        // SAFETY: these are the arguments that came for this function.
        unsafe { self.function.pass(self.this, self.given, self.class) }
    }

    /// How many arguments came by place.
    pub fn placed(&self) -> usize {
        match self.given {
            Given::Nothing => 0,
            Given::One(_) => 1,
            // SAFETY: the tuple of the call.
            Given::Tuple(all, _) => unsafe { ffi::PyTuple_Size(all) as usize },
            Given::Vector(_, count, _) => count as usize,
        }
    }

    /// How many came by name.
    pub fn named(&self) -> usize {
        // SAFETY: the names of the call: null, a dict, or a tuple.
        unsafe {
            match self.given {
                Given::Tuple(_, names) if !names.is_null() => ffi::PyDict_Size(names) as usize,
                Given::Vector(_, _, names) if !names.is_null() => ffi::PyTuple_Size(names) as usize,
                _ => 0,
            }
        }
    }

    /// The argument at `place`, or called `name`: borrowed; None when it was not given.
    pub fn argument(&self, place: usize, name: Option<&CStr>) -> Option<*mut PyObject> {
        let count = self.placed();
        // SAFETY: the arguments of the call, within their bounds; they live as long as it.
        unsafe {
            if place < count {
                return Some(match self.given {
                    Given::One(one) => one,
                    Given::Tuple(all, _) => ffi::PyTuple_GetItem(all, place as Py_ssize_t),
                    Given::Vector(all, _, _) => *all.add(place),
                    Given::Nothing => return None,
                });
            }
            let name = name?;
            match self.given {
                Given::Tuple(_, names) if !names.is_null() => {
                    let found = ffi::PyDict_GetItemString(names, name.as_ptr());
                    (!found.is_null()).then_some(found)
                }
                Given::Vector(all, _, names) if !names.is_null() => (0..ffi::PyTuple_Size(names))
                    .find(|&at| {
                        let each = ffi::PyTuple_GetItem(names, at);
                        ffi::PyUnicode_CompareWithASCIIString(each, name.as_ptr()) == 0
                    })
                    .map(|at| *all.add(count + at as usize)),
                _ => None,
            }
        }
    }
}
