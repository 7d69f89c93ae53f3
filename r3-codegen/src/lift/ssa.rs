//! Where values meet: liveness and places of phis.
