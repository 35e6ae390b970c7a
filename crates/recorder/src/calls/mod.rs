//! Calls of the C library, seen where they are called, from any library: `socket`, `ssl`, libpq, libuv, libev.
//!
//! An object calls a function of another one through a slot that holds its address. Ours goes there instead; it calls
//! the function, and tells [`crate::thread_state`] how long it took.
//!
//! | module | is |
//! |---|---|
//! | [`symbols`] | which functions |
//! | [`originals`] | where they really are |
//! | [`replacements`] | what stands in their place |
//! | [`redirection`] | the slots made to lead to us, and back |
//! | [`redirected`] | what stands in the functions' place |
//! | [`errno`] | what they leave as it was |
//! | [`files`] | the same for files |
//! | [`conditions`] | the same for condition variables and futexes |
//! | [`gil`], [`waking`] | of them, the GIL's; how long it is nobody's while somebody waits for it |
//! | [`sockets`] | the kernel's stamps |
//! | [`peers`] | which connection is from whom |
//! | [`realtime`] | their clock |
//! | [`installation`] | all of it, tested, and taken away again |
//! | [`python`] | the face to Python |
//!
//! Without it (another C library than glibc, an unknown processor, a test that failed) recording goes on, with bounds
//! instead of exact times.

mod conditions;
mod errno;
mod files;
pub(crate) mod gil;
pub mod installation;
mod originals;
pub(crate) mod peers;
pub mod python;
mod realtime;
mod redirected;
mod redirection;
mod replacements;
pub(crate) mod sockets;
mod symbols;
pub(crate) mod waking;
