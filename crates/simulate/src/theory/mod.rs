//! What theory says without a simulation. Each module says where it is exact, and where it stops holding.
//!
//! Times are in any one unit, rates in its inverse: nothing here knows which. CPU and I/O are those of one request; I/O
//! lasts until its reply is there, never until the code goes on.
//!
//! | module | says |
//! |---|---|
//! | [`asymptotes`] | what nothing can exceed: the knee, the most done, the least latency |
//! | [`waiting`] | waits in an open queue of one or several servers, and their percentiles |
//! | [`fifo`] | the exact distribution of the wait for one server, bursts of any distribution |
//! | [`lanes`] | up to which load a lane with processes of its own is stable |

pub mod asymptotes;
pub mod fifo;
pub mod lanes;
pub mod waiting;
