//! One process for each device, with a watchdog.
