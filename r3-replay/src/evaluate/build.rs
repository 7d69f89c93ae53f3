//! A candidate becomes a recipe and a launch shape, or is refused before anything is compiled.
