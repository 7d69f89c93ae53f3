//! Calls.

use inkwell::attributes::AttributeLoc;
use inkwell::types::{BasicTypeEnum, FunctionType};
use inkwell::values::{BasicMetadataValueEnum, CallSiteValue, FunctionValue, PointerValue};
use r3_ptx::isa::Mnemonic;
use r3_ptx::tree::FunctionDirective;
use r3_ptx::typed::{self, FnId, Operand, Symbol, Variable};

use super::function::Lifter;
use super::params;
use crate::error::LiftError;

/// What is called.
enum Callee<'ctx> {
    Function(FunctionValue<'ctx>),
    Address(FunctionType<'ctx>, PointerValue<'ctx>),
}

/// What is known of a callee.
#[derive(Default)]
struct Known {
    results: Vec<Variable>,
    params: Vec<Variable>,
    noreturn: bool,
}

/// `call`: direct, or through an address.
///
/// # Errors
/// When LLVM's builder refuses something, or what is called is not known.
pub(crate) fn call<'ctx, 'm>(
    lifter: &mut Lifter<'ctx, 'm>,
    mnemonic: &Mnemonic,
    operands: &'m [Operand],
) -> Result<(), LiftError> {
    let _ = mnemonic;
    let (body, module) = (lifter.body, lifter.module);
    let (results, callee, arguments, targets) = match *operands {
        [
            Operand::List(r, rn),
            callee,
            Operand::List(a, an),
            ref rest @ ..,
        ] => (body.list(r, rn), callee, body.list(a, an), rest.first()),
        _ => return Err(lifter.inexpressible("a call without lists".into())),
    };
    let known;
    let (callee, alignments) = match callee {
        Operand::Address(Symbol::Function(id), _) => {
            known = of_function(module, id);
            let Some(function) = lifter.globals.function(id) else {
                return Err(lifter.inexpressible("a function without declaration".into()));
            };
            (Callee::Function(function), alignments(lifter, &known))
        }
        Operand::Register(register) => {
            known = of_targets(lifter, targets, results, arguments);
            let signature = params::signature(lifter.globals, &known.params, &known.results);
            let address = match lifter.pointer(register)? {
                Some(pointer) => lifter.in_space(pointer, 0)?,
                None => {
                    let bits = lifter.integer(&Operand::Register(register), 64)?;
                    let ty = lifter.globals.types.pointer(0);
                    lifter.build(|b| b.build_int_to_ptr(bits, ty, ""))?
                }
            };
            (Callee::Address(signature.ty, address), signature.alignments)
        }
        other => return Err(lifter.inexpressible(format!("{other:?} is no function"))),
    };
    if arguments.len() != known.params.len() || results.len() > known.results.len() {
        return Err(lifter.inexpressible("a variable number of arguments".into()));
    }
    let ty = match &callee {
        Callee::Function(function) => function.get_type(),
        Callee::Address(ty, _) => *ty,
    };
    let mut list: Vec<BasicMetadataValueEnum<'ctx>> = Vec::with_capacity(arguments.len());
    let types: Vec<BasicTypeEnum<'ctx>> = ty
        .get_param_types()
        .into_iter()
        .filter_map(|ty| BasicTypeEnum::try_from(ty).ok())
        .collect();
    for ((operand, declared), wanted) in arguments.iter().zip(&known.params).zip(types) {
        list.push(params::argument(lifter, operand, declared, wanted)?.into());
    }
    let site = match callee {
        Callee::Function(function) => lifter.build(|b| b.build_call(function, &list, ""))?,
        Callee::Address(ty, address) => {
            lifter.build(|b| b.build_indirect_call(ty, address, &list, ""))?
        }
    };
    attributes(lifter, site, &known, &alignments);
    let Some(value) = site.try_as_basic_value().basic() else {
        return Ok(());
    };
    if known.results.len() == 1 {
        for (operand, declared) in results.iter().zip(&known.results) {
            params::receive(lifter, operand, declared, value)?;
        }
        return Ok(());
    }
    let value = value.into_struct_value();
    for (index, (operand, declared)) in (0..).zip(results.iter().zip(&known.results)) {
        let part = lifter.build(|b| b.build_extract_value(value, index, ""))?;
        params::receive(lifter, operand, declared, part)?;
    }
    Ok(())
}

fn attributes<'ctx>(
    lifter: &Lifter<'ctx, '_>,
    site: CallSiteValue<'ctx>,
    known: &Known,
    alignments: &[(AttributeLoc, u64)],
) {
    let globals = &lifter.globals;
    let place = AttributeLoc::Function;
    site.add_attribute(place, globals.attributes.convergent);
    site.add_attribute(place, globals.attributes.nounwind);
    if known.noreturn {
        site.add_attribute(place, globals.attributes.noreturn);
    }
    for (place, align) in alignments {
        site.add_attribute(*place, params::attribute(globals, "alignstack", *align));
    }
}

fn alignments(lifter: &Lifter<'_, '_>, known: &Known) -> Vec<(AttributeLoc, u64)> {
    params::signature(lifter.globals, &known.params, &known.results).alignments
}

/// The function never returns.
pub(super) fn is_noreturn(directives: &[FunctionDirective]) -> bool {
    directives
        .iter()
        .any(|d| matches!(d, FunctionDirective::Flag(flag) if **flag == *"noreturn"))
}

fn of_function(module: &typed::Module, id: FnId) -> Known {
    let function = module.functions.get(id.0 as usize);
    function.map_or_else(Known::default, |function| Known {
        results: function.results.clone(),
        params: function.params.clone(),
        noreturn: is_noreturn(&function.directives),
    })
}

/// What is known of a function that is called by its address: its prototype, or its possible targets (which are alike),
/// or what the call hands over.
fn of_targets(
    lifter: &Lifter<'_, '_>,
    targets: Option<&Operand>,
    results: &[Operand],
    arguments: &[Operand],
) -> Known {
    match targets {
        Some(Operand::Prototype(number)) => {
            if let Some(found) = lifter.body.prototypes.get(*number as usize) {
                return Known {
                    results: found.results.clone(),
                    params: found.params.clone(),
                    noreturn: found.noreturn,
                };
            }
        }
        Some(Operand::CallTable(number)) => {
            let table = lifter.body.call_tables.get(*number as usize);
            if let Some(first) = table.and_then(|table| table.first()) {
                let known = of_function(lifter.module, *first);
                return Known {
                    noreturn: false,
                    ..known
                };
            }
        }
        _ => {}
    }
    let variables = |list: &[Operand]| {
        list.iter()
            .filter_map(|operand| match operand {
                Operand::Address(symbol, _) => params::variable(lifter, *symbol).cloned(),
                _ => None,
            })
            .collect()
    };
    Known {
        results: variables(results),
        params: variables(arguments),
        noreturn: false,
    }
}
