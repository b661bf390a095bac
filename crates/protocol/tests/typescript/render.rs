//! Structs and enums as TypeScript interfaces and unions.

use std::fmt::Write;

use syn::{Field, Fields, File, Item, ItemEnum, ItemStruct, Variant, Visibility};

use crate::comment::doc;
use heartline_testing::source::attributes::{Serde, renamed};
use heartline_testing::source::types;

/// Names that two modules share.
const RENAMED: [(&str, &str, &str); 1] = [("rest", "SendMessage", "SendMessageBody")];

/// The fields that every frame of a kind has besides its own.
const FRAMES: [(&str, &str); 2] = [
    ("ClientFrame", ""),
    ("ServerFrame", "  /** When the server sent the frame. */\n  timestamp: Timestamp;\n"),
];

/// The public types of a module.
pub(crate) fn module(name: &str, file: &File) -> String {
    let mut text = String::new();
    for item in &file.items {
        match item {
            Item::Struct(item) if is_public(&item.vis) => text.push_str(&structure(name, item)),
            Item::Enum(item) if is_public(&item.vis) => text.push_str(&enumeration(item)),
            _ => {}
        }
    }
    text
}

fn is_public(visibility: &Visibility) -> bool {
    matches!(visibility, Visibility::Public(_))
}

fn structure(module: &str, item: &ItemStruct) -> String {
    // A text with a type of its own, such as the token.
    let Fields::Named(fields) = &item.fields else { return String::new() };
    let own = item.ident.to_string();
    let shared = RENAMED.iter().find(|(of, name, _)| *of == module && *name == own);
    let name = shared.map_or(own.as_str(), |(_, _, other)| other);
    let parameters: Vec<String> =
        item.generics.type_params().map(|parameter| parameter.ident.to_string()).collect();
    let generics = match parameters.as_slice() {
        [] => String::new(),
        parameters => format!("<{}>", parameters.join(", ")),
    };
    let (flat, plain): (Vec<&Field>, Vec<&Field>) =
        fields.named.iter().partition(|field| Serde::of(&field.attrs).is_flat);
    let bases: Vec<String> = flat.iter().map(|field| types::written(&field.ty)).collect();
    let extends =
        if bases.is_empty() { String::new() } else { format!(" extends {}", bases.join(", ")) };
    let comment = doc(&item.attrs, "");
    let members: String = plain.iter().map(|field| member(field, "  ")).collect();
    format!("{comment}export interface {name}{generics}{extends} {{\n{members}}}\n\n")
}

/// A field that may be left out is optional; one that must be there and may be empty is null.
fn member(field: &Field, indent: &str) -> String {
    let serde = Serde::of(&field.attrs);
    let name = serde.rename.unwrap_or_else(|| field.ident.as_ref().unwrap().to_string());
    let (written, may_be_null) = types::field(&field.ty);
    let (mark, null) = match (serde.is_optional, may_be_null) {
        (true, _) => ("?", ""),
        (false, true) => ("", " | null"),
        (false, false) => ("", ""),
    };
    format!("{}{indent}{name}{mark}: {written}{null};\n", doc(&field.attrs, indent))
}

fn enumeration(item: &ItemEnum) -> String {
    let name = item.ident.to_string();
    let rename_all = Serde::of(&item.attrs).rename_all.unwrap();
    let variants: Vec<&Variant> =
        item.variants.iter().filter(|variant| !Serde::of(&variant.attrs).is_other).collect();
    let frame = FRAMES.iter().find(|(frame, _)| *frame == name);
    match frame {
        Some((_, common)) => frames(item, &variants, &rename_all, common),
        None => words(item, &variants, &rename_all),
    }
}

fn words(item: &ItemEnum, variants: &[&Variant], rename_all: &str) -> String {
    let mut text = format!("{}export type {} =\n", doc(&item.attrs, ""), item.ident);
    for variant in variants {
        assert!(matches!(variant.fields, Fields::Unit), "{} is a plain word", variant.ident);
        let word = renamed(&variant.ident.to_string(), rename_all);
        writeln!(text, "{}  | \"{word}\"", doc(&variant.attrs, "  ")).unwrap();
    }
    finished(&text)
}

fn frames(item: &ItemEnum, variants: &[&Variant], rename_all: &str, common: &str) -> String {
    let name = item.ident.to_string();
    let mut text = String::new();
    let mut union = format!("{}export type {name} =\n", doc(&item.attrs, ""));
    for variant in variants {
        let word = renamed(&variant.ident.to_string(), rename_all);
        let shape = match &variant.fields {
            Fields::Unnamed(fields) => format!(" & {}", types::written(&fields.unnamed[0].ty)),
            Fields::Named(fields) => {
                let members: String =
                    fields.named.iter().map(|field| member(field, "  ")).collect();
                let comment = doc(&variant.attrs, "");
                writeln!(text, "{comment}export interface {} {{\n{members}}}\n", variant.ident)
                    .unwrap();
                format!(" & {}", variant.ident)
            }
            Fields::Unit => String::new(),
        };
        let comment = doc(&variant.attrs, "  ");
        let carried = if common.is_empty() { "" } else { " & Timestamped" };
        writeln!(union, "{comment}  | ({{ type: \"{word}\" }}{shape}{carried})").unwrap();
    }
    if !common.is_empty() {
        let comment = "/** The fields that every frame of the server has. */\n";
        writeln!(text, "{comment}export interface Timestamped {{\n{common}}}\n").unwrap();
    }
    text.push_str(&finished(&union));
    writeln!(
        text,
        "/** The {name} of a type. */\nexport type {name}Of<Type extends {name}[\"type\"]> = \
         Extract<{name}, {{ type: Type }}>;\n"
    )
    .unwrap();
    text
}

fn finished(union: &str) -> String {
    format!("{};\n\n", union.trim_end())
}
