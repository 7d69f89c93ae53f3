//! Launch bounds in place of the original's.

use inkwell::attributes::AttributeLoc;
use inkwell::module::Module;

use super::KERNEL_CONVENTION;
use crate::recipe::Bounds;

/// Sets, replaces or removes the launch bounds of a module's kernels.
pub fn bound(module: &Module, bounds: &Bounds) {
    let wanted = [
        ("nvvm.maxnreg", bounds.maxnreg),
        ("nvvm.maxntid", bounds.maxntid),
        ("nvvm.minctasm", bounds.minnctapersm),
    ];
    let context = module.get_context();
    for function in module.get_functions() {
        if function.get_call_conventions() != KERNEL_CONVENTION
            || function.count_basic_blocks() == 0
        {
            continue;
        }
        for (name, value) in wanted {
            let Some(value) = value else {
                continue;
            };
            function.remove_string_attribute(AttributeLoc::Function, name);
            if value > 0 {
                function.add_attribute(
                    AttributeLoc::Function,
                    context.create_string_attribute(name, &value.to_string()),
                );
            }
        }
    }
}
