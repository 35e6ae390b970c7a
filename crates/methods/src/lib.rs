//! Calls of C functions, seen without replacing anything that a program can look at.
//!
//! A builtin function, a method of a C type and a function of Cython hold a pointer to their `PyMethodDef`, and CPython
//! reads `ml_meth` in it at each call, its specialised instructions too. That one word is changed: the function object,
//! its name, its type and its pickle stay what they are, and a name or a bound method that was copied before leads here
//! as well.
//!
//! | module | is |
//! |---|---|
//! | [`call`] | one call as it came, and how to pass it on |
//! | [`hash`] | the hash of such a function, which CPython makes from that word |
//! | [`watched`] | what is seen, and the code that takes its calls |
//! | [`table`] | changes and puts back the words |

pub mod call;
mod hash;
pub mod table;
mod watched;
