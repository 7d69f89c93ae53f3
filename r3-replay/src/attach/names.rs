//! Names of kernels that only one file can see, which each compiler makes up in its own way.
//!
//! A kernel in an unnamed namespace of `anon.cu` is `_ZN38_GLOBAL__N__ac3fd4b3_7_anon_cu__Z2goPf5plainEPf` by nvcc, with
//! a hash of the file and of how it was compiled, and `_ZN12_GLOBAL__N_15plainEPf` by clang. A static one is `_Z2stPf` by
//! nvcc and `_ZL2stPf` by clang. With `-rdc=true`, nvcc puts `__nv_static_27__ac3fd4b3_7_anon_cu__Z2goPf_` before both.

/// What an unnamed namespace is called in [`plain`] names: clang's way.
const UNNAMED: &str = "12_GLOBAL__N_1";

/// The beginning of what compilers call unnamed namespaces.
const UNNAMED_START: &str = "_GLOBAL__N_";

/// Digits of the hash in nvcc's names.
const HASH: usize = 8;

/// A name without what a compiler made up: two kernels with the same plain name may be one.
pub fn plain(name: &str) -> String {
    let name = without_static_prefix(name);
    let name = with_plain_namespaces(name);
    without_linkage(&name)
}

/// Without `__nv_static_<length>_<length characters>_`.
fn without_static_prefix(name: &str) -> &str {
    let stripped = || {
        let rest = name.strip_prefix("__nv_static_")?;
        let (length, rest) = rest.split_once('_')?;
        let length: usize = length.parse().ok()?;
        rest.get(length..)?.strip_prefix('_')
    };
    match stripped() {
        Some(rest) if !rest.is_empty() => rest,
        _ => name,
    }
}

/// With each unnamed namespace as [`UNNAMED`].
fn with_plain_namespaces(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    let mut rest = name;
    while let Some(at) = rest.find(UNNAMED_START) {
        let (before, from) = rest.split_at(at);
        match length_before(before, from) {
            Some((digits, length)) => {
                out.push_str(before.get(..before.len() - digits).unwrap_or_default());
                out.push_str(UNNAMED);
                rest = from.get(length..).unwrap_or_default();
            }
            None => {
                out.push_str(before);
                out.push_str(UNNAMED_START);
                rest = from.get(UNNAMED_START.len()..).unwrap_or_default();
            }
        }
    }
    out.push_str(rest);
    out
}

/// The length that stands before a made-up name, and its number of digits. An identifier may end with digits of its own:
/// the shortest length that fits is meant.
fn length_before(before: &str, name: &str) -> Option<(usize, usize)> {
    let inner = name.get(UNNAMED_START.len()..)?;
    let hashed = inner
        .strip_prefix('_')
        .and_then(|inner| inner.get(..HASH))
        .is_some_and(|hash| hash.bytes().all(|b| b.is_ascii_hexdigit()));
    let least = match hashed {
        true => UNNAMED_START.len() + 1 + HASH,
        false => UNNAMED_START.len() + 1,
    };
    let digits = before.bytes().rev().take_while(u8::is_ascii_digit).count();
    (1..=digits.min(5)).find_map(|digits| {
        let text = before.get(before.len() - digits..)?;
        let length: usize = text.parse().ok()?;
        let fits = length >= least && length < name.len() && !text.starts_with('0');
        (fits && name.is_char_boundary(length)).then_some((digits, length))
    })
}

/// Without the `L` that clang puts before names with internal linkage.
fn without_linkage(name: &str) -> String {
    let Some(start) = name.strip_prefix("_Z") else {
        return name.to_owned();
    };
    let nested = start.starts_with('N');
    let mut out = String::from(if nested { "_ZN" } else { "_Z" });
    let mut rest = start.strip_prefix('N').unwrap_or(start);
    loop {
        let named = rest.strip_prefix('L').unwrap_or(rest);
        let digits = named.bytes().take_while(u8::is_ascii_digit).count();
        let Some(Ok(length)) = named.get(..digits).map(str::parse::<usize>) else {
            break;
        };
        let Some(identifier) = named.get(..digits.saturating_add(length)) else {
            break;
        };
        out.push_str(identifier);
        rest = named.get(identifier.len()..).unwrap_or_default();
        if !nested {
            break;
        }
    }
    out.push_str(rest);
    out
}

/// PTX with kernels called otherwise: `renames` are (name in the text, new name).
pub fn renamed(ptx: &str, renames: &[(String, String)]) -> String {
    if renames.is_empty() {
        return ptx.to_owned();
    }
    let part_of_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '$' | '%');
    let mut out = String::with_capacity(ptx.len());
    let mut rest = ptx;
    while !rest.is_empty() {
        let end = rest.find(|c| !part_of_name(c)).unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        let found = renames.iter().find(|(from, _)| from == word);
        out.push_str(found.map_or(word, |(_, to)| to));
        let end = after.find(part_of_name).unwrap_or(after.len());
        let (between, next) = after.split_at(end);
        out.push_str(between);
        rest = next;
    }
    out
}

/// The function's name without its namespaces, template arguments and parameters, for people who look for one like it.
pub fn base(readable: &str) -> &str {
    let end = readable.find(['<', '(']).unwrap_or(readable.len());
    // `(anonymous namespace)::plain(float*)` starts with what looks like parameters.
    let (start, end) = match readable.rfind("(anonymous namespace)::") {
        Some(at) => {
            let start = at + "(anonymous namespace)::".len();
            let name = readable.get(start..).unwrap_or_default();
            let end = name.find(['<', '(']).unwrap_or(name.len());
            (start, start + end)
        }
        None => (0, end),
    };
    let name = readable.get(start..end).unwrap_or(readable);
    name.rsplit([':', ' ']).next().unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    // Names as nvcc 13.0 and clang 22 make them of the same kernels.
    #[test]
    fn one_kernel_by_two_compilers_has_one_plain_name() {
        for (nvcc, clang) in [
            (
                "_ZN38_GLOBAL__N__ac3fd4b3_7_anon_cu__Z2goPf5plainEPf",
                "_ZN12_GLOBAL__N_15plainEPf",
            ),
            (
                "_ZN38_GLOBAL__N__ac3fd4b3_7_anon_cu__Z2goPf1kINS_1FEEEvPfT_",
                "_ZN12_GLOBAL__N_11kINS_1FEEEvPfT_",
            ),
            ("_Z2stPf", "_ZL2stPf"),
            (
                "__nv_static_27__ac3fd4b3_7_anon_cu__Z2goPf__ZN38_GLOBAL__N__ac3fd4b3_7_anon_cu__Z2goPf5plainEPf",
                "_ZN12_GLOBAL__N_15plainEPf",
            ),
            (
                "__nv_static_27__ac3fd4b3_7_anon_cu__Z2goPf__Z2stPf",
                "_ZL2stPf",
            ),
            ("_ZN1a2stEPf", "_ZN1aL2stEPf"),
        ] {
            assert_eq!(plain(nvcc), plain(clang));
        }
    }

    #[test]
    fn kernels_that_differ_keep_different_plain_names() {
        let names = [
            "_ZN12_GLOBAL__N_15plainEPf",
            "_ZN12_GLOBAL__N_15plainEPd",
            "_ZN1a12_GLOBAL__N_15plainEPf",
            "_Z5plainPf",
            "_Z5plainPd",
            "plain",
        ];
        let mut plain: Vec<String> = names.iter().map(|name| plain(name)).collect();
        plain.sort();
        plain.dedup();
        assert_eq!(plain.len(), names.len());
    }

    #[test]
    fn an_identifier_may_end_with_digits_before_an_unnamed_namespace() {
        assert_eq!(
            plain("_ZN2a138_GLOBAL__N__ac3fd4b3_7_anon_cu__Z2goPf5plainEPf"),
            plain("_ZN2a112_GLOBAL__N_15plainEPf")
        );
    }

    #[test]
    fn only_whole_names_are_renamed() {
        let ptx =
            ".visible .entry k(\n\t.param .u64 k_param_0\n)\n{ // k's\n\tcall.uni k, (k2);\n}";
        assert_eq!(
            renamed(ptx, &[("k".to_owned(), "_Z1kv".to_owned())]),
            ".visible .entry _Z1kv(\n\t.param .u64 k_param_0\n)\n{ // _Z1kv's\n\tcall.uni _Z1kv, (k2);\n}"
        );
    }

    #[test]
    fn the_base_of_a_readable_name() {
        assert_eq!(base("void ns::scale<float>(float*, int)"), "scale");
        assert_eq!(base("(anonymous namespace)::plain(float*)"), "plain");
        assert_eq!(base("triton_mm"), "triton_mm");
    }

    proptest! {
        #[test]
        fn no_name_makes_it_panic(name in "(_Z)?[A-Za-z0-9_]{0,30}(3?8_GLOBAL__N_)?.{0,40}") {
            let once = plain(&name);
            renamed(&name, &[(once, String::new())]);
            base(&name);
        }
    }
}
