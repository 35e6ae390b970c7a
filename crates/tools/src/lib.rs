//! The seam of what runs outside of services; `_native.pyi` is the manual.

mod load;
mod mapped;
mod recording;
mod simulate;
mod speed;

/// `greenlane_tools._native`.
#[pyo3::pymodule(gil_used = false)]
mod _native {
    #[pymodule_export]
    use super::load::load_run;
    #[pymodule_export]
    use super::recording::Recording;
    #[pymodule_export]
    use super::simulate::simulate;
    #[pymodule_export]
    use super::speed::core_loop_ns;
}
