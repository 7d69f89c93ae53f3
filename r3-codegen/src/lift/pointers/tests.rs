//! Roots of real compilers' output and of small texts.
