//! Facts of the launches that a candidate is tuned on, as far as they agree.

use std::sync::{Arc, PoisonError};

use r3_archive::model::LaunchId;
use r3_codegen::recipe::Specialisation;

use super::{Built, Refusal, Subject};
use crate::evaluate::engine::shape::Shape;
use crate::evaluate::plan::Plan;
use crate::remix::facts::{Kernel, Wanted};

/// Facts that were asked for, of a launch; of pointers they are the same for all launches.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Key {
    Params(LaunchId, bool, Vec<u32>),
    Pointers { noalias: bool, align: bool },
}

impl Subject {
    pub(super) fn specialisation(
        &self,
        wanted: &[String],
        plan: &Plan,
        built: &mut Built,
    ) -> Result<Specialisation, Refusal> {
        if wanted.is_empty() {
            return Ok(Specialisation::default());
        }
        let wanted: Wanted = wanted.join(",").parse().map_err(Refusal::refused)?;
        let tuned: Vec<LaunchId> = plan.launches.iter().map(|w| w.launch).collect();
        let mut made = Specialisation::default();
        if wanted.scalars || !wanted.params.is_empty() {
            made.params = self.scalars(&wanted, &tuned, built)?;
        }
        if wanted.noalias || wanted.align {
            let key = Key::Pointers {
                noalias: wanted.noalias,
                align: wanted.align,
            };
            let first = tuned.first().copied();
            let pointers = self.known(key, first, &|kernel, launch| {
                let launch = kernel
                    .archive
                    .load_launch(launch)
                    .map_err(|e| e.to_string())?;
                let wanted = Wanted {
                    noalias: wanted.noalias,
                    align: wanted.align,
                    ..Wanted::default()
                };
                kernel.facts(&launch, &wanted).map_err(|e| e.to_string())
            })?;
            made.noalias.clone_from(&pointers.noalias);
            made.align.clone_from(&pointers.align);
        }
        let shapes: Vec<Shape> = tuned
            .iter()
            .filter_map(|id| built.shapes.iter().find(|(of, _)| of == id))
            .map(|(_, shape)| *shape)
            .collect();
        let mut same = |what: &str, of: fn(&Shape) -> [u32; 3]| {
            let first = shapes.first().map(of)?;
            if shapes.iter().all(|shape| of(shape) == first) {
                return Some(first);
            }
            built
                .notes
                .push(format!("the {what} is no constant: launches differ in it"));
            None
        };
        if wanted.grid {
            made.grid = same("grid", |shape| shape.grid);
        }
        if wanted.block {
            made.block = same("block", |shape| shape.block);
        }
        Ok(made)
    }

    /// Parts of parameters that are the same in all tuned launches.
    fn scalars(
        &self,
        wanted: &Wanted,
        tuned: &[LaunchId],
        built: &mut Built,
    ) -> Result<Vec<(u32, u32, Vec<u8>)>, Refusal> {
        let params: Vec<u32> = wanted.params.iter().copied().collect();
        let mut common: Option<Vec<(u32, u32, Vec<u8>)>> = None;
        for id in tuned {
            let key = Key::Params(*id, wanted.scalars, params.clone());
            let facts = self.known(key, Some(*id), &|kernel, id| {
                let wanted = Wanted {
                    scalars: wanted.scalars,
                    params: wanted.params.clone(),
                    ..Wanted::default()
                };
                let launch = self.launch(id).ok_or("there is no such launch")?;
                kernel.facts(launch, &wanted).map_err(|e| e.to_string())
            })?;
            common = Some(match common {
                None => facts.params.clone(),
                Some(mut common) => {
                    common.retain(|part| facts.params.contains(part));
                    common
                }
            });
        }
        let common = common.unwrap_or_default();
        let lost: Vec<String> = params
            .iter()
            .filter(|index| !common.iter().any(|(of, _, _)| of == *index))
            .map(u32::to_string)
            .collect();
        if !lost.is_empty() {
            built.notes.push(format!(
                "no constant, since launches differ in it: parameter {}",
                lost.join(", ")
            ));
        }
        Ok(common)
    }

    fn known(
        &self,
        key: Key,
        launch: Option<LaunchId>,
        find: &dyn Fn(Kernel<'_>, LaunchId) -> Result<Specialisation, String>,
    ) -> Result<Arc<Specialisation>, Refusal> {
        let launch = launch.ok_or_else(|| {
            Refusal::refused("facts of launches are wanted, and the plan has no launch")
        })?;
        let known = self.facts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = known.get(&key) {
            return found.clone().map_err(Refusal::refused);
        }
        drop(known);
        let kernel = Kernel {
            archive: &self.archive,
            record: &self.kernel,
            layout: &self.layout,
        };
        let found = find(kernel, launch).map(Arc::new);
        let mut known = self.facts.lock().unwrap_or_else(PoisonError::into_inner);
        known
            .entry(key)
            .or_insert(found)
            .clone()
            .map_err(Refusal::refused)
    }
}
