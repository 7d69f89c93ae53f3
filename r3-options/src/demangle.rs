//! C++ names of kernels, made readable within bounds.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use cpp_demangle::{DemangleOptions, ParseOptions, Symbol};

/// Longest mangled name that is demangled.
const MANGLED_LIMIT: usize = 64 << 10;
/// Longest demangled name. Substitutions can make a short name very long.
const DEMANGLED_LIMIT: usize = 256 << 10;
/// Deepest nesting, in parsing and in printing.
const DEPTH_LIMIT: u32 = 96;

/// The demangled form of a C++ name, with return type and parameters, e.g.
/// `void scale<float>(float*, int)`. `None` when the name is not mangled C++ or
/// is beyond the bounds.
pub fn demangle(mangled: &str) -> Option<String> {
    demangled_with(mangled, DemangleOptions::new())
}

/// The same without the return type: `scale<float>(float*, int)`.
pub(crate) fn demangle_without_return_type(mangled: &str) -> Option<String> {
    demangled_with(mangled, DemangleOptions::new().no_return_type())
}

fn demangled_with(mangled: &str, options: DemangleOptions) -> Option<String> {
    if !mangled.starts_with("_Z") || mangled.len() > MANGLED_LIMIT {
        return None;
    }
    // The demangler reports errors; this is for a defect in it, which must not
    // reach the process in which this library is a guest.
    catch_unwind(AssertUnwindSafe(|| {
        let parse = ParseOptions::default().recursion_limit(DEPTH_LIMIT);
        let symbol = Symbol::new_with_options(mangled, &parse).ok()?;
        let mut text = Bounded {
            text: String::new(),
        };
        let options = options.recursion_limit(DEPTH_LIMIT);
        symbol.structured_demangle(&mut text, &options).ok()?;
        Some(text.text)
    }))
    .ok()
    .flatten()
}

struct Bounded {
    text: String,
}

impl fmt::Write for Bounded {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        if self.text.len() + part.len() > DEMANGLED_LIMIT {
            return Err(fmt::Error);
        }
        self.text.push_str(part);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn both_forms_of_a_template() {
        let mangled = "_Z5scaleIfEvPT_i";
        assert_eq!(
            demangle(mangled).as_deref(),
            Some("void scale<float>(float*, int)")
        );
        assert_eq!(
            demangle_without_return_type(mangled).as_deref(),
            Some("scale<float>(float*, int)")
        );
    }

    #[test]
    fn a_plain_name_has_no_demangled_form() {
        assert_eq!(demangle("saxpy"), None);
        assert_eq!(demangle("_Zsomething_else"), None);
        assert_eq!(demangle(""), None);
    }

    #[test]
    fn a_name_that_would_grow_without_bound_is_left_alone() {
        // b<b<… b<a, a> …, …>: each level names the one before it twice, so that
        // 20 levels print more than 2^20 letters.
        let nested = |levels: usize| {
            let mut mangled = format!("_Z1f1bI{}1a", "S_I".repeat(levels - 1));
            for level in 0..levels {
                let digit = char::from_digit(level as u32, 36).unwrap_or('?');
                mangled.push_str(&format!("S{}_E", digit.to_ascii_uppercase()));
            }
            mangled
        };
        assert_eq!(
            demangle(&nested(2)).as_deref(),
            Some("f(b<b<a, a>, b<a, a> >)")
        );
        assert_eq!(demangle(&nested(20)), None);
        let deep = format!("_Z1f{}i", "P".repeat(60_000));
        assert_eq!(demangle(&deep), None);
        let long = format!("_Z1f{}", "i".repeat(MANGLED_LIMIT));
        assert_eq!(demangle(&long), None);
    }

    proptest! {
        #[test]
        fn no_name_makes_it_panic(rest in "[a-zA-Z0-9_.$]{0,60}") {
            let _ = demangle(&format!("_Z{rest}"));
        }
    }
}
