//! Types in the source: their fields, values and doc comments.

use syn::{Field, Fields, File, Item, ItemEnum, ItemStruct};

use crate::document;
use heartline_testing::source::attributes::{Serde, renamed, text};
use heartline_testing::source::{constants, types};

/// The modules of the protocol whose types are sent over a socket.
const MODULES: [&str; 5] = ["close", "error_code", "limits", "server_frame", "client_frame"];

/// The types of the protocol.
pub(crate) struct Source {
    structs: Vec<ItemStruct>,
    enums: Vec<ItemEnum>,
}

/// A field of an object.
pub(crate) struct Member {
    pub(crate) name: String,
    /// As TypeScript writes it.
    pub(crate) kind: String,
    pub(crate) is_optional: bool,
    pub(crate) doc: String,
}

/// A value of an enum, or a frame of a type.
pub(crate) struct Word {
    pub(crate) word: String,
    pub(crate) doc: String,
    pub(crate) members: Vec<Member>,
}

impl Source {
    /// Reads the protocol.
    pub(crate) fn of_protocol() -> Self {
        let (mut structs, mut enums) = (Vec::new(), Vec::new());
        for name in MODULES {
            for item in file(&format!("crates/protocol/src/{name}.rs")).items {
                match item {
                    Item::Struct(item) => structs.push(item),
                    Item::Enum(item) => enums.push(item),
                    _ => {}
                }
            }
        }
        Self { structs, enums }
    }

    /// The description and the fields of a type; none if it is not an object.
    pub(crate) fn object(&self, name: &str) -> Option<(String, Vec<Member>)> {
        let item = self.structs.iter().find(|item| item.ident == name)?;
        Some((text(&item.attrs), self.members(&item.fields)))
    }

    /// The description and the values of an enum; none if it is not an enum.
    pub(crate) fn words(&self, name: &str) -> Option<(String, Vec<Word>)> {
        let item = self.enums.iter().find(|item| item.ident == name)?;
        let rename_all = Serde::of(&item.attrs).rename_all.unwrap();
        let known = item.variants.iter().filter(|word| !Serde::of(&word.attrs).is_other);
        let words = known.map(|word| Word {
            word: renamed(&word.ident.to_string(), &rename_all),
            doc: text(&word.attrs),
            members: self.members(&word.fields),
        });
        Some((text(&item.attrs), words.collect()))
    }

    /// The fields of an object; a frame may have those of a type of its own.
    fn members(&self, fields: &Fields) -> Vec<Member> {
        match fields {
            Fields::Named(fields) => fields.named.iter().map(member).collect(),
            Fields::Unnamed(fields) => {
                let name = types::written(&fields.unnamed[0].ty);
                self.object(&name).map(|(_, members)| members).unwrap_or_default()
            }
            Fields::Unit => Vec::new(),
        }
    }
}

/// A source file of the tree.
pub(crate) fn file(path: &str) -> File {
    constants::file(&document::root().join(path))
}

fn member(field: &Field) -> Member {
    let serde = Serde::of(&field.attrs);
    let (kind, _) = types::field(&field.ty);
    assert!(!serde.is_flat, "no type of the socket is part of another");
    Member {
        name: serde.rename.unwrap_or_else(|| field.ident.as_ref().unwrap().to_string()),
        kind,
        is_optional: serde.is_optional,
        doc: text(&field.attrs),
    }
}
