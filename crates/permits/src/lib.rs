//! CPU permits: heavy phases of jobs take turns. The decisions are `greenlane_policy`'s; here are the waits around them.
//!
//! | module | is |
//! |---|---|
//! | [`permits`] | the view to Python |
//! | [`locks`] | which locks are held by threads that run a job |
//! | [`job`], [`running`] | one job and its phases; the job that runs on this thread |
//! | [`shared`] | what all jobs of a process share: rules, routes, gate, counters, mode |
//! | [`gate`] | where phases wait for a permit; one for each process |
//! | [`gang`] | threads that run jobs: seen while they compute, kept to one core while that pays |
//! | [`heavy`] | from which burst on a phase is heavy, as the process has learned it |
//! | [`interval`] | the interpreter's switch interval while a permit is held |
//! | [`routes`] | what is learned of each route's phases |
//! | [`places`] | where a phase begins, which is what tells its class |
//! | [`thread_view`] | the part of a thread that others may look at |
//! | [`counters`] | what has been counted |
//! | [`observer`] | who is told of waits and turns |
//! | [`requests`] | a request's deadline and route, from its environ |

mod counters;
pub mod gang;
mod gate;
mod heavy;
mod interval;
pub mod job;
pub mod locks;
pub mod observer;
pub mod permits;
mod places;
mod requests;
mod routes;
pub mod running;
mod shared;
mod thread_view;
