//! Recipes to code.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use r3_codegen::recipe::{AssemblerKind, Failure, FailureKind, Product, Recipe, Source, Stage};
use r3_codegen::source;
use r3_codegen::worker::Pool;

/// What compiles: workers, and in tests something simpler.
pub trait Compile: Sync {
    /// Compiles a recipe. Called from several threads.
    fn compile(&self, recipe: &Recipe) -> Result<Product, Failure>;

    /// Compiles a source by its own compiler, to PTX or LLVM IR.
    fn compile_source(&self, source: &Source, target: &str) -> Result<source::Compiled, Failure> {
        source::compile(source, target)
    }
}

impl<F: Fn(&Recipe) -> Result<Product, Failure> + Sync> Compile for F {
    fn compile(&self, recipe: &Recipe) -> Result<Product, Failure> {
        self(recipe)
    }
}

impl Compile for Pool {
    fn compile(&self, recipe: &Recipe) -> Result<Product, Failure> {
        Pool::compile(self, recipe)
    }

    fn compile_source(&self, source: &Source, target: &str) -> Result<source::Compiled, Failure> {
        Pool::compile_source(self, source, target)
    }
}

/// A recipe with what came of it.
#[derive(Clone, Debug)]
pub struct Compiled {
    /// The product, or why there is none.
    pub result: Result<Product, Failure>,
    /// From asking to answer.
    pub wall: Duration,
}

/// Compiles recipes, as many at a time as there are threads to be asked from; the answers are in the recipes' order.
pub fn compile_all(compiler: &dyn Compile, recipes: &[Recipe], threads: usize) -> Vec<Compiled> {
    let todo: Mutex<VecDeque<(usize, &Recipe)>> = Mutex::new(recipes.iter().enumerate().collect());
    let next = || todo.lock().ok()?.pop_front();
    let done: Mutex<Vec<(usize, Compiled)>> = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..threads.clamp(1, recipes.len().max(1)) {
            scope.spawn(|| {
                while let Some((index, recipe)) = next() {
                    let compiled = compile(compiler, recipe);
                    if let Ok(mut done) = done.lock() {
                        done.push((index, compiled));
                    }
                }
            });
        }
    });
    let mut done = done.into_inner().unwrap_or_default();
    done.sort_by_key(|(index, _)| *index);
    done.into_iter().map(|(_, compiled)| compiled).collect()
}

/// Compiles a recipe. Where no assembler is found and any would do, it is left to who loads the PTX.
pub fn compile(compiler: &dyn Compile, recipe: &Recipe) -> Compiled {
    let start = Instant::now();
    let mut result = compiler.compile(recipe);
    if let Err(failure) = &result
        && failure.kind == FailureKind::MissingTool
        && failure.stage == Stage::Assemble
        && recipe.assembler.kind == AssemblerKind::Any
    {
        // Where it was looked for is of use to who asked for one.
        let reason = failure.message.split([':', ';']).next().unwrap_or_default();
        let note = format!("not assembled: {reason} (R3_PTXAS and R3_NVJITLINK name assemblers)");
        let mut without = recipe.clone();
        without.emit.cubin = false;
        result = compiler.compile(&without).map(|mut product| {
            product.notes.push(note);
            product
        });
    }
    Compiled {
        result,
        wall: start.elapsed(),
    }
}

#[cfg(test)]
mod tests {
    use r3_codegen::recipe::{Code, Cubin, Emit};

    use super::*;

    fn recipe(text: &str) -> Recipe {
        Recipe {
            emit: Emit {
                llvm: false,
                cubin: true,
            },
            ..Recipe::new(Code::Ptx(text.to_owned()))
        }
    }

    fn product(recipe: &Recipe) -> Product {
        let Code::Ptx(ptx) = &recipe.code else {
            panic!("no PTX");
        };
        Product {
            llvm: None,
            ptx: ptx.clone(),
            cubin: recipe.emit.cubin.then(|| Cubin {
                bytes: Vec::new(),
                assembler: "some".to_owned(),
                kernels: Vec::new(),
            }),
            guards: Vec::new(),
            changes: Vec::new(),
            notes: Vec::new(),
            timings: Vec::new(),
        }
    }

    fn without_assembler(recipe: &Recipe) -> Result<Product, Failure> {
        if recipe.emit.cubin {
            return Err(Failure {
                stage: Stage::Assemble,
                kind: FailureKind::MissingTool,
                message: "neither nvJitLink nor ptxas was found".to_owned(),
                log: String::new(),
            });
        }
        Ok(product(recipe))
    }

    #[test]
    fn answers_are_in_the_order_of_the_questions() {
        let recipes: Vec<Recipe> = (0..40).map(|n| recipe(&n.to_string())).collect();
        let slow_first = |recipe: &Recipe| {
            let made = product(recipe);
            if made.ptx == "0" {
                std::thread::sleep(Duration::from_millis(20));
            }
            Ok(made)
        };
        let texts: Vec<String> = compile_all(&slow_first, &recipes, 4)
            .into_iter()
            .map(|compiled| compiled.result.unwrap().ptx)
            .collect();
        let expected: Vec<String> = (0..40).map(|n| n.to_string()).collect();
        assert_eq!(texts, expected);
        assert!(compile_all(&slow_first, &[], 4).is_empty());
    }

    #[test]
    fn without_an_assembler_the_ptx_is_still_there_and_the_reason_is_told() {
        let made = compile(&without_assembler, &recipe("text")).result.unwrap();
        assert_eq!((made.ptx.as_str(), made.cubin), ("text", None));
        assert_eq!(
            made.notes,
            [
                "not assembled: neither nvJitLink nor ptxas was found (R3_PTXAS and R3_NVJITLINK name assemblers)"
            ]
        );
        // Who names one gets that one or nothing.
        let mut named = recipe("text");
        named.assembler.kind = AssemblerKind::Ptxas;
        let failure = compile(&without_assembler, &named).result.unwrap_err();
        assert_eq!(failure.kind, FailureKind::MissingTool);
    }
}
