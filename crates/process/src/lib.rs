//! The process that we run in, below Python.
//!
//! | module | is |
//! |---|---|
//! | [`affinity`] | which cores threads may use, and how busy the cores are |
//! | [`clock`] | clocks, as integer nanoseconds |
//! | [`control_socket`] | a socket that one of our threads answers |
//! | [`cpu`] | the CPU time of a thread's work |
//! | [`descriptors`] | our descriptors among the program's |
//! | [`forks`] | whether this process is another one than a moment ago |
//! | [`numbers`] | maps and sets by numbers of our own |
//! | [`signals`] | threads that get none |
//! | [`speed`] | how fast the cores compute now |
//! | [`our_threads`] | threads that are no part of the program |
//! | [`objects`] | the loaded objects and the slots through which they call each other |
//! | [`pages`] | which memory may be written |

pub mod affinity;
pub mod clock;
pub mod control_socket;
pub mod cpu;
pub mod descriptors;
pub mod forks;
pub mod numbers;
pub mod objects;
pub mod our_threads;
pub mod pages;
pub mod signals;
pub mod speed;
