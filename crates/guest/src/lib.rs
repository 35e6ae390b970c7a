//! The seam of what a service loads: gives the crates' classes to Python and lets the crates know of each other. Few
//! classes, integer nanoseconds; `_native.pyi` is the manual. Importing it changes nothing in the process.

mod blocking;
mod control;
mod descriptors;
mod gang;
mod gil_looks;
mod health;
mod listeners;
mod nonblocking_calls;
mod permit_queue;
mod placed;
mod serving;
mod stalled_threads;
mod threads;
mod turns;
mod upstreams;

/// `greenlane._native`.
#[pyo3::pymodule(gil_used = false)]
mod _native {
    #[pymodule_export]
    #[allow(non_upper_case_globals)] // The name that Python expects.
    const __version__: &str = env!("CARGO_PKG_VERSION");
    #[pymodule_export]
    const NEWEST_PYTHON: (u8, u8) = greenlane_interpreter::NEWEST;
    #[pymodule_export]
    use super::blocking::{blocking_put_back, blocking_report_all, blocking_see, blocking_within};
    #[pymodule_export]
    use super::control::ControlSocket;
    #[pymodule_export]
    use super::descriptors::{die_with_parent, Descriptor};
    #[pymodule_export]
    use super::gang::{
        gang_join, gang_see, gang_shown, gang_start, gang_stop, hand_over, GangChoice,
    };
    #[pymodule_export]
    use super::gil_looks::GilLooks;
    #[pymodule_export]
    use super::health::{call_in_main_thread, CollectionTime, Health};
    #[pymodule_export]
    use super::listeners::{lead_to, listen_to, stop_listening, unseen_method};
    #[pymodule_export]
    use super::nonblocking_calls::{readable_now, rearm_now, recv_now, send_at_once, send_now};
    #[pymodule_export]
    use super::permit_queue::PermitQueue;
    #[pymodule_export]
    use super::placed::CallProfile;
    #[pymodule_export]
    use super::serving::{HeavyRouteLane, Shed, WorkerConcurrency};
    #[pymodule_export]
    use super::stalled_threads::StalledThreads;
    #[pymodule_export]
    use super::threads::{
        threads_heavy, threads_learn_share, threads_nearly_full, threads_next_queue,
    };
    #[pymodule_export]
    use super::upstreams::{KeyStatus, Start, UpstreamTotals, Upstreams};
    #[pymodule_export]
    use greenlane_interpreter::endings::guard_endings;
    #[pymodule_export]
    use greenlane_permits::permits::{locks_held, Paused, Permits};
    #[pymodule_export]
    use greenlane_recorder::asyncio::Steps;
    #[pymodule_export]
    use greenlane_recorder::current_frames;
    #[pymodule_export]
    use greenlane_recorder::gevent::Switches;
    #[pymodule_export]
    use greenlane_recorder::python::{calls_install, calls_rescan, calls_state, calls_uninstall};
    #[pymodule_export]
    use greenlane_recorder::recorder::Recorder;
    #[pymodule_export]
    use greenlane_recorder::resource::Resource;
    #[pymodule_export]
    use greenlane_recorder::sampler::{sampler_start, sampler_stop};

    /// Turns for permits are written down. Nothing outside of this module changes.
    #[pymodule_init]
    fn init(_module: &pyo3::Bound<'_, pyo3::types::PyModule>) -> pyo3::PyResult<()> {
        greenlane_permits::observer::tell(greenlane_recorder::waited_for_a_permit);
        greenlane_permits::observer::tell_of_turns(super::turns::record_turn);
        Ok(())
    }
}
