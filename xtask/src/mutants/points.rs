//! The places of a source file at which a mutant can be inserted, and the faults for each place.
//!
//! Faults: arithmetic and bitwise operators, the boundary and negation of comparisons, `&&` and `||`,
//! integer literals, `!`, conditions of `if` and of match arms, calls as statements, and the return
//! value of functions that return `bool` or `Option`. Constants, `const fn`, patterns, types,
//! attributes, macro arguments, tests and implementations of `Debug` are left unchanged.

use super::mutant::{Fault, Mutant};
use anyhow::{Context, Result};
use std::ops::Range;
use std::path::Path;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{
    Arm, Attribute, BinOp, Block, Expr, ExprBinary, ExprIf, ExprLit, ExprRepeat, ExprUnary,
    ImplItem, ImplItemFn, Item, ItemFn, ItemImpl, Lit, Meta, Pat, PathArguments, ReturnType,
    Signature, Stmt, TraitItem, Type, UnOp,
};

/// The mutants of one file.
#[derive(Debug)]
pub(super) struct Points {
    pub(super) mutants: Vec<Mutant>,
    /// Paths without extension of the child modules that only tests contain.
    pub(super) test_modules: Vec<String>,
}

/// Returns every possible mutant of the file at `path` with the content `text`.
pub(super) fn of_file(path: &str, text: &str) -> Result<Points> {
    let file = syn::parse_file(text).with_context(|| format!("cannot parse {path}"))?;
    let mut finder =
        Finder { path, text, mutants: Vec::new(), test_modules: Vec::new(), function: None };
    finder.visit_file(&file);
    Ok(Points { mutants: finder.mutants, test_modules: finder.test_modules })
}

struct Finder<'a> {
    path: &'a str,
    text: &'a str,
    mutants: Vec<Mutant>,
    test_modules: Vec<String>,
    /// Lines of the function that is being visited.
    function: Option<Range<usize>>,
}

impl Finder<'_> {
    fn add(&mut self, node: &impl Spanned, fault: Fault, description: String) {
        let span = node.span();
        self.add_range(span.byte_range(), lines(node), fault, description);
    }

    fn add_range(
        &mut self,
        range: Range<usize>,
        lines: Range<usize>,
        fault: Fault,
        description: String,
    ) {
        let Some(function) = self.function.clone() else { return };
        // A newline in the replacement would shift the lines of compiler errors.
        if matches!(&fault, Fault::Replace(code) if code.contains('\n')) {
            return;
        }
        let path = self.path.to_owned();
        self.mutants.push(Mutant { path, range, lines, function, fault, description });
    }

    fn replace(&mut self, node: &impl Spanned, code: String, shown: &str) {
        let original = self.source(node);
        self.add(node, Fault::Replace(code), format!("`{original}` -> `{shown}`"));
    }

    /// Returns the source of `node` on one line, shortened if it is long.
    fn source(&self, node: &impl Spanned) -> String {
        let text = self.text.get(node.span().byte_range()).unwrap_or_default();
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        if text.chars().count() <= SHOWN_CHARACTERS {
            return text;
        }
        text.chars().take(SHOWN_CHARACTERS).chain("...".chars()).collect()
    }

    /// Returns the source of `node`, on one line if it has no comment and no string.
    fn code(&self, node: &impl Spanned) -> String {
        let text = self.text.get(node.span().byte_range()).unwrap_or_default();
        let joinable = !text.contains("//") && !text.contains('"');
        if joinable { text.replace('\n', " ") } else { text.to_owned() }
    }

    fn condition(&mut self, condition: &Expr) {
        if !has_let(condition) {
            for value in ["true", "false"] {
                self.replace(condition, value.to_owned(), value);
            }
        }
    }

    fn function(&mut self, signature: &Signature, block: &Block, visit: impl FnOnce(&mut Self)) {
        if signature.constness.is_some() {
            return;
        }
        let outer = self.function.replace(lines(block));
        let start = block.brace_token.span.open().byte_range().end;
        let first = block.brace_token.span.open().start().line;
        for value in returned_values(&signature.output) {
            // The whole body is the value already.
            if matches!(block.stmts.as_slice(), [Stmt::Expr(it, None)] if self.source(it) == *value)
            {
                continue;
            }
            let description = format!("`{}` returns `{value}`", signature.ident);
            self.add_range(start..start, first..first + 1, Fault::Return(value), description);
        }
        visit(self);
        self.function = outer;
    }

    fn binary(&mut self, node: &ExprBinary) {
        if has_let(&node.left) || has_let(&node.right) {
            return;
        }
        let [left, right] = [self.code(&node.left), self.code(&node.right)];
        let [shown_left, shown_right] = [self.source(&node.left), self.source(&node.right)];
        let assigns = is_assignment(&node.op);
        for operator in replacements(&node.op) {
            let code = if assigns {
                format!("{left} {operator} {right}")
            } else {
                format!("({left}) {operator} ({right})")
            };
            let shown = format!("{shown_left} {operator} {shown_right}");
            self.replace(node, code, &shown);
        }
    }
}

impl<'ast> Visit<'ast> for Finder<'_> {
    fn visit_item(&mut self, item: &'ast Item) {
        if attributes(item).iter().any(excludes) {
            if let Item::Mod(module) = item
                && module.content.is_none()
            {
                self.test_modules.push(child_module(self.path, &module.ident.to_string()));
            }
            return;
        }
        if !matches!(item, Item::Const(_) | Item::Static(_) | Item::Macro(_) | Item::Enum(_)) {
            visit::visit_item(self, item);
        }
    }

    fn visit_item_impl(&mut self, item: &'ast ItemImpl) {
        let of = item.trait_.as_ref().and_then(|(_, path, _)| path.segments.last());
        if of.is_none_or(|of| of.ident != "Debug") {
            visit::visit_item_impl(self, item);
        }
    }

    fn visit_impl_item(&mut self, item: &'ast ImplItem) {
        if let ImplItem::Fn(function) = item
            && !function.attrs.iter().any(excludes)
        {
            self.visit_impl_item_fn(function);
        }
    }

    fn visit_trait_item(&mut self, item: &'ast TraitItem) {
        if let TraitItem::Fn(function) = item
            && let Some(block) = &function.default
        {
            self.function(&function.sig, block, |this| this.visit_block(block));
        }
    }

    fn visit_item_fn(&mut self, item: &'ast ItemFn) {
        self.function(&item.sig, &item.block, |this| this.visit_block(&item.block));
    }

    fn visit_impl_item_fn(&mut self, item: &'ast ImplItemFn) {
        self.function(&item.sig, &item.block, |this| this.visit_block(&item.block));
    }

    fn visit_stmt(&mut self, statement: &'ast Stmt) {
        if let Stmt::Expr(Expr::Call(_) | Expr::MethodCall(_), Some(_)) = statement {
            let source = self.source(statement);
            self.add(statement, Fault::Delete, format!("`{source}` deleted"));
        }
        visit::visit_stmt(self, statement);
    }

    fn visit_expr_if(&mut self, node: &'ast ExprIf) {
        self.condition(&node.cond);
        visit::visit_expr_if(self, node);
    }

    fn visit_arm(&mut self, arm: &'ast Arm) {
        if let Some((_, guard)) = &arm.guard {
            self.condition(guard);
        }
        visit::visit_arm(self, arm);
    }

    fn visit_expr_binary(&mut self, node: &'ast ExprBinary) {
        self.binary(node);
        visit::visit_expr_binary(self, node);
    }

    fn visit_expr_unary(&mut self, node: &'ast ExprUnary) {
        if let UnOp::Not(_) = node.op {
            let shown = self.source(&node.expr);
            self.replace(node, self.code(&node.expr), &shown);
        }
        visit::visit_expr_unary(self, node);
    }

    fn visit_expr_lit(&mut self, node: &'ast ExprLit) {
        if let Lit::Int(literal) = &node.lit
            && let Ok(value) = literal.base10_parse::<u64>()
        {
            let next = format!("{}{}", value.saturating_add(1), literal.suffix());
            self.replace(node, next.clone(), &next);
        }
    }

    fn visit_expr_repeat(&mut self, node: &'ast ExprRepeat) {
        self.visit_expr(&node.expr);
    }

    fn visit_expr_const(&mut self, _: &'ast syn::ExprConst) {}
    fn visit_pat(&mut self, _: &'ast Pat) {}
    fn visit_type(&mut self, _: &'ast Type) {}
    fn visit_path_arguments(&mut self, _: &'ast PathArguments) {}
    fn visit_attribute(&mut self, _: &'ast Attribute) {}
}

/// Longer source text is shortened in a description.
const SHOWN_CHARACTERS: usize = 70;

fn lines(node: &impl Spanned) -> Range<usize> {
    let span = node.span();
    span.start().line..span.end().line + 1
}

/// Returns whether `expression` is a condition with `let`, whose `&&` is not an operator.
fn has_let(expression: &Expr) -> bool {
    match expression {
        Expr::Let(_) => true,
        Expr::Binary(ExprBinary { left, op: BinOp::And(_), right, .. }) => {
            has_let(left) || has_let(right)
        }
        _ => false,
    }
}

fn is_assignment(operator: &BinOp) -> bool {
    replacements(operator).iter().any(|other| other.ends_with('=') && other.len() > 1)
        && !matches!(
            operator,
            BinOp::Lt(_) | BinOp::Le(_) | BinOp::Gt(_) | BinOp::Ge(_) | BinOp::Eq(_) | BinOp::Ne(_)
        )
}

fn replacements(operator: &BinOp) -> &'static [&'static str] {
    match operator {
        BinOp::Add(_) => &["-"],
        BinOp::Sub(_) => &["+"],
        BinOp::Mul(_) => &["/"],
        BinOp::Div(_) | BinOp::Rem(_) => &["*"],
        BinOp::And(_) => &["||"],
        BinOp::Or(_) => &["&&"],
        BinOp::BitXor(_) | BinOp::BitAnd(_) => &["|"],
        BinOp::BitOr(_) => &["&"],
        BinOp::Shl(_) => &[">>"],
        BinOp::Shr(_) => &["<<"],
        BinOp::Eq(_) => &["!="],
        BinOp::Ne(_) => &["=="],
        BinOp::Lt(_) => &["<=", ">="],
        BinOp::Le(_) => &["<", ">"],
        BinOp::Ge(_) => &[">", "<"],
        BinOp::Gt(_) => &[">=", "<="],
        BinOp::AddAssign(_) => &["-="],
        BinOp::SubAssign(_) => &["+="],
        BinOp::MulAssign(_) => &["/="],
        BinOp::DivAssign(_) | BinOp::RemAssign(_) => &["*="],
        BinOp::BitXorAssign(_) | BinOp::BitAndAssign(_) => &["|="],
        BinOp::BitOrAssign(_) => &["&="],
        BinOp::ShlAssign(_) => &[">>="],
        BinOp::ShrAssign(_) => &["<<="],
        _ => &[],
    }
}

/// Returns the values that a function with the return type `output` can return at once.
fn returned_values(output: &ReturnType) -> &'static [&'static str] {
    let ReturnType::Type(_, returned) = output else { return &[] };
    let Type::Path(path) = returned.as_ref() else { return &[] };
    let Some(segment) = path.path.segments.last() else { return &[] };
    match segment.ident.to_string().as_str() {
        "bool" => &["true", "false"],
        "Option" => &["None"],
        _ => &[],
    }
}

/// Returns whether an item with `attribute` depends on the kind of build or is a test.
fn excludes(attribute: &Attribute) -> bool {
    let Meta::List(list) = &attribute.meta else { return attribute.path().is_ident("test") };
    list.path.is_ident("cfg")
}

fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Fn(it) => &it.attrs,
        Item::Impl(it) => &it.attrs,
        Item::Mod(it) => &it.attrs,
        Item::Trait(it) => &it.attrs,
        _ => &[],
    }
}

/// Returns the path without extension of the module `name` that the file at `path` declares.
fn child_module(path: &str, name: &str) -> String {
    let path = Path::new(path);
    let parent = path.parent().unwrap_or(Path::new(""));
    let directory = match path.file_stem().and_then(|stem| stem.to_str()) {
        Some("mod" | "lib" | "main") | None => parent.to_owned(),
        Some(stem) => parent.join(stem),
    };
    directory.join(name).to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn described(text: &str) -> Vec<String> {
        let points = of_file("a/b.rs", text).unwrap();
        points.mutants.into_iter().map(|mutant| mutant.description).collect()
    }

    #[test]
    fn each_operator_literal_condition_call_and_result_is_a_point() {
        let text = "fn f(a: u8) -> Option<u8> { if a < 7 { g(); } Some(!a) }";
        assert_eq!(
            described(text),
            [
                "`f` returns `None`",
                "`a < 7` -> `true`",
                "`a < 7` -> `false`",
                "`a < 7` -> `a <= 7`",
                "`a < 7` -> `a >= 7`",
                "`7` -> `8`",
                "`g();` deleted",
                "`!a` -> `a`",
            ]
        );
    }

    #[test]
    fn constants_patterns_types_macros_and_tests_are_not_points() {
        let text = "const A: u8 = 1 + 2; const fn f() -> u8 { 3 } fn g(a: [u8; 4]) { \
            match a { [1, ..] => assert!(a == [5; 4]), _ => {} } } \
            #[cfg(test)] mod tests { fn h() -> u8 { 3 } }";
        assert_eq!(described(text), Vec::<String>::new());
    }

    #[test]
    fn a_condition_with_let_keeps_its_operator() {
        let text = "fn f(a: Option<u8>) { if b == c && let Some(_) = a {} }";
        assert_eq!(described(text), ["`b == c` -> `b != c`"]);
    }

    #[test]
    fn the_modules_of_tests_are_reported_with_their_path() {
        let modules = |path| of_file(path, "#[cfg(test)] mod tests;").unwrap().test_modules;
        assert_eq!(modules("a/b.rs"), ["a/b/tests"]);
        assert_eq!(modules("a/mod.rs"), ["a/tests"]);
    }
}
