//! Any text: it is read or refused with messages; what was read prints as text that gives the same tree; the checker
//! takes every tree.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let text = String::from_utf8_lossy(data);
    let mut module = match r3_ptx::parse(&text) {
        Ok(module) => module,
        Err(errors) => {
            assert!(!errors.list.is_empty());
            _ = errors.render(&text);
            return;
        }
    };
    if let Err(errors) = r3_ptx::check(&module) {
        _ = errors.render(&text);
    }
    let printed = module.to_string();
    let mut again = match r3_ptx::parse(&printed) {
        Ok(again) => again,
        Err(errors) => panic!("{}", errors.render(&printed)),
    };
    module.clear_positions();
    again.clear_positions();
    assert_eq!(module, again);
});
