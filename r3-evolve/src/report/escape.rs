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
            // No character of HTML, and what may stand for one in no text.
            '\0' => out.push('\u{FFFD}'),
            _ => out.push(letter),
        }
    }
    out
}

/// JSON as the content of a `script` element: whatever texts are in it, it holds no tag, no comment and no end of the element.
/// It is the same JSON.
#[must_use]
pub fn json(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            // Outside of strings JSON has none of these.
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                out.push_str(&format!("\\u{:04x}", u32::from(letter)));
            }
            _ => out.push(letter),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_source_cannot_end_the_script_that_it_is_in() {
        let hostile = "</script><script>alert(1)</script><!-- <script> ]]> &lt; \u{2028}";
        let written = json(&serde_json::to_string(hostile).unwrap());
        assert!(!written.contains(['<', '>', '&', '\u{2028}']), "{written}");
        assert_eq!(serde_json::from_str::<String>(&written).unwrap(), hostile);
        assert!(!html(hostile).contains(['<', '>']));
        assert_eq!(html("a \"b\" 'c'"), "a &quot;b&quot; &#39;c&#39;");
    }

    proptest! {
        #[test]
        fn any_text_comes_back_from_the_page_s_json(text: String) {
            let written = json(&serde_json::to_string(&text).unwrap());
            prop_assert!(!written.contains(['<', '>', '&']));
            prop_assert_eq!(serde_json::from_str::<String>(&written).unwrap(), text);
        }
    }
}
