//! The recording: what happened in a service, as events in an open file format (`docs/recording-format.md`).
//!
//! | module | is |
//! |---|---|
//! | [`event`] | what can be written down |
//! | [`codec`] | events to bytes and back |
//! | [`chunk`] | the frame around what one flush wrote: magic, version, process, checksum |

pub mod chunk;
pub mod codec;
pub mod event;
