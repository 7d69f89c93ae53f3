//! Machine code as text, by NVIDIA's disassemblers, and how often each instruction stands in it.

use std::collections::BTreeMap;
use std::process::Command;
use std::time::Duration;

use super::find::{CUOBJDUMP, NVDISASM};
use super::scratch::Scratch;
use super::tool;
use crate::recipe::{Cubin, Failure, FailureKind, Stage};
use crate::worker::Tail;

/// Time for a disassembler: it runs outside of workers, too.
const PATIENCE: Duration = Duration::from_secs(60);

/// The machine code of a cubin as text: of all functions, or of one kernel.
///
/// `nvdisasm`, else `cuobjdump`. It takes some 0.3 s, whatever the size.
pub fn disassemble(cubin: &[u8], kernel: Option<&str>) -> Result<String, Failure> {
    let text = whole(cubin)?;
    let Some(kernel) = kernel else {
        return Ok(text);
    };
    let mut inside = false;
    let mut part = String::new();
    for line in text.lines() {
        if let Some(name) = function_of(line) {
            inside = name == kernel;
        } else if line.starts_with("//---") {
            // The next section.
            inside = false;
        }
        if inside {
            part.push_str(line);
            part.push('\n');
        }
    }
    if part.is_empty() {
        let message = format!("the cubin has no machine code of {kernel}");
        return Err(failure(FailureKind::Refused, message));
    }
    Ok(part)
}

/// Fills in [`mix`](crate::recipe::Resources::mix) of each kernel.
pub fn count_instructions(cubin: &mut Cubin) -> Result<(), Failure> {
    let text = whole(&cubin.bytes)?;
    let mut mixes = mixes(&text);
    for kernel in &mut cubin.kernels {
        kernel.mix = mixes.remove(kernel.kernel.as_str());
    }
    Ok(())
}

fn whole(cubin: &[u8]) -> Result<String, Failure> {
    let (program, arguments) = match (NVDISASM.find(), CUOBJDUMP.find()) {
        (Some(program), _) => (program, ["-c", "-ndf"].as_slice()),
        (None, Some(program)) => (program, ["-sass"].as_slice()),
        (None, None) => {
            let message = format!(
                "no disassembler was found: looked for {}; for {}",
                NVDISASM.places(),
                CUOBJDUMP.places()
            );
            return Err(failure(FailureKind::MissingTool, message));
        }
    };
    let cannot = |error| {
        let message = format!("files for the disassembler: {error}");
        failure(FailureKind::Crash, message)
    };
    let scratch = Scratch::new().map_err(cannot)?;
    std::fs::write(scratch.file("kernel.cubin"), cubin).map_err(cannot)?;
    let mut command = Command::new(program);
    command
        .current_dir(scratch.path())
        // `cuobjdump` runs `nvdisasm` from there.
        .args(arguments)
        .arg("kernel.cubin");
    let said = tool::run_keeping(&mut command, Stage::Assemble, Tail::KEEP, Some(PATIENCE))?;
    Ok(String::from_utf8_lossy(&said.output).into_owned())
}

/// The function that begins in this line: `.text.name:` of `nvdisasm`, `Function : name` of `cuobjdump`.
fn function_of(line: &str) -> Option<&str> {
    let line = line.trim();
    line.strip_prefix(".text.")
        .and_then(|rest| rest.strip_suffix(':'))
        .or_else(|| line.strip_prefix("Function : "))
}

/// Instructions of each function, most frequent first.
fn mixes(text: &str) -> BTreeMap<&str, Vec<(String, u32)>> {
    let mut counts: BTreeMap<&str, BTreeMap<&str, u32>> = BTreeMap::new();
    let mut function = None;
    for line in text.lines() {
        if let Some(name) = function_of(line) {
            function = Some(name);
        } else if let (Some(function), Some(word)) = (function, instruction(line)) {
            *counts.entry(function).or_default().entry(word).or_default() += 1;
        }
    }
    counts
        .into_iter()
        .map(|(function, counts)| {
            let mut mix: Vec<_> = counts
                .into_iter()
                .map(|(word, count)| (word.to_owned(), count))
                .collect();
            // A stable sort: equal ones stay in the order of their names.
            mix.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
            (function, mix)
        })
        .collect()
}

/// The instruction in a line: `/*0010*/  @!P0 LDG.E.64 R2, …;` is `LDG`.
fn instruction(line: &str) -> Option<&str> {
    let rest = line.trim_start().strip_prefix("/*")?;
    let (address, rest) = rest.split_once("*/")?;
    // Encodings, which `cuobjdump` prints, begin with 0x.
    if !address.bytes().all(|b| b.is_ascii_hexdigit()) {
        return None;
    }
    let mut words = rest.trim_start().trim_start_matches('{').split_whitespace();
    let mut word = words.next()?;
    if word.starts_with('@') {
        word = words.next()?;
    }
    let name = word.trim_end_matches([';', '}']).split('.').next()?;
    name.starts_with(|c: char| c.is_ascii_uppercase())
        .then_some(name)
}

fn failure(kind: FailureKind, message: String) -> Failure {
    Failure {
        stage: Stage::Assemble,
        kind,
        message,
        log: String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instructions_are_counted_in_what_both_disassemblers_print() {
        let nvdisasm = "\t.section\t.text.k,\"ax\",@progbits\n.text.k:\n\
            \x20       /*0000*/                   LDC R1, c[0x0][0x28] ;\n\
            \x20       /*0010*/              @!P0 LDG.E.64 R2, desc[UR4][R2.64] ;\n\
            .L_x_0:\n\
            \x20       /*0020*/                   LDG.E R4, desc[UR4][R2.64+0x4] ;\n\
            \x20       /*0030*/                   EXIT ;\n";
        let cuobjdump = "\t\tFunction : k\n\t.headerflags\t@\"EF_CUDA_SM90\"\n\
            \x20       /*0000*/                   LDC R1, c[0x0][0x28] ;    /* 0x00000a00ff017b82 */\n\
            \x20                                                            /* 0x000ff00000000800 */\n\
            \x20       /*0010*/              @!P0 LDG.E.64 R2, desc[UR4][R2.64] ;    /* 0x00 */\n\
            \x20       /*0020*/                   LDG.E R4, desc[UR4][R2.64+0x4] ;    /* 0x00 */\n\
            \x20       /*0030*/                   EXIT ;    /* 0x00 */\n\t\t..........\n";
        let expected = [("LDG", 2), ("EXIT", 1), ("LDC", 1)].map(|(word, n)| (word.to_owned(), n));
        for text in [nvdisasm, cuobjdump] {
            assert_eq!(mixes(text)["k"], expected);
        }
    }
}
