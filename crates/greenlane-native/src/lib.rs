//! The seam between greenlane-core and CPython. Few classes, integer nanoseconds; `_native.pyi` is the manual.

mod arena;
mod asyncio;
mod calls;
mod chooser;
mod clock;
mod counters;
mod forks;
mod gate;
mod gevent;
mod gil_looks;
mod interval;
mod job;
mod load;
mod locks;
mod now;
mod permits;
mod placed;
mod record;
mod recording;
mod recording_writer;
mod reference;
mod routes;
mod serving;
mod shared;
mod simulate;
mod standing;
mod theory;
mod thread;
mod upstreams;

/// `greenlane._native`.
#[pyo3::pymodule(gil_used = false)]
mod _native {
    #[pymodule_export]
    #[allow(non_upper_case_globals)] // The name that Python expects.
    const __version__: &str = env!("CARGO_PKG_VERSION");
    #[pymodule_export]
    use super::arena::channel::Channel;
    #[pymodule_export]
    use super::arena::commons::Commons;
    #[pymodule_export]
    use super::arena::die_with_parent;
    #[pymodule_export]
    use super::arena::inbox::Inbox;
    #[pymodule_export]
    use super::arena::outbox::Outbox;
    #[pymodule_export]
    use super::arena::poll::Poll;
    #[pymodule_export]
    use super::arena::segment::{Block, Segment};
    #[pymodule_export]
    use super::asyncio::Steps;
    #[pymodule_export]
    use super::calls::python::{
        calls_install, calls_rescan, calls_state, calls_uninstall, guard_endings,
    };
    #[pymodule_export]
    use super::chooser::Chooser;
    #[pymodule_export]
    use super::gevent::Switches;
    #[pymodule_export]
    use super::gil_looks::GilLooks;
    #[pymodule_export]
    use super::load::load_run;
    #[pymodule_export]
    use super::locks::{Lock, RLock};
    #[pymodule_export]
    use super::now::{rearm_now, recv_now, send_at_once, send_now};
    #[pymodule_export]
    use super::permits::{locks_held, Paused, Permits};
    #[pymodule_export]
    use super::placed::CallProfile;
    #[pymodule_export]
    use super::record::recorder::Recorder;
    #[pymodule_export]
    use super::record::sampler::{sampler_start, sampler_stop};
    #[pymodule_export]
    use super::recording::Recording;
    #[pymodule_export]
    use super::recording_writer::RecordingWriter;
    #[pymodule_export]
    use super::reference::{BurstSketch, PermitQueue};
    #[pymodule_export]
    use super::serving::{Apart, AtOnce, Shed};
    #[pymodule_export]
    use super::simulate::simulate;
    #[pymodule_export]
    use super::standing::Standing;
    #[pymodule_export]
    use super::theory::{
        closed_bounds, closed_classes, closed_means, closed_network, closed_number, hard_lane,
        shared_latency, usl_fit, waits_frac, OpenQueue,
    };
    #[pymodule_export]
    use super::upstreams::{KeyLook, Start, UpstreamTotals, Upstreams};

    #[pymodule_init]
    fn init(module: &pyo3::Bound<'_, pyo3::types::PyModule>) -> pyo3::PyResult<()> {
        super::calls::python::guard_endings_at_exit(module)
    }
}
