//! The macro behind every list of words.

/// Declares an enum of words with its two tables: variant to text, and text to variant.
macro_rules! words {
    ($(#[$meta:meta])* $name:ident { $($variant:ident = $text:literal,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u16)]
        pub enum $name {
            $(#[doc = concat!("`", $text, "`")] $variant,)*
        }

        impl $name {
            /// All of them, in the order of the table.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];
            const TEXTS: &[&str] = &[$($text,)*];

            /// As PTX writes it.
            pub fn text(self) -> &'static str {
                Self::TEXTS.get(self as usize).copied().unwrap_or_default()
            }

            /// Reads one; `None` when it is unknown.
            pub fn from_text(text: &str) -> Option<Self> {
                static INDEX: std::sync::LazyLock<std::collections::HashMap<&'static str, $name>> =
                    std::sync::LazyLock::new(|| {
                        $name::ALL.iter().map(|&word| (word.text(), word)).collect()
                    });
                INDEX.get(text).copied()
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.text())
            }
        }
    };
}
pub(crate) use words;
