//! The items of a Rust file, from its text without comments and literals.
//!
//! Items are recognized by their keyword. A body is not parsed, except the members of types and
//! traits and the public items of inherent implementations.

use crate::tidy::source::is_name;

/// One item of a module.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Item {
    /// The keyword, such as `fn` or `struct`; `macro` for an invocation.
    pub(super) kind: String,
    /// The name; for `use` the tree of paths, for `impl` the text before its body.
    pub(super) name: String,
    pub(super) is_public: bool,
    /// The text after the name: a signature, a type, or the derived traits.
    pub(super) suffix: String,
    /// Contents of the braces after an inline module, an implementation or an invocation.
    pub(super) body: String,
    /// Members that other crates can name.
    pub(super) members: Vec<Member>,
}

/// A public field, a variant, or an item of a trait.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Member {
    pub(super) kind: &'static str,
    pub(super) name: String,
    pub(super) suffix: String,
}

/// Returns the items in `code`, except those that exist only in tests or with mutants.
pub(super) fn items(code: &str) -> Vec<Item> {
    let mut items = Vec::new();
    let mut rest = code.trim_start();
    while !rest.is_empty() {
        let (attributes, after) = attributes(rest);
        let length = item_length(after);
        let (text, next) = after.split_at(length);
        if !is_excluded(&attributes) {
            items.extend(item(text, &attributes));
        }
        // The semicolon after a brace, as in `use a::{b};`.
        rest = next.trim_start_matches([';', '}']).trim_start();
    }
    items
}

/// Splits off the attributes at the start of `text`.
fn attributes(text: &str) -> (Vec<&str>, &str) {
    let mut attributes = Vec::new();
    let mut rest = text.trim_start();
    while rest.starts_with('#') {
        let start = rest.find('[').unwrap_or(rest.len());
        let length = start + group_length(rest.get(start..).unwrap_or_default());
        let (attribute, after) = rest.split_at(length.max(1));
        attributes.push(attribute);
        rest = after.trim_start();
    }
    (attributes, rest)
}

fn is_excluded(attributes: &[&str]) -> bool {
    attributes.iter().filter(|attribute| attribute.starts_with("#[cfg(")).any(|condition| {
        let mut words = condition.split(|c| !is_name(c));
        words.clone().any(|word| matches!(word, "test" | "mutants"))
            && !words.any(|word| word == "not")
    })
}

/// Returns the length of the bracketed text at the start of `text`.
fn group_length(text: &str) -> usize {
    let mut depth = 0_u32;
    for (at, c) in text.char_indices() {
        match c {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return at + 1;
                }
            }
            _ => {}
        }
    }
    text.len()
}

/// Returns the length of the item at the start of `text`, to its last brace or semicolon.
fn item_length(text: &str) -> usize {
    let mut at = 0;
    while let Some(c) = text.get(at..).and_then(|rest| rest.chars().next()) {
        match c {
            ';' => return at + 1,
            '(' | '[' => at += group_length(text.get(at..).unwrap_or_default()),
            '{' => return at + group_length(text.get(at..).unwrap_or_default()),
            _ => at += c.len_utf8(),
        }
    }
    text.len()
}

fn item(text: &str, attributes: &[&str]) -> Option<Item> {
    let (is_public, declaration) = visibility(text);
    let (qualifiers, declaration) = qualifiers(declaration);
    let keyword = declaration.split(|c| !is_name(c)).next()?;
    let after = declaration.strip_prefix(keyword)?.trim_start();
    let name_len = after.find(|c| !is_name(c)).unwrap_or(after.len());
    let (name, rest) = after.split_at(name_len);
    let (head, body) = split_body(rest);
    let mut item = Item {
        kind: format!("{qualifiers}{keyword}"),
        name: name.to_owned(),
        is_public,
        ..Item::default()
    };
    match keyword {
        "fn" => item.suffix = tidied(head),
        "mod" => item.body = body.to_owned(),
        "const" | "static" | "type" => {
            let end = if keyword == "type" { ";" } else { "=" };
            item.suffix = spaced(rest.split(end).next()?.trim_end_matches(';'));
        }
        "struct" | "union" | "enum" => {
            item.suffix = generics(head);
            item.members = if keyword == "enum" { variants(body) } else { fields(head, body) };
            let has_private = keyword != "enum" && has_private_field(head, body);
            item.suffix += if has_private { " { .. }" } else { "" };
            item.suffix += &derived(attributes);
        }
        "trait" => {
            item.suffix = tidied(head);
            item.members = trait_members(body);
        }
        "use" => item.name = tidied(after.trim_end_matches(';')),
        "impl" => {
            let (head, body) = split_body(after);
            item.name = tidied(head);
            item.body = body.to_owned();
        }
        "macro_rules" => {
            item.name = rest.trim_start_matches('!').split_whitespace().next()?.to_owned();
            item.body = split_body(rest).1.to_owned();
        }
        _ if after.starts_with('!') => {
            item.kind = "macro".to_owned();
            item.name = keyword.to_owned();
            item.body = split_body(after).1.to_owned();
        }
        _ => return None,
    }
    Some(item)
}

/// Splits off the visibility of an item or field; `pub(crate)` is not public.
fn visibility(text: &str) -> (bool, &str) {
    let text = text.trim_start();
    match text.strip_prefix("pub") {
        Some(rest) if rest.starts_with('(') => {
            (false, rest.get(group_length(rest)..).unwrap_or_default().trim_start())
        }
        Some(rest) if rest.starts_with(char::is_whitespace) => (true, rest.trim_start()),
        _ => (false, text),
    }
}

/// Splits off the qualifiers of a function, and `unsafe` of a trait or an implementation.
fn qualifiers(text: &str) -> (String, &str) {
    let mut qualifiers = String::new();
    let mut rest = text;
    loop {
        let word = rest.split(|c| !is_name(c)).next().unwrap_or_default();
        let after = rest.get(word.len()..).unwrap_or_default().trim_start();
        let next = after.split(|c| !is_name(c)).next().unwrap_or_default();
        let is_qualifier = match word {
            "async" | "unsafe" | "extern" | "default" => next != "crate",
            "const" => matches!(next, "fn" | "async" | "unsafe" | "extern"),
            _ => false,
        };
        if !is_qualifier {
            return (qualifiers, rest);
        }
        qualifiers += word;
        qualifiers.push(' ');
        rest = after;
    }
}

/// Splits the text after a name into the part before the braces and the contents of the braces.
fn split_body(text: &str) -> (&str, &str) {
    let length = item_length(text);
    let item = text.get(..length).unwrap_or(text);
    let Some(without_brace) = item.strip_suffix('}') else {
        return (item.trim_end_matches(';').trim_end(), "");
    };
    let mut start = 0;
    while let Some(c) = item.get(start..).and_then(|rest| rest.chars().next()) {
        match c {
            '(' | '[' => start += group_length(item.get(start..).unwrap_or_default()),
            '{' => break,
            _ => start += c.len_utf8(),
        }
    }
    let head = item.get(..start).unwrap_or_default().trim_end();
    (head, without_brace.get(start + 1..).unwrap_or_default())
}

/// Returns the generic parameters and bounds of a type, without its tuple fields.
fn generics(head: &str) -> String {
    tidied(head.split('(').next().unwrap_or_default())
}

/// Returns the derived traits as a suffix, in alphabetical order.
fn derived(attributes: &[&str]) -> String {
    let lists = attributes.iter().filter_map(|attribute| attribute.strip_prefix("#[derive("));
    let names = lists.flat_map(|list| list.trim_end_matches([')', ']']).split(','));
    let mut names: Vec<&str> = names.map(str::trim).filter(|name| !name.is_empty()).collect();
    names.sort_unstable();
    if names.is_empty() { String::new() } else { format!(": {}", names.join(" + ")) }
}

/// Splits `text` at the commas outside of brackets.
fn split_list(text: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut depth = 0_i32;
    let mut start = 0;
    let mut before = ' ';
    for (at, c) in text.char_indices() {
        match c {
            '(' | '[' | '{' | '<' => depth += 1,
            // The `>` of an arrow closes nothing.
            '>' if matches!(before, '-' | '=') => {}
            ')' | ']' | '}' | '>' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(text.get(start..at).unwrap_or_default());
                start = at + 1;
            }
            _ => {}
        }
        before = c;
    }
    parts.push(text.get(start..).unwrap_or_default());
    parts.retain(|part| !part.trim().is_empty());
    parts
}

/// Returns the declarations of the fields of a struct: of the braces, or of the tuple.
fn field_texts<'a>(head: &'a str, body: &'a str) -> (bool, Vec<&'a str>) {
    match head.find('(') {
        Some(start) => {
            let group = head.get(start..).unwrap_or_default();
            let end = group_length(group).saturating_sub(1);
            (true, split_list(group.get(1..end).unwrap_or_default()))
        }
        None => (false, split_list(body)),
    }
}

fn fields(head: &str, body: &str) -> Vec<Member> {
    let (is_tuple, texts) = field_texts(head, body);
    let texts = texts.into_iter().enumerate().map(|(number, text)| (number, attributes(text).1));
    let public = texts.filter_map(|(number, text)| {
        let (is_public, text) = visibility(text);
        let (name, suffix) = match text.split_once(':').filter(|_| !is_tuple) {
            Some((name, kind)) => (name.trim().to_owned(), kind),
            None => (number.to_string(), text),
        };
        let suffix = format!(": {}", tidied(suffix));
        is_public.then_some(Member { kind: "field", name, suffix })
    });
    public.collect()
}

fn has_private_field(head: &str, body: &str) -> bool {
    let (_, texts) = field_texts(head, body);
    texts.into_iter().any(|text| !visibility(attributes(text).1).0)
}

fn variants(body: &str) -> Vec<Member> {
    let texts = split_list(body).into_iter().map(|text| attributes(text).1.trim());
    let variant = |text: &str| {
        let name_len = text.find(|c| !is_name(c)).unwrap_or(text.len());
        let (name, content) = text.split_at(name_len);
        Member { kind: "variant", name: name.to_owned(), suffix: spaced(content) }
    };
    texts.map(variant).collect()
}

fn trait_members(body: &str) -> Vec<Member> {
    let member = |item: Item| {
        let kind = match item.kind.as_str() {
            "const" => "const",
            "type" => "type",
            _ => "fn",
        };
        Member { kind, name: item.name, suffix: item.suffix }
    };
    items(body).into_iter().map(member).collect()
}

/// Returns `text` on one line, with a space in front of a brace or an equals sign at its start.
fn spaced(text: &str) -> String {
    let line = tidied(text);
    if line.starts_with(['{', '=']) { format!(" {line}") } else { line }
}

/// Returns `text` on one line, as rustfmt writes it if it fits on one line.
pub(super) fn tidied(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let line = line.replace("( ", "(").replace(", )", ")").replace(" )", ")");
    line.replace(", >", ">").replace("< ", "<").trim_end_matches(',').replace(", }", " }")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn only(code: &str) -> Item {
        let mut all = items(code);
        assert_eq!(all.len(), 1, "{all:?}");
        all.remove(0)
    }

    #[test]
    fn a_function_has_its_qualifiers_and_its_signature() {
        let item = only("pub const unsafe fn a<T>(\n    b: &[T],\n) -> [u8; 2]\n{\n  { c; }\n}\n");
        assert_eq!((item.kind.as_str(), item.name.as_str()), ("const unsafe fn", "a"));
        assert_eq!(item.suffix, "<T>(b: &[T]) -> [u8; 2]");
        assert!(item.is_public && !only("pub(crate) fn a() {}").is_public);
    }

    #[test]
    fn a_struct_has_its_public_fields_and_its_derived_traits() {
        let item =
            only("#[derive(Debug, Clone)]\npub struct A<T> {\n pub b: Vec<(u8, T)>,\n c: u8,\n}");
        assert_eq!(item.suffix, "<T> { .. }: Clone + Debug");
        let field = Member { kind: "field", name: "b".into(), suffix: ": Vec<(u8, T)>".into() };
        assert_eq!(item.members, [field]);
        let tuple = only("pub struct A(pub u8, pub fn(u8) -> u8);");
        let suffixes: Vec<&str> = tuple.members.iter().map(|field| field.suffix.as_str()).collect();
        assert_eq!((tuple.suffix.as_str(), suffixes), ("", vec![": u8", ": fn(u8) -> u8"]));
    }

    #[test]
    fn an_enum_has_its_variants_with_their_contents() {
        let item = only("enum A { #[default] B, C(u8), D { e: u8, }, }");
        let variants =
            item.members.iter().map(|member| format!("{}{}", member.name, member.suffix));
        assert_eq!(variants.collect::<Vec<_>>(), ["B", "C(u8)", "D { e: u8 }"].map(str::to_owned));
    }

    #[test]
    fn items_for_tests_and_mutants_are_left_out() {
        let code = "#[cfg(test)] mod a;\n#[cfg(mutants)] pub mod b;\n#[cfg(not(mutants))] mod c;\n";
        let names: Vec<String> = items(code).into_iter().map(|item| item.name).collect();
        assert_eq!(names, ["c"]);
    }

    #[test]
    fn a_constant_has_its_type_without_its_value() {
        let items =
            items("pub const A: [u8; 2] = [1, 2];\npub static B: C = C { d: 1 };\nfn e() {}");
        let found: Vec<_> = items.iter().map(|item| (&*item.name, &*item.suffix)).collect();
        assert_eq!(found, [("A", ": [u8; 2]"), ("B", ": C"), ("e", "()")]);
    }

    #[test]
    fn the_body_of_an_implementation_begins_after_its_bounds() {
        let item = only("impl<T: A> B<T> where T: C { pub fn d() {} }");
        assert_eq!(
            (item.name.as_str(), item.body.trim()),
            ("<T: A> B<T> where T: C", "pub fn d() {}")
        );
    }
}
