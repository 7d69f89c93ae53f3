//! Addresses of services.

/// An address, cut where a path goes in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Url {
    /// Whether it is `https`.
    pub secure: bool,
    /// Host and port.
    pub authority: String,
    before: String,
    query: String,
}

impl Url {
    /// Checks an address. One without a path gets `/v1`, where all such services have it.
    pub fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let wrong = |what: &str| {
            Err(format!(
                "the address {text:?} {what}; write it as http://host:8000/v1"
            ))
        };
        let Some((scheme, rest)) = text.split_once("://") else {
            return wrong("does not begin with http:// or https://");
        };
        let secure = match scheme.to_ascii_lowercase().as_str() {
            "https" => true,
            "http" => false,
            _ => return wrong("does not begin with http:// or https://"),
        };
        if rest.bytes().any(|byte| byte <= b' ' || byte >= 0x7f) {
            return wrong("has characters that no address has");
        }
        let rest = rest.split('#').next().unwrap_or_default();
        let (rest, query) = match rest.split_once('?') {
            Some((rest, query)) => (rest, format!("?{query}")),
            None => (rest, String::new()),
        };
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        if authority.is_empty() || authority.starts_with(':') {
            return wrong("names no host");
        }
        if authority.contains('@') {
            // It would be in every message about this address.
            return wrong_secret();
        }
        let mut path = path.trim_end_matches('/');
        for end in ["/chat/completions", "/embeddings"] {
            path = path.strip_suffix(end).unwrap_or(path);
        }
        let path = if path.is_empty() { "/v1" } else { path };
        Ok(Self {
            secure,
            authority: authority.to_owned(),
            before: format!(
                "{}://{authority}{path}",
                if secure { "https" } else { "http" }
            ),
            query,
        })
    }

    /// The address of something of the service.
    pub fn to(&self, path: &str) -> String {
        format!("{}/{path}{}", self.before, self.query)
    }

    /// Whether it is this machine.
    pub fn is_loopback(&self) -> bool {
        let host = match self.authority.strip_prefix('[') {
            Some(rest) => rest.split(']').next().unwrap_or_default(),
            None => self.authority.split(':').next().unwrap_or_default(),
        };
        host.eq_ignore_ascii_case("localhost")
            || host
                .parse::<std::net::IpAddr>()
                .is_ok_and(|address| address.is_loopback())
    }
}

fn wrong_secret() -> Result<Url, String> {
    Err("the address holds a name or a password before @; give the key by key_env".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_taken_as_people_write_them() {
        for (text, to) in [
            (
                "http://localhost:8000",
                "http://localhost:8000/v1/chat/completions",
            ),
            (
                "http://127.0.0.1:11434/v1/",
                "http://127.0.0.1:11434/v1/chat/completions",
            ),
            (
                "https://api.example.org/v1/chat/completions",
                "https://api.example.org/v1/chat/completions",
            ),
            (
                "https://example.org/openai/deployments/x?api-version=1",
                "https://example.org/openai/deployments/x/chat/completions?api-version=1",
            ),
            (
                "HTTPS://[::1]:443/v1",
                "https://[::1]:443/v1/chat/completions",
            ),
        ] {
            assert_eq!(Url::parse(text).unwrap().to("chat/completions"), to);
        }
        for text in [
            "localhost:8000",
            "ftp://a",
            "http://",
            "http://:80",
            "http://a b",
            "http://user:secret@host/v1",
        ] {
            let error = Url::parse(text).unwrap_err();
            assert!(!error.contains("secret"), "{error}");
        }
    }

    #[test]
    fn this_machine_is_asked_without_a_proxy() {
        for (text, is) in [
            ("http://localhost:1", true),
            ("http://127.1.2.3:1/v1", true),
            ("http://[::1]:1", true),
            ("http://example.org", false),
            ("http://10.0.0.1", false),
        ] {
            assert_eq!(Url::parse(text).unwrap().is_loopback(), is, "{text}");
        }
    }
}
