//! `greenlane_testing`: what only the checkout's tests call. Built by `make build`, in no wheel.

mod burst_sketch;
mod large_recording;
mod recording_writer;
mod slots;

/// `greenlane_testing._native`.
#[pyo3::pymodule(gil_used = false)]
mod _native {
    #[pymodule_export]
    use super::burst_sketch::BurstSketch;
    #[pymodule_export]
    use super::large_recording::write_large_recording;
    #[pymodule_export]
    use super::recording_writer::RecordingWriter;
    #[pymodule_export]
    use super::slots::slots;
}
