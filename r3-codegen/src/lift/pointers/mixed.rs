//! Whether addresses are made of several others.

use std::collections::HashSet;

use r3_ptx::typed::RegId;

use super::lists::Lists;
use super::scan::{Facts, Flow};

/// What addresses are made of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Mixed {
    /// Each of one other.
    #[default]
    No,
    /// Some of several, but none of a variable.
    Pointers,
    /// Some of several, and a variable is among them.
    Variables,
}

/// Whether some address is made of several: by the way from one to the other, above all.
pub(super) fn mixed<'f>(facts: &'f Facts, pointers: &[bool]) -> Mixed {
    let is_pointer = |register: RegId| pointers.get(register.0 as usize) == Some(&true);
    let edges = |of: fn(&'f Facts, Flow) -> &'f [RegId]| {
        let flows = move || (0u32..).zip(&facts.flows);
        Lists::new(pointers.len(), || {
            flows().flat_map(move |(i, flow)| of(facts, *flow).iter().map(move |r| (*r, i)))
        })
    };
    let written = |flow: u32| {
        let flow = facts.flows.get(flow as usize);
        flow.map(|flow| facts.written(*flow)).unwrap_or_default()
    };
    let forward = edges(Facts::read);
    let mut variables: Vec<RegId> = Vec::new();
    let mut from: Vec<RegId> = Vec::new();
    for &flow in &facts.flows {
        if flow.variable {
            variables.extend(facts.written(flow));
        }
        from.extend(facts.read(flow).iter().filter(|r| is_pointer(**r)));
    }
    // A parameter may be loaded twice, and only once for an address.
    let loads = || facts.parameter_loads.iter();
    let rooted = loads().filter(|(r, _)| is_pointer(*r)).map(|(_, p)| *p);
    let rooted: HashSet<u32> = rooted.collect();
    from.extend(loads().filter(|(_, p)| rooted.contains(p)).map(|(r, _)| *r));
    from.extend(&variables);
    let of_address = forward.reached(from, written);
    let has = |set: &[bool], r: RegId| set.get(r.0 as usize) == Some(&true);
    let several = |flow: &Flow| {
        let mut found = facts.read(*flow).iter().filter(|r| has(&of_address, **r));
        flow.sum && found.nth(1).is_some()
    };
    let sums: Vec<Flow> = facts.flows.iter().copied().filter(several).collect();
    if sums.is_empty() {
        return Mixed::No;
    }
    let of_variable = forward.reached(variables, written);
    let backward = edges(Facts::written);
    let addresses = facts.addresses.iter().map(|(register, _)| *register);
    let to_address = backward.reached(addresses.collect(), |flow| {
        let flow = facts.flows.get(flow as usize);
        flow.map(|flow| facts.read(*flow)).unwrap_or_default()
    });
    let used = sums.iter().filter(|sum| {
        let mut written = facts.written(**sum).iter();
        written.any(|r| has(&to_address, *r))
    });
    let mixed = used.map(|sum| {
        let mut read = facts.read(*sum).iter();
        match read.any(|r| has(&of_variable, *r)) {
            true => Mixed::Variables,
            false => Mixed::Pointers,
        }
    });
    mixed.max().unwrap_or_default()
}
