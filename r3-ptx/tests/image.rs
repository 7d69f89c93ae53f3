//! r3-image scans PTX for what it declares, in the preloaded library, where nothing more is wanted. It must see what
//! the parser and the checker see: the same entries, parameters, limits and variables.

use std::path::{Path, PathBuf};

use r3_ptx::isa::Space;
use r3_ptx::tree::{FunctionDirective, Linkage};
use r3_ptx::typed;

fn fixtures() -> Vec<PathBuf> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = Vec::new();
    for folder in ["tests/fixtures", "../r3-image/tests/fixtures"] {
        let folder = std::fs::read_dir(here.join(folder)).expect("a folder of fixtures");
        files.extend(folder.map(|entry| entry.expect("an entry").path()));
    }
    files.retain(|path| path.extension().is_some_and(|e| e == "ptx"));
    files.sort();
    files
}

fn checked(path: &Path) -> (String, typed::Module) {
    let text = std::fs::read_to_string(path).expect("text");
    let module = r3_ptx::parse(&text)
        .and_then(|tree| r3_ptx::check(&tree))
        .unwrap_or_else(|errors| panic!("{}: {}", path.display(), errors.render(&text)));
    (text, module)
}

fn numbers(function: &typed::Function, name: &str) -> Option<Vec<u32>> {
    function
        .directives
        .iter()
        .find_map(|directive| match directive {
            FunctionDirective::Numbers(found, numbers) if **found == *name => Some(numbers.clone()),
            _ => None,
        })
}

fn dims(function: &typed::Function, name: &str) -> Option<[u32; 3]> {
    let numbers = numbers(function, name)?;
    let at = |i: usize| numbers.get(i).copied().unwrap_or(1);
    Some([at(0), at(1), at(2)])
}

#[test]
fn the_scanner_and_the_parser_agree() {
    let files = fixtures();
    assert!(files.len() > 15);
    for path in files {
        let (text, module) = checked(&path);
        let scanned = r3_image::ptx::parse(&text);
        let at = path.display();
        assert_eq!(scanned.version, module.version, "{at}");
        assert_eq!(scanned.target, module.target, "{at}");
        assert_eq!(
            scanned.address_size,
            8 * u32::from(module.address_bytes),
            "{at}"
        );
        assert!(scanned.problems.is_empty(), "{at}: {:?}", scanned.problems);

        let entries = module
            .functions
            .iter()
            .filter(|f| f.entry && f.body.is_some());
        let entries: Vec<_> = entries.collect();
        assert_eq!(scanned.entries.len(), entries.len(), "{at}");
        for (scanned, entry) in scanned.entries.iter().zip(entries) {
            let at = format!("{at}: {}", entry.name);
            assert_eq!(scanned.name, *entry.name, "{at}");
            assert!(scanned.params_known, "{at}");
            let of_scan = scanned.params.iter().map(|param| {
                let (size, align) = (u64::from(param.size), u64::from(param.align));
                (
                    &*param.name,
                    param.offset,
                    size,
                    align,
                    &*param.ty,
                    param.ptr_space.is_some(),
                )
            });
            let of_check = entry
                .params
                .iter()
                .zip(&entry.param_offsets)
                .map(|(param, offset)| {
                    (
                        &*param.name,
                        *offset,
                        param.size,
                        param.align,
                        param.ty.text(),
                        param.ptr.is_some(),
                    )
                });
            assert_eq!(
                of_scan.collect::<Vec<_>>(),
                of_check.collect::<Vec<_>>(),
                "{at}"
            );
            assert_eq!(scanned.max_block, dims(entry, "maxntid"), "{at}");
            assert_eq!(scanned.required_block, dims(entry, "reqntid"), "{at}");
            assert_eq!(
                scanned.cluster_dims,
                dims(entry, "reqnctapercluster"),
                "{at}"
            );
            let first = |name| numbers(entry, name).and_then(|list| list.first().copied());
            assert_eq!(scanned.min_blocks, first("minnctapersm"), "{at}");
            assert_eq!(scanned.max_registers, first("maxnreg"), "{at}");
            assert_eq!(scanned.max_cluster_rank, first("maxclusterrank"), "{at}");
            let visible = matches!(entry.linkage, Linkage::Visible | Linkage::Weak);
            assert_eq!(scanned.visible, visible, "{at}");
        }

        let variables = module.variables.iter();
        let variables = variables.filter(|v| matches!(v.space, Space::Global | Space::Const));
        let of_check: Vec<_> = variables
            .map(|v| {
                let constant = v.space == Space::Const;
                let bytes = v
                    .init
                    .as_ref()
                    .is_some_and(|bytes| bytes.iter().any(|&b| b != 0));
                let initialised = bytes || !v.relocations.is_empty();
                let external = v.linkage == Linkage::Extern;
                (&*v.name, constant, v.size, v.align, initialised, external)
            })
            .collect();
        let of_scan: Vec<_> = scanned
            .variables
            .iter()
            .map(|v| {
                let constant = v.space == r3_image::Space::Constant;
                (
                    &*v.name,
                    constant,
                    v.size,
                    v.align,
                    v.initialised,
                    v.external,
                )
            })
            .collect();
        assert_eq!(of_scan, of_check, "{at}");
    }
}
