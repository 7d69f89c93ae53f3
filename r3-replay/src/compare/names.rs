//! Names of buffers, by how the kernel gets at them.

use r3_archive::model::{AllocationId, KernelRecord, LaunchRecord, RegionOwner};

/// The names of one region, the shown one first: `arg0`, `arg2+0x10` (a pointer inside a struct),
/// `param+0x8` (parameters of unknown layout), `global foo`, `alloc 7`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BufferName(Vec<String>);

impl BufferName {
    /// The name to show.
    pub fn shown(&self) -> &str {
        self.0.first().map_or("?", String::as_str)
    }

    /// A single name.
    #[cfg(test)]
    pub fn of(name: &str) -> Self {
        Self(vec![name.to_owned()])
    }

    /// All names.
    pub fn all(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }
}

/// Names of all regions of a launch.
pub fn buffer_names(kernel: &KernelRecord, launch: &LaunchRecord) -> Vec<BufferName> {
    let mut by_allocation: Vec<(AllocationId, String)> = launch
        .pointers
        .iter()
        .map(|p| (p.allocation, argument(kernel, p.offset)))
        .collect();
    by_allocation.sort_by_key(|(allocation, _)| *allocation);
    launch
        .before
        .regions
        .iter()
        .map(|region| match &region.owner {
            RegionOwner::Allocation(id) => {
                let first = by_allocation.partition_point(|(allocation, _)| allocation < id);
                let mut names: Vec<String> = by_allocation
                    .iter()
                    .skip(first)
                    .take_while(|(allocation, _)| allocation == id)
                    .map(|(_, name)| name.clone())
                    .collect();
                names.push(format!("alloc {id}"));
                BufferName(names)
            }
            RegionOwner::Global { name, .. } => {
                let shown = crate::names::readable(name);
                let mut names = vec![format!("global {shown}")];
                if shown != *name {
                    names.push(format!("global {name}"));
                }
                BufferName(names)
            }
        })
        .collect()
}

/// What the parameter buffer has at an offset.
pub fn argument(kernel: &KernelRecord, offset: u32) -> String {
    kernel
        .params
        .iter()
        .enumerate()
        .find(|(_, param)| offset >= param.offset && offset - param.offset < param.size)
        .map(|(index, param)| match offset - param.offset {
            0 => format!("arg{index}"),
            inside => format!("arg{index}+{inside:#x}"),
        })
        .unwrap_or_else(|| format!("param+{offset:#x}"))
}
