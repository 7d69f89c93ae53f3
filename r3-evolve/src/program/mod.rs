//! Source in: which file, how it is compiled, which captured kernel it stands for.
