//! Greenlane's decisions, each made in one place: production and the simulator run the same code.
//!
//! Pure: no clock, no lock, no thread, no Python. Time comes in as integer nanoseconds of one monotonic clock; what
//! goes out is a decision. The shells that wait, wake and count live in
//! `greenlane-permits` and in Python.
//!
//! | module | decides |
//! |---|---|
//! | [`burst`] | what CPU burst a phase is expected to have |
//! | [`heavy_threshold`] | from which burst on a phase is heavy |
//! | [`weight`] | whether a phase needs a CPU permit |
//! | [`order`] | in which order waiters are granted |
//! | [`queue`] | who holds a permit, who waits, who is granted next |
//! | [`placed`] | whether a placed call runs where its caller is |
//! | [`gil_waits`] | how long a loop would have waited for the GIL beside a call |
//! | [`worker_concurrency`] | how many requests a worker gets at once |
//! | [`heavy_route_lane`] | which routes go to a lane apart |
//! | [`threads`] | which request gets a thread next |
//! | [`gang`] | whether threads that share a GIL keep to one core, and to which |
//! | [`shed`] | whether a request that waited is refused because it would end too late |
//! | [`upstream`] | which order goes to its upstream next: limits, breakers and fair order for each key |
//! | [`closed_loop`] | nothing: the mean throughput of one CPU and a delay, which `worker_concurrency` counts on |

pub mod burst;
pub mod closed_loop;
pub mod gang;
pub mod gil_waits;
pub mod heavy_route_lane;
pub mod heavy_threshold;
pub mod order;
pub mod placed;
pub mod queue;
pub mod shed;
pub mod switch_interval;
pub mod threads;
pub mod upstream;
pub mod weight;
pub mod worker_concurrency;
