//! The scanner: one pass over the text of a module.

use std::collections::{BTreeMap, BTreeSet};

use super::declarator::Declarator;
use super::lexer::{Lexer, Token};
use super::{PtxEntry, PtxModule, PtxParam, PtxVariable, calls};
use crate::kernel::Space;
use crate::problem::{ProblemKind, Problems};

/// Scans a whole module.
pub(super) fn module(text: &[u8]) -> PtxModule {
    let text = text.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(text);
    let mut scanner = Scanner {
        lexer: Lexer::new(text),
        text,
        module: PtxModule {
            address_size: 32,
            ..PtxModule::default()
        },
        externs: BTreeSet::new(),
        calls: BTreeMap::new(),
        problems: Problems::default(),
        entry_names: Vec::new(),
    };
    scanner.run();
    scanner.finish()
}

/// Scans no further than `.version` and `.target`.
pub(super) fn header(text: &[u8], module: &mut PtxModule) {
    let text = text.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(text);
    let mut lexer = Lexer::new(text);
    while let Some(token) = lexer.next() {
        match token {
            Token::Dot(b"version") => module.version = version(&mut lexer),
            Token::Dot(b"target") => return module.target = target(&mut lexer),
            _ => return,
        }
    }
}

fn version(lexer: &mut Lexer<'_>) -> (u16, u16) {
    let Some(Token::Number(number)) = lexer.next() else {
        return (0, 0);
    };
    let text = String::from_utf8_lossy(number);
    let (major, minor) = text.split_once('.').unwrap_or((&text, "0"));
    (major.parse().unwrap_or(0), minor.parse().unwrap_or(0))
}

fn target(lexer: &mut Lexer<'_>) -> Vec<String> {
    let mut names = Vec::new();
    while let Some(Token::Name(name)) = lexer.peek() {
        lexer.next();
        names.push(string(name));
        if !lexer.take(b',') {
            break;
        }
    }
    names
}

fn string(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[derive(Clone, Copy, Default)]
struct Linkage {
    external: bool,
    visible: bool,
}

struct Scanner<'a> {
    lexer: Lexer<'a>,
    text: &'a [u8],
    module: PtxModule,
    entry_names: Vec<&'a [u8]>,
    externs: BTreeSet<&'a [u8]>,
    calls: BTreeMap<&'a [u8], BTreeSet<&'a [u8]>>,
    problems: Problems,
}

impl<'a> Scanner<'a> {
    fn problem(&mut self, at: usize, message: impl Into<String>) {
        if !self.problems.full() {
            let line = self.lexer.line_of(at);
            self.problems.add(
                format_args!("line {line}"),
                ProblemKind::Ptx(message.into()),
            );
        }
    }

    fn run(&mut self) {
        let mut linkage = Linkage::default();
        loop {
            self.lexer.skip_blank();
            let start = self.lexer.at();
            let Some(token) = self.lexer.next() else {
                return;
            };
            let Token::Dot(word) = token else {
                match token {
                    // Old debug sections: one `@@DWARF` directive a line.
                    Token::Punct(b'@') => self.lexer.skip_line(),
                    Token::Punct(b';') => {}
                    _ => {
                        self.problem(start, "text that belongs to no declaration");
                        self.resync();
                    }
                }
                continue;
            };
            match word {
                b"extern" => linkage.external = true,
                b"visible" | b"weak" | b"common" => linkage.visible = true,
                b"version" => self.module.version = version(&mut self.lexer),
                b"target" => self.module.target = target(&mut self.lexer),
                b"address_size" => {
                    if let Some(size) = self.lexer.number() {
                        self.module.address_size = u32::try_from(size).unwrap_or(0);
                    }
                }
                b"entry" => self.entry(std::mem::take(&mut linkage)),
                b"func" => self.func(std::mem::take(&mut linkage)),
                b"global" => self.variables(Space::Global, std::mem::take(&mut linkage)),
                b"const" => self.variables(Space::Constant, std::mem::take(&mut linkage)),
                b"file" | b"loc" => self.skip_operands(),
                b"section" => {
                    self.skip_operands();
                    if self.lexer.take(b'{') {
                        self.lexer.skip_block(b'{', b'}');
                    }
                }
                b"shared" | b"local" | b"tex" | b"alias" | b"pragma" | b"param" | b"reg" => {
                    linkage = Linkage::default();
                    self.resync();
                }
                other => {
                    linkage = Linkage::default();
                    let shown = string(other.get(..40).unwrap_or(other));
                    self.problem(start, format!("unknown directive .{shown}"));
                    self.resync();
                }
            }
        }
    }

    /// Skips numbers, names, strings and commas: operands of a directive without an end mark.
    fn skip_operands(&mut self) {
        while let Some(Token::Number(_) | Token::Text(_) | Token::Punct(b',') | Token::Name(_)) =
            self.lexer.peek()
        {
            self.lexer.next();
        }
        // `.section .debug_info`
        if let Some(Token::Dot(name)) = self.lexer.peek()
            && (name.starts_with(b"debug") || name.starts_with(b"nv"))
        {
            self.lexer.next();
        }
    }

    /// Skips to the end of a statement or block, or to what must be the next declaration.
    fn resync(&mut self) {
        loop {
            self.lexer.skip_blank();
            let start = self.lexer.at();
            match self.lexer.next() {
                None | Some(Token::Punct(b';')) => return,
                Some(Token::Punct(b'{')) => {
                    self.lexer.skip_block(b'{', b'}');
                    // The end of an initialiser or of a body.
                    self.lexer.take(b';');
                    return;
                }
                Some(Token::Dot(b"entry" | b"func" | b"visible" | b"extern" | b"weak")) => {
                    return self.lexer.rewind(start);
                }
                Some(_) => {}
            }
        }
    }

    /// One to three numbers; those that are not given are 1.
    fn dims(&mut self) -> Option<[u32; 3]> {
        let mut dims = [1; 3];
        for (index, dim) in dims.iter_mut().enumerate() {
            if index > 0 && !self.lexer.take(b',') {
                break;
            }
            *dim = u32::try_from(self.lexer.number()?).ok()?;
        }
        Some(dims)
    }

    fn number_u32(&mut self) -> Option<u32> {
        self.lexer.number().and_then(|n| u32::try_from(n).ok())
    }

    fn entry(&mut self, linkage: Linkage) {
        let start = self.lexer.at();
        let Some(Token::Name(name)) = self.lexer.next() else {
            self.problem(start, ".entry without a name");
            return self.resync();
        };
        let mut entry = PtxEntry {
            name: string(name),
            visible: linkage.visible,
            ..PtxEntry::default()
        };
        let params = if self.lexer.take(b'(') {
            self.params()
        } else {
            Some(Vec::new())
        };
        entry.params_known = params.is_some();
        entry.params = params.unwrap_or_default();
        if let Some(body) = self.function_tail(Some(&mut entry)) {
            self.calls
                .entry(name)
                .or_default()
                .extend(calls_if(&self.externs, body));
            self.entry_names.push(name);
            self.module.entries.push(entry);
        }
    }

    fn func(&mut self, linkage: Linkage) {
        if self.lexer.take(b'(') {
            self.lexer.skip_block(b'(', b')');
        }
        let start = self.lexer.at();
        let Some(Token::Name(name)) = self.lexer.next() else {
            self.problem(start, ".func without a name");
            return self.resync();
        };
        if self.lexer.take(b'(') {
            self.lexer.skip_block(b'(', b')');
        }
        if linkage.external {
            self.externs.insert(name);
        }
        if let Some(body) = self.function_tail(None) {
            self.externs.remove(name);
            self.calls
                .entry(name)
                .or_default()
                .extend(calls_if(&self.externs, body));
        }
    }

    /// Directives behind the parameters, then the body; `None` for a declaration without one.
    fn function_tail(&mut self, mut entry: Option<&mut PtxEntry>) -> Option<&'a [u8]> {
        loop {
            self.lexer.skip_blank();
            let start = self.lexer.at();
            let mut ignored = PtxEntry::default();
            match self.lexer.next()? {
                Token::Punct(b';') => return None,
                Token::Punct(b'{') => {
                    let from = self.lexer.at();
                    if !self.lexer.skip_block(b'{', b'}') {
                        self.problem(start, "the text ends inside a body");
                    }
                    return self.text.get(from..self.lexer.at());
                }
                Token::Dot(b"pragma") => {
                    while let Some(Token::Text(_) | Token::Punct(b',')) = self.lexer.peek() {
                        self.lexer.next();
                    }
                    self.lexer.take(b';');
                }
                Token::Dot(b"visible" | b"extern" | b"weak" | b"entry" | b"func" | b"global") => {
                    self.problem(start, "a function without a body or a semicolon");
                    self.lexer.rewind(start);
                    return None;
                }
                Token::Dot(word) => {
                    let entry = entry.as_deref_mut().unwrap_or(&mut ignored);
                    match word {
                        b"maxntid" => entry.max_block = self.dims(),
                        b"reqntid" => entry.required_block = self.dims(),
                        b"minnctapersm" => entry.min_blocks = self.number_u32(),
                        b"maxnreg" => entry.max_registers = self.number_u32(),
                        b"reqnctapercluster" => entry.cluster_dims = self.dims(),
                        b"maxclusterrank" => entry.max_cluster_rank = self.number_u32(),
                        b"explicitcluster" => entry.explicit_cluster = true,
                        // .noreturn, .maxnctapersm, .blocksareclusters, .abi_preserve and what is
                        // to come: their operands are numbers.
                        _ => {}
                    }
                }
                _ => {}
            }
        }
    }

    /// Behind `(`: `.param` declarations up to `)`. `None` when one is not understood: the offsets
    /// of those behind it would be wrong.
    fn params(&mut self) -> Option<Vec<PtxParam>> {
        let mut params = Vec::new();
        let mut end = 0;
        loop {
            let start = self.lexer.at();
            match self.lexer.next() {
                Some(Token::Punct(b')')) => return Some(params),
                Some(Token::Dot(b"param")) => {
                    let param = param(&mut self.lexer, end);
                    if let Some(param) = param {
                        end = u64::from(param.offset) + u64::from(param.size);
                        params.push(param);
                    } else {
                        self.problem(start, "a parameter whose size is not known");
                        self.lexer.skip_block(b'(', b')');
                        return None;
                    }
                }
                Some(_) => {}
                None => {
                    self.problem(start, "the text ends inside a parameter list");
                    return None;
                }
            }
        }
    }

    /// Behind `.global` or `.const`: declarators up to `;`.
    fn variables(&mut self, space: Space, linkage: Linkage) {
        let start = self.lexer.at();
        let mut found = Declarator::read(&mut self.lexer);
        loop {
            let initialised = self.lexer.take(b'=') && self.initialiser();
            if found.name.is_empty() || found.ty.is_empty() {
                self.problem(start, "a variable without a name or a type");
                return self.resync();
            }
            let size = found.size();
            if size.is_none() {
                self.problem(start, "a variable whose size is not known");
            }
            self.module.variables.push(PtxVariable {
                name: string(found.name),
                space: if found.managed { Space::Managed } else { space },
                size: size.unwrap_or(0),
                align: found.alignment(),
                initialised,
                visible: linkage.visible,
                external: linkage.external,
            });
            if self.lexer.take(b',') {
                found = found.next(&mut self.lexer);
            } else {
                let at = self.lexer.at();
                if !self.lexer.take(b';') {
                    self.problem(at, "a variable without a semicolon");
                    self.resync();
                }
                return;
            }
        }
    }

    /// Behind `=`: the initial value. Answers whether it holds anything but zeros.
    fn initialiser(&mut self) -> bool {
        let mut depth = 0u64;
        let mut value = false;
        while let Some(token) = self.lexer.peek() {
            match token {
                Token::Punct(b',' | b';') if depth == 0 => break,
                Token::Punct(b';') => break,
                Token::Punct(b'{' | b'(') => depth += 1,
                Token::Punct(b'}' | b')') => depth = depth.saturating_sub(1),
                Token::Number(literal) => {
                    value |= literal
                        .iter()
                        .any(|b| !matches!(b, b'0' | b'x' | b'.' | b'U'))
                        && !matches!(literal, b"0f00000000" | b"0d0000000000000000");
                }
                Token::Name(_) => value = true,
                _ => {}
            }
            self.lexer.next();
        }
        value
    }

    fn finish(mut self) -> PtxModule {
        let roots = self.entry_names.iter().copied();
        let (externs, complete) = calls::reach(&self.calls, &self.externs, roots);
        for (entry, externs) in self.module.entries.iter_mut().zip(externs) {
            entry.externs = externs;
        }
        if !complete {
            self.problems
                .add("module", ProblemKind::Limit("too many calls to follow"));
        }
        self.module.externs = self.externs.into_iter().map(string).collect();
        self.module.problems = self.problems.into_vec();
        self.module
    }
}

/// Behind `.param`: one parameter, at or behind offset `end`.
fn param(lexer: &mut Lexer<'_>, end: u64) -> Option<PtxParam> {
    let found = Declarator::read(lexer);
    let align = found.alignment();
    let size = u32::try_from(found.size()?).ok()?;
    let offset = u32::try_from(end.checked_next_multiple_of(align)?).ok()?;
    offset.checked_add(size)?;
    Some(PtxParam {
        name: string(found.name),
        offset,
        size,
        align: u32::try_from(align).ok()?,
        ty: string(found.ty),
        ptr_space: found.ptr,
        pointee_align: found.pointee_align.and_then(|a| u32::try_from(a).ok()),
    })
}

/// Bodies are only searched for calls when there are external functions that they could reach.
fn calls_if<'a>(externs: &BTreeSet<&[u8]>, body: &'a [u8]) -> BTreeSet<&'a [u8]> {
    if externs.is_empty() {
        BTreeSet::new()
    } else {
        calls::callees(body)
    }
}
