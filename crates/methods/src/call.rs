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
    /// No C function: an object that is called. The object that its arguments are for stands before them.
    Object,
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
pub enum Arguments {
    Nothing,
    One(*mut PyObject),
    Tuple(*mut PyObject, *mut PyObject),
    Vector(*const *mut PyObject, Py_ssize_t, *mut PyObject),
}

/// A C function: what a method table said before it led to us, or says still.
#[derive(Clone, Copy)]
pub struct Function {
    /// Of the type that `shape` says; an object's, if it is one.
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
        given: Arguments,
        class: *mut PyTypeObject,
    ) -> *mut PyObject {
        let at = self.address as *const ();
        // SAFETY: `address` is a function of the type that `shape` stands for.
        unsafe {
            match (self.shape, given) {
                (Shape::TupleNamed, Arguments::Tuple(all, named)) => {
                    transmute::<*const (), Named>(at)(this, all, named)
                }
                (_, Arguments::Tuple(all, _)) => transmute::<*const (), Pair>(at)(this, all),
                (_, Arguments::One(one)) => transmute::<*const (), Pair>(at)(this, one),
                (_, Arguments::Nothing) => transmute::<*const (), Pair>(at)(this, ptr::null_mut()),
                (Shape::Fast, Arguments::Vector(all, count, _)) => {
                    transmute::<*const (), Fast>(at)(this, all, count)
                }
                (Shape::InClass, Arguments::Vector(all, count, names)) => {
                    transmute::<*const (), InClass>(at)(this, class, all, count, names)
                }
                (Shape::Object, Arguments::Vector(all, count, names)) => {
                    let object = self.address as *mut PyObject;
                    ffi::PyObject_Vectorcall(object, all.sub(1), count as usize + 1, names)
                }
                (_, Arguments::Vector(all, count, names)) => {
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
                Shape::NoArgs => self.pass(this, Arguments::Nothing, self.class),
                Shape::One => self.pass(this, Arguments::One(arguments[0]), self.class),
                Shape::Tuple | Shape::TupleNamed => with_tuple(
                    arguments.len(),
                    |at| arguments[at],
                    |all| self.pass(this, Arguments::Tuple(all, ptr::null_mut()), self.class),
                ),
                _ => {
                    let given = Arguments::Vector(arguments.as_ptr(), count, ptr::null_mut());
                    self.pass(this, given, self.class)
                }
            }
        }
    }
}

/// One call of a function that is seen.
pub struct Call<'a> {
    pub this: *mut PyObject,
    pub given: Arguments,
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

    /// Passes it on with `ours` in the place of the argument at `place`, which came by place.
    ///
    /// # Safety
    /// As of [`Call::pass`]; `ours` is an object that the caller holds.
    pub unsafe fn pass_with(&self, place: usize, ours: *mut PyObject) -> *mut PyObject {
        // SAFETY: the arguments of the call, within their bounds.
        unsafe {
            match self.given {
                Arguments::Nothing => self.pass(),
                Arguments::One(_) => {
                    self.function
                        .pass(self.this, Arguments::One(ours), self.class)
                }
                Arguments::Tuple(all, _) if ffi::Py_REFCNT(all) == 1 => {
                    // Made for this call: nobody else looks at it.
                    let theirs = ffi::PyTuple_GET_ITEM(all, place as Py_ssize_t);
                    ffi::PyTuple_SET_ITEM(all, place as Py_ssize_t, ffi::Py_NewRef(ours));
                    let result = self.pass();
                    ffi::PyTuple_SET_ITEM(all, place as Py_ssize_t, theirs);
                    ffi::Py_DECREF(ours);
                    result
                }
                Arguments::Tuple(all, named) => {
                    let given = |at| match at == place {
                        true => ours,
                        false => ffi::PyTuple_GET_ITEM(all, at as Py_ssize_t),
                    };
                    with_tuple(self.placed(), given, |copy| {
                        self.function
                            .pass(self.this, Arguments::Tuple(copy, named), self.class)
                    })
                }
                Arguments::Vector(_, count, names) => self.with_copy(|copy| {
                    copy[place + 1] = ours;
                    let given = Arguments::Vector(copy.as_ptr().add(1), count, names);
                    self.function.pass(self.this, given, self.class)
                }),
            }
        }
    }

    /// Calls `callable` with what the call is for, and its arguments.
    ///
    /// # Safety
    /// As of [`Call::pass`].
    pub unsafe fn hand_to(&self, callable: *mut PyObject) -> *mut PyObject {
        // SAFETY: the arguments of the call, within their bounds.
        unsafe {
            match self.given {
                Arguments::Tuple(all, named) => {
                    let given = |at| match at {
                        0 => self.this,
                        _ => ffi::PyTuple_GET_ITEM(all, at as Py_ssize_t - 1),
                    };
                    with_tuple(self.placed() + 1, given, |copy| {
                        ffi::PyObject_Call(callable, copy, named)
                    })
                }
                Arguments::Nothing => {
                    ffi::PyObject_Vectorcall(callable, &self.this, 1, ptr::null_mut())
                }
                Arguments::One(one) => ffi::PyObject_Vectorcall(
                    callable,
                    [self.this, one].as_ptr(),
                    2,
                    ptr::null_mut(),
                ),
                Arguments::Vector(_, count, names) => self.with_copy(|copy| {
                    ffi::PyObject_Vectorcall(callable, copy.as_ptr(), count as usize + 1, names)
                }),
            }
        }
    }

    /// Calls `then` with what the call is for and all arguments after it.
    ///
    /// # Safety
    /// Within the call, which came as a vector.
    unsafe fn with_copy(
        &self,
        then: impl FnOnce(&mut [*mut PyObject]) -> *mut PyObject,
    ) -> *mut PyObject {
        const FEW: usize = 12;
        let Arguments::Vector(all, ..) = self.given else {
            return ptr::null_mut();
        };
        let total = self.placed() + self.named();
        let (mut few, mut many) = ([ptr::null_mut(); FEW], Vec::new());
        let copy = match few.get_mut(..=total) {
            Some(copy) => copy,
            None => {
                many.resize(total + 1, ptr::null_mut());
                &mut many[..]
            }
        };
        copy[0] = self.this;
        // SAFETY: as many as the vector has, values by name after those by place.
        unsafe { ptr::copy_nonoverlapping(all, copy.as_mut_ptr().add(1), total) };
        then(copy)
    }

    /// How many arguments came by place.
    pub fn placed(&self) -> usize {
        match self.given {
            Arguments::Nothing => 0,
            Arguments::One(_) => 1,
            // SAFETY: the tuple of the call.
            Arguments::Tuple(all, _) => unsafe { ffi::PyTuple_GET_SIZE(all) as usize },
            Arguments::Vector(_, count, _) => count as usize,
        }
    }

    /// How many came by name.
    pub fn named(&self) -> usize {
        // SAFETY: the names of the call: null, a dict, or a tuple.
        unsafe {
            match self.given {
                Arguments::Tuple(_, names) if !names.is_null() => ffi::PyDict_Size(names) as usize,
                Arguments::Vector(_, _, names) if !names.is_null() => {
                    ffi::PyTuple_GET_SIZE(names) as usize
                }
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
                    Arguments::One(one) => one,
                    Arguments::Tuple(all, _) => ffi::PyTuple_GET_ITEM(all, place as Py_ssize_t),
                    Arguments::Vector(all, _, _) => *all.add(place),
                    Arguments::Nothing => return None,
                });
            }
            let name = name?;
            match self.given {
                Arguments::Tuple(_, names) if !names.is_null() => {
                    let found = ffi::PyDict_GetItemString(names, name.as_ptr());
                    (!found.is_null()).then_some(found)
                }
                Arguments::Vector(all, _, names) if !names.is_null() => {
                    (0..ffi::PyTuple_GET_SIZE(names))
                        .find(|&at| {
                            let each = ffi::PyTuple_GET_ITEM(names, at);
                            ffi::PyUnicode_CompareWithASCIIString(each, name.as_ptr()) == 0
                        })
                        .map(|at| *all.add(count + at as usize))
                }
                _ => None,
            }
        }
    }
}

/// Calls `then` with a tuple of `count` objects, borrowed from `given`; null with an error set if there is no memory.
///
/// # Safety
/// The thread is attached.
unsafe fn with_tuple(
    count: usize,
    given: impl Fn(usize) -> *mut PyObject,
    then: impl FnOnce(*mut PyObject) -> *mut PyObject,
) -> *mut PyObject {
    // SAFETY: each place of the new tuple is filled, with a reference of its own.
    unsafe {
        let made = ffi::PyTuple_New(count as Py_ssize_t);
        if made.is_null() {
            return ptr::null_mut();
        }
        for at in 0..count {
            ffi::PyTuple_SET_ITEM(made, at as Py_ssize_t, ffi::Py_NewRef(given(at)));
        }
        let result = then(made);
        ffi::Py_DECREF(made);
        result
    }
}
