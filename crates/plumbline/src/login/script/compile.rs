//! Compiler of scripts: produces instructions and reports errors before the script runs.

use super::{Expectation, Instruction, Piece, ScriptError, Template};
use net::time::Duration;
use regex::RegexBuilder;
use std::collections::BTreeMap;
use transfer::modem::ModemProtocol;

/// Maximum timeout: one day.
const TIMEOUT_MAX_S: f64 = 86_400.0;

/// Maximum size in bytes of a compiled pattern. Our choice.
const PATTERN_MAX_BYTES: usize = 1 << 20;

/// A compiled script.
#[derive(Clone, Debug, Default)]
pub(in crate::login) struct Script {
    /// Instructions, each with its line number, counted from 1.
    pub(super) instructions: Vec<(usize, Instruction)>,
    /// Variables from the environment.
    pub(super) variables: BTreeMap<String, String>,
}

impl Script {
    /// Compiles a script that may use these environment variables.
    ///
    /// # Errors
    ///
    /// Returns the first error with its line number.
    pub(in crate::login) fn compile(
        text: &str,
        environment: BTreeMap<String, String>,
    ) -> Result<Self, ScriptError> {
        let mut compiler = Compiler {
            instructions: Vec::new(),
            defined_names: environment.keys().cloned().collect(),
            open: Vec::new(),
        };
        for (number, line) in (1..).zip(text.lines()) {
            compiler.line(number, line).map_err(|why| ScriptError { line: number, why })?;
        }
        if let Some(open) = compiler.open.last() {
            let why = "if without end".to_owned();
            return Err(ScriptError { line: open.line, why });
        }
        Ok(Self { instructions: compiler.instructions, variables: environment })
    }
}

/// An `if` without its `end`.
struct OpenIf {
    line: usize,
    /// Index of the conditional branch that skips the first block.
    branch_index: usize,
    /// Index of the jump at the end of the first block, if there is an `else`.
    jump_index: Option<usize>,
}

struct Compiler {
    instructions: Vec<(usize, Instruction)>,
    defined_names: Vec<String>,
    open: Vec<OpenIf>,
}

impl Compiler {
    fn line(&mut self, number: usize, line: &str) -> Result<(), String> {
        let mut tokens = Tokens { rest: line.trim() };
        if tokens.is_at_end() {
            return Ok(());
        }
        let statement =
            tokens.token().ok_or("a statement starts with a keyword such as send or expect")?;
        let instruction = match statement {
            "send" if tokens.accept("break") => Instruction::Break,
            "send" if !tokens.accept("file") => Instruction::Send(self.text(&mut tokens)?),
            "send" => self.transfer(true, true, &mut tokens)?,
            "receive" => {
                let has_name = tokens.accept("file");
                self.transfer(false, has_name, &mut tokens)?
            }
            "say" => Instruction::Say(self.text(&mut tokens)?),
            "expect" => {
                let expectation = expectation(&mut tokens)?;
                let timeout = timeout(&mut tokens)?;
                Instruction::Expect { expectation, timeout }
            }
            "if" => {
                let expectation = expectation(&mut tokens)?;
                let timeout = timeout(&mut tokens)?;
                let branch_index = self.instructions.len();
                self.open.push(OpenIf { line: number, branch_index, jump_index: None });
                Instruction::BranchUnless { expectation, timeout, target: 0 }
            }
            "else" | "end" => {
                tokens.end()?;
                return self.close(number, statement == "else");
            }
            "timeout" => Instruction::Timeout(seconds(&mut tokens)?),
            "on" => {
                let is_complete = tokens.accept("failure") && tokens.accept("exit");
                is_complete.then_some(()).ok_or("usage: on failure exit N")?;
                Instruction::OnFailure(code(&mut tokens)?)
            }
            "set" => {
                let name = tokens.token().filter(|name| is_name(name));
                let name = name.ok_or("set requires a name and a quoted text")?.to_owned();
                let text = self.text(&mut tokens)?;
                self.defined_names.push(name.clone());
                Instruction::Set(name, text)
            }
            "interact" => Instruction::Interact,
            "exit" => Instruction::Exit(code(&mut tokens)?),
            other => {
                return Err(format!(
                    "unknown statement '{}': use send, receive, expect, if, else, end, timeout, on \
                     failure, set, say, interact and exit",
                    other.escape_debug()
                ));
            }
        };
        tokens.end()?;
        self.instructions.push((number, instruction));
        Ok(())
    }

    fn transfer(
        &self,
        is_sending: bool,
        has_file: bool,
        tokens: &mut Tokens<'_>,
    ) -> Result<Instruction, String> {
        let file = if has_file { Some(self.text(tokens)?) } else { None };
        let mut protocol = ModemProtocol::Zmodem;
        if tokens.accept("by") {
            let named = tokens.token().and_then(ModemProtocol::from_name);
            protocol = named.ok_or("use by zmodem, ymodem, xmodem or xmodem-1k")?;
        }
        if !is_sending && protocol.is_xmodem() != has_file {
            return Err("use receive file \"name\" by xmodem, or receive [by ymodem]".to_owned());
        }
        Ok(Instruction::Transfer { is_sending, file, protocol })
    }

    fn close(&mut self, number: usize, is_else: bool) -> Result<(), String> {
        let open_if = self.open.last_mut().ok_or("this else or end has no matching if")?;
        let branch_index = open_if.branch_index;
        let jump_index = open_if.jump_index;
        if is_else {
            if jump_index.is_some() {
                return Err("this if already has an else".to_owned());
            }
            open_if.jump_index = Some(self.instructions.len());
            self.instructions.push((number, Instruction::Jump(0)));
            return self.set_target(branch_index);
        }
        self.open.pop();
        self.set_target(jump_index.unwrap_or(branch_index))
    }

    /// Sets the branch target of the instruction at index `number` to the next instruction.
    fn set_target(&mut self, number: usize) -> Result<(), String> {
        let next = self.instructions.len();
        match self.instructions.get_mut(number) {
            Some((_, Instruction::Jump(target) | Instruction::BranchUnless { target, .. })) => {
                *target = next;
                Ok(())
            }
            _ => Err("this else or end has no matching if".to_owned()),
        }
    }

    fn text(&self, tokens: &mut Tokens<'_>) -> Result<Template, String> {
        let text = tokens.quoted('"').ok_or("missing quoted text")?;
        let template = template(text?)?;
        for piece in &template.0 {
            if let Piece::Variable(name) = piece
                && !name.chars().all(|c| c.is_ascii_digit())
                && !self.defined_names.contains(name)
            {
                return Err(format!(
                    "${{{name}}} is not defined: set it in an earlier line, or pass the \
                     environment variable with --env {name}"
                ));
            }
        }
        Ok(template)
    }
}

/// Unparsed rest of a line.
struct Tokens<'a> {
    rest: &'a str,
}

impl<'a> Tokens<'a> {
    fn is_at_end(&mut self) -> bool {
        self.rest = self.rest.trim_start();
        self.rest.is_empty() || self.rest.starts_with('#')
    }

    fn token(&mut self) -> Option<&'a str> {
        if self.is_at_end() {
            return None;
        }
        let end = self.rest.find(|c: char| c.is_whitespace()).unwrap_or(self.rest.len());
        let (token, rest) = self.rest.split_at_checked(end)?;
        self.rest = rest;
        Some(token)
    }

    /// Consumes `token` if it is the next word.
    fn accept(&mut self, token: &str) -> bool {
        let mut lookahead = Tokens { rest: self.rest };
        let is_next = lookahead.token() == Some(token);
        if is_next {
            self.rest = lookahead.rest;
        }
        is_next
    }

    /// Consumes the text between two `quote` characters; a backslash escapes a quote.
    fn quoted(&mut self, quote: char) -> Option<Result<&'a str, String>> {
        if self.is_at_end() {
            return None;
        }
        let inside = self.rest.strip_prefix(quote)?;
        let mut is_escaped = false;
        for (at, character) in inside.char_indices() {
            match character {
                _ if std::mem::take(&mut is_escaped) => {}
                '\\' => is_escaped = true,
                _ if character == quote => {
                    self.rest = inside.get(at + quote.len_utf8()..).unwrap_or_default();
                    return Some(Ok(inside.get(..at).unwrap_or_default()));
                }
                _ => {}
            }
        }
        Some(Err(format!("missing closing {quote}")))
    }

    fn end(&mut self) -> Result<(), String> {
        if self.is_at_end() {
            return Ok(());
        }
        Err(format!("unexpected '{}'", self.rest.trim_end().escape_debug()))
    }
}

fn expectation(tokens: &mut Tokens<'_>) -> Result<Expectation, String> {
    if tokens.accept("end") {
        return Ok(Expectation::End);
    }
    let pattern = tokens.quoted('/').ok_or("missing pattern between slashes, or end")??;
    let pattern_result = RegexBuilder::new(&pattern.replace("\\/", "/"))
        .multi_line(true)
        .size_limit(PATTERN_MAX_BYTES)
        .build();
    pattern_result.map(Expectation::Pattern).map_err(|error| {
        // The last line is the error message of the regex library; the lines above it quote the
        // pattern.
        let why = error.to_string();
        let why = why.lines().last().unwrap_or_default().trim().to_owned();
        let why = why.strip_prefix("error: ").unwrap_or(&why);
        format!("invalid pattern: {}", why.escape_debug())
    })
}

fn timeout(tokens: &mut Tokens<'_>) -> Result<Option<Duration>, String> {
    if tokens.accept("timeout") { seconds(tokens).map(Some) } else { Ok(None) }
}

fn seconds(tokens: &mut Tokens<'_>) -> Result<Duration, String> {
    let seconds = tokens.token().and_then(|token| token.parse().ok());
    let seconds = seconds.filter(|seconds| (0.0..=TIMEOUT_MAX_S).contains(seconds));
    seconds
        .map(Duration::from_secs_f64)
        .ok_or_else(|| "invalid timeout: use 0 to 86400 seconds".to_owned())
}

fn code(tokens: &mut Tokens<'_>) -> Result<u8, String> {
    let code = tokens.token().and_then(|token| token.parse().ok());
    code.ok_or_else(|| "invalid exit code: use a number from 0 to 255".to_owned())
}

fn is_name(name: &str) -> bool {
    !name.is_empty()
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// Parses the content of a quoted text.
fn template(text: &str) -> Result<Template, String> {
    let mut pieces = Vec::new();
    let mut bytes = Vec::new();
    let mut rest = text;
    while let Some(character) = rest.chars().next() {
        let (decoded, length) = match character {
            '\\' => escape(rest)?,
            '$' => {
                let inside = rest.strip_prefix("${").and_then(|rest| rest.split_once('}'));
                let is_number = |name: &str| name.parse::<u8>().is_ok();
                let name = inside.map(|(name, _)| name).filter(|n| is_name(n) || is_number(n));
                let name =
                    name.ok_or("invalid variable: write ${NAME}, or \\$ for a dollar sign")?;
                pieces.push(Piece::Bytes(std::mem::take(&mut bytes)));
                pieces.push(Piece::Variable(name.to_owned()));
                (Vec::new(), name.len() + 3)
            }
            other => (other.to_string().into_bytes(), other.len_utf8()),
        };
        bytes.extend_from_slice(&decoded);
        rest = rest.get(length..).unwrap_or_default();
    }
    pieces.push(Piece::Bytes(bytes));
    pieces.retain(|piece| *piece != Piece::Bytes(Vec::new()));
    Ok(Template(pieces))
}

/// Parses an escape sequence; returns its bytes and its length.
fn escape(text: &str) -> Result<(Vec<u8>, usize), String> {
    let byte = match text.chars().nth(1) {
        Some('r') => b'\r',
        Some('n') => b'\n',
        Some('t') => b'\t',
        Some('e') => 0x1b,
        Some('\\') => b'\\',
        Some('"') => b'"',
        Some('$') => b'$',
        Some('x') => {
            let digits = text.get(2..4).filter(|digits| !digits.starts_with('+'));
            let byte = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
            return byte
                .map(|byte| (vec![byte], 4))
                .ok_or_else(|| "\\x requires two hexadecimal digits".to_owned());
        }
        other => {
            let escaped = other.map(|other| other.escape_debug().to_string()).unwrap_or_default();
            return Err(format!(
                "unknown escape sequence '\\{escaped}': use \\r \\n \\t \\e \\\" \\\\ \\$ \\xHH"
            ));
        }
    };
    Ok((vec![byte], 2))
}
