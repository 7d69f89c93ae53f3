//! Text in a page stays text.

/// As the content of an element, or of an attribute in quotes.
#[must_use]
pub fn html(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            // Zero is no character of HTML at all.
            _ if unseen(letter) => out.push_str(&format!("⟨U+{:04X}⟩", u32::from(letter))),
            _ => out.push(letter),
        }
    }
    out
}

/// Whether a letter has no shape of its own, or turns the order of others round: a source that has such letters is not what it looks
/// like.
#[must_use]
pub fn unseen(letter: char) -> bool {
    match letter {
        '\t' | '\n' | '\r' => false,
        '\u{61c}'
        | '\u{200b}'..='\u{200f}'
        | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}'
        | '\u{feff}' => true,
        _ => letter.is_control(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn no_text_becomes_a_tag_or_ends_an_attribute() {
        let hostile = "</script><script>alert(1)</script><!-- <script> ]]> &lt;";
        assert!(!html(hostile).contains(['<', '>']));
        assert_eq!(html("a \"b\" 'c'"), "a &quot;b&quot; &#39;c&#39;");
    }

    #[test]
    fn what_cannot_be_seen_is_shown_by_its_number() {
        assert_eq!(
            html("a\0b\u{202e}c\u{2028}d\u{7f}"),
            "a⟨U+0000⟩b⟨U+202E⟩c⟨U+2028⟩d⟨U+007F⟩"
        );
        assert_eq!(html("a\tb\r\nc é 漢"), "a\tb\r\nc é 漢");
    }

    proptest! {
        #[test]
        fn any_text_is_text_that_can_be_seen(text: String) {
            let written = html(&text);
            prop_assert!(!written.contains(['<', '>', '"', '\'']));
            prop_assert!(!written.contains(unseen));
        }
    }
}
