//! What this process has at an address.

use crate::device::AddressRange;

/// What lies in `range`, for people; `None` when nothing does.
pub fn occupant(range: AddressRange) -> Option<String> {
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    occupant_in(&maps, range)
}

fn occupant_in(maps: &str, range: AddressRange) -> Option<String> {
    let mut lines = maps
        .lines()
        .filter_map(parse)
        .filter(|(used, _)| used.overlaps(range));
    let (used, name) = lines.next()?;
    let more = match lines.count() {
        0 => String::new(),
        n => format!(" and {n} more mappings"),
    };
    let name = if name.is_empty() {
        "an anonymous mapping"
    } else {
        name
    };
    Some(format!(
        "{name} of the replaying process lies at {used}{more}"
    ))
}

/// A line of `/proc/<pid>/maps`: range and name.
fn parse(line: &str) -> Option<(AddressRange, &str)> {
    let (range, rest) = line.split_once(' ')?;
    let (start, end) = range.split_once('-')?;
    let start = u64::from_str_radix(start, 16).ok()?;
    let end = u64::from_str_radix(end, 16).ok()?;
    // perms, offset, device, inode, then the name after padding.
    let name = rest.splitn(5, ' ').nth(4).unwrap_or_default().trim();
    Some((AddressRange::between(start, end)?, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAPS: &str = "\
555555554000-555555558000 r--p 00000000 fd:00 1234                       /usr/bin/cat
7ffff7d80000-7ffff7da8000 r--p 00000000 fd:00 5678                       /usr/lib/x86_64-linux-gnu/libc.so.6
7ffff7fc0000-7ffff7fc2000 rw-p 00000000 00:00 0 
7ffffffde000-7ffffffff000 rw-p 00000000 00:00 0                          [stack]
";

    #[test]
    fn the_first_mapping_in_the_range_is_named() {
        let libc = AddressRange::new(0x7fff_f600_0000, 32 << 20).unwrap();
        assert_eq!(
            occupant_in(MAPS, libc).as_deref(),
            Some(
                "/usr/lib/x86_64-linux-gnu/libc.so.6 of the replaying process lies at \
                 0x7ffff7d80000-0x7ffff7da8000 and 1 more mappings"
            )
        );
    }

    #[test]
    fn a_mapping_without_a_name_is_anonymous() {
        let range = AddressRange::new(0x7fff_f7fc_1000, 1).unwrap();
        assert!(
            occupant_in(MAPS, range)
                .unwrap()
                .starts_with("an anonymous mapping")
        );
    }

    #[test]
    fn free_addresses_have_no_occupant() {
        assert_eq!(
            occupant_in(MAPS, AddressRange::new(0x7f00_0000_0000, 4096).unwrap()),
            None
        );
    }
}
