//! The doc comments and serde attributes of an item.

use syn::punctuated::Punctuated;
use syn::{Attribute, Expr, ExprLit, Lit, Meta, Token};

use super::constants;

/// The doc comment as one line of text, with the limits that it names as numbers.
pub fn text(attributes: &[Attribute]) -> String {
    let lines: Vec<String> = attributes.iter().filter_map(doc_line).collect();
    let text = constants::filled_in(lines.join(" ").trim());
    // Links of rustdoc, and comments that are only a reference, are of no use elsewhere.
    if text.starts_with("See [") { String::new() } else { text.replace(['[', ']'], "") }
}

fn doc_line(attribute: &Attribute) -> Option<String> {
    let Meta::NameValue(meta) = &attribute.meta else { return None };
    if !meta.path.is_ident("doc") {
        return None;
    }
    text_of(&meta.value).map(|text| text.trim().to_owned())
}

fn text_of(value: &Expr) -> Option<String> {
    match value {
        Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) => Some(text.value()),
        _ => None,
    }
}

/// The content of `#[serde(…)]`.
#[derive(Debug, Default)]
pub struct Serde {
    /// The name on the wire, if it differs.
    pub rename: Option<String>,
    /// The case of the variants of an enum on the wire.
    pub rename_all: Option<String>,
    /// Whether the field may be absent.
    pub is_optional: bool,
    /// Whether the field is flattened.
    pub is_flat: bool,
    /// Whether the variant stands for unknown values.
    pub is_other: bool,
}

impl Serde {
    /// Reads the attributes of an item.
    pub fn of(attributes: &[Attribute]) -> Self {
        let mut serde = Self::default();
        for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("serde")) {
            let parse = Punctuated::<Meta, Token![,]>::parse_terminated;
            for meta in attribute.parse_args_with(parse).unwrap() {
                serde.apply(&meta);
            }
        }
        serde
    }

    fn apply(&mut self, meta: &Meta) {
        let name = meta.path().get_ident().unwrap().to_string();
        let value = match meta {
            Meta::NameValue(meta) => text_of(&meta.value),
            Meta::Path(_) | Meta::List(_) => None,
        };
        match name.as_str() {
            "rename" => self.rename = value,
            "rename_all" => self.rename_all = value,
            "default" | "skip_serializing_if" => self.is_optional = true,
            "flatten" => self.is_flat = true,
            "other" => self.is_other = true,
            "tag" | "skip_serializing" | "deserialize_with" | "transparent" => {}
            unknown => panic!("serde({unknown}) is not supported for TypeScript"),
        }
    }
}

/// A variant's name in the case of `rename_all`.
pub fn renamed(variant: &str, rename_all: &str) -> String {
    let mut snake = String::new();
    for letter in variant.chars() {
        if letter.is_uppercase() && !snake.is_empty() {
            snake.push('_');
        }
        snake.extend(letter.to_lowercase());
    }
    match rename_all {
        "snake_case" => snake,
        "SCREAMING_SNAKE_CASE" => snake.to_uppercase(),
        unknown => panic!("rename_all = {unknown:?} is not supported for TypeScript"),
    }
}
