//! What merchants of all kinds do to each other's orders: simulated, so every run is the same run.

mod bounds;
mod breakers;
mod limits;
mod shares;
mod world;
