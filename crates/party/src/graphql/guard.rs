//! The limits of documents and variables. The parser and the validation recurse, and a resolver
//! runs for every field, so a short document could exhaust the stack or the memory of the process.

use async_graphql::parser::types::{
    ExecutableDocument, Field, FragmentDefinition, Selection, SelectionSet,
};
use async_graphql::{Name, Positioned};
use heartline_protocol::ErrorCode;
use heartline_runtime::Set;
use serde_json::Value as Json;

use crate::value::error::PartyError;

/// The most bytes of the text of a document.
const TEXT_BYTES_MAX: usize = 256 * 1024;
/// The deepest nesting of brackets in the text, and of selections through fragments.
const NESTING_MAX: usize = 64;
/// The deepest nesting of fields with selections, through fragments.
const DEPTH_MAX: usize = 10;
/// The deepest nesting of such fields in introspection, which fans out faster.
const SCHEMA_DEPTH_MAX: usize = 6;
/// The most fields of a document; fields of a fragment count each time it is used.
const FIELDS_MAX: usize = 5000;
/// The most repetitions of fields in the same selection, with or without an alias.
const REPEATS_MAX: usize = 20;
/// The repetitions that a field with a selection counts as, because it may be a whole queue.
const WHOLE_REPEATS: usize = 5;
/// The most values in the variables of a request, including nested ones. A value of two bytes takes
/// far more memory.
const VALUES_MAX: usize = 500_000;
/// The most fragments of a document.
const FRAGMENTS_MAX: usize = 100;

/// Checks the text of a document before it is parsed.
pub(super) fn check_text(text: &str) -> Result<(), PartyError> {
    if text.len() > TEXT_BYTES_MAX {
        let message = format!("Query too large (at most {TEXT_BYTES_MAX} bytes)");
        return Err(PartyError::new(ErrorCode::MessageTooLarge, message));
    }
    let (mut rest, mut nesting) = (text, 0_usize);
    while let Some(position) = rest.find(['{', '[', '(', '}', ']', ')', '"', '#']) {
        let found = rest.as_bytes()[position];
        rest = match found {
            b'"' => after_string(&rest[position..])?,
            b'#' => after_comment(&rest[position..]),
            _ => &rest[position + 1..],
        };
        match found {
            b'{' | b'[' | b'(' => nesting += 1,
            b'}' | b']' | b')' => nesting = nesting.saturating_sub(1),
            _ => {}
        }
        if nesting > NESTING_MAX {
            return Err(too_nested());
        }
    }
    Ok(())
}

/// The text after the string at its beginning. An unterminated string is rejected here, because the
/// parser would backtrack and parse its content as something else.
fn after_string(text: &str) -> Result<&str, PartyError> {
    let (quote, rest) = match text.strip_prefix("\"\"\"") {
        Some(rest) => ("\"\"\"", rest),
        None => ("\"", &text[1..]),
    };
    let mut inside = rest;
    loop {
        let unended = || refused("Syntax Error: Unterminated string.");
        let end = inside.find(['"', '\\', '\n', '\r']).ok_or_else(unended)?;
        let found = &inside[end..];
        if let Some(after) = found.strip_prefix(quote) {
            return Ok(after);
        }
        let is_block = quote.len() == 3;
        inside = match found.as_bytes()[0] {
            b'\n' | b'\r' if !is_block => return Err(unended()),
            b'\\' if is_block => found.strip_prefix("\\\"\"\"").unwrap_or(&found[1..]),
            b'\\' if found[1..].starts_with(['\n', '\r']) => return Err(unended()),
            b'\\' => found.get(2..).ok_or_else(unended)?,
            _ => &found[1..],
        };
    }
}

fn after_comment(text: &str) -> &str {
    text.find(['\n', '\r']).map_or("", |end| &text[end..])
}

/// Checks a document before it is validated and run.
pub(super) fn check_document(document: &ExecutableDocument) -> Result<(), PartyError> {
    if document.fragments.len() > FRAGMENTS_MAX {
        return Err(refused(&format!("Query too complex (at most {FRAGMENTS_MAX} fragments)")));
    }
    let mut walk = Walk::new(document);
    for (_, operation) in document.operations.iter() {
        walk.level(&operation.node.selection_set.node, Place::default())?;
    }
    walk.check_depth()?;
    // Validation visits unused fragments too.
    for fragment in document.fragments.values() {
        Walk::new(document).level(&fragment.node.selection_set.node, Place::default())?;
    }
    Ok(())
}

/// A walk over all fields of a document, following its fragments. The walk ends at the first
/// exceeded limit, so its length is bounded.
struct Walk<'a> {
    document: &'a ExecutableDocument,
    /// The fragments that are being followed.
    path: Vec<&'a Name>,
    fields: usize,
    repeats: usize,
    /// The greatest depth of fields, and of fields of introspection.
    depth: usize,
    schema_depth: usize,
}

/// The position of a selection.
#[derive(Clone, Copy, Default)]
struct Place {
    nesting: usize,
    depth: usize,
    is_introspection: bool,
}

/// The fields of one selection, each with the type of its fragment.
#[derive(Default)]
struct Level<'a> {
    fields: Set<(Option<&'a Name>, &'a Name)>,
    names: Set<&'a Name>,
}

impl<'a> Level<'a> {
    /// Adds a field; returns whether it is a repetition. A field outside of a typed fragment
    /// repeats a field of any type; `__typename` repeats only itself, because the parts of a union
    /// have it.
    fn is_repetition(&mut self, of: Option<&'a Name>, name: &'a Name) -> bool {
        let is_known = !self.fields.insert((of, name));
        let is_named = !self.names.insert(name);
        let is_same_type = of.is_none() || self.fields.contains(&(None, name));
        is_known || (is_named && is_same_type && name != "__typename")
    }
}

impl<'a> Walk<'a> {
    fn new(document: &'a ExecutableDocument) -> Self {
        let (path, fields, repeats) = (Vec::new(), 0, 0);
        Self { document, path, fields, repeats, depth: 0, schema_depth: 0 }
    }

    fn check_depth(&self) -> Result<(), PartyError> {
        let limits = [(self.depth, DEPTH_MAX), (self.schema_depth, SCHEMA_DEPTH_MAX)];
        for (depth, depth_max) in limits {
            if depth > depth_max {
                let message =
                    format!("Query depth {depth} exceeds maximum allowed depth of {depth_max}");
                return Err(refused(&message));
            }
        }
        Ok(())
    }

    fn level(&mut self, set: &'a SelectionSet, place: Place) -> Result<(), PartyError> {
        self.selections(set, None, place, &mut Level::default())
    }

    fn selections(
        &mut self,
        set: &'a SelectionSet,
        of: Option<&'a Name>,
        place: Place,
        level: &mut Level<'a>,
    ) -> Result<(), PartyError> {
        let inner = Place { nesting: place.nesting + 1, ..place };
        if inner.nesting > NESTING_MAX {
            return Err(too_nested());
        }
        for selection in &set.items {
            match &selection.node {
                Selection::Field(field) => {
                    if level.is_repetition(of, &field.node.name.node) {
                        let is_leaf = field.node.selection_set.node.items.is_empty();
                        self.repeats += if is_leaf { 1 } else { WHOLE_REPEATS };
                    }
                    self.field(&field.node, inner)?;
                }
                Selection::InlineFragment(fragment) => {
                    let condition = fragment.node.type_condition.as_ref();
                    let of = condition.map(|condition| &condition.node.on.node).or(of);
                    self.selections(&fragment.node.selection_set.node, of, inner, level)?;
                }
                Selection::FragmentSpread(spread) => {
                    let name = &spread.node.fragment_name.node;
                    // Validation reports an unknown fragment.
                    let fragment = self.document.fragments.get(name);
                    if let Some(fragment) = fragment {
                        self.fragment(name, fragment, inner, level)?;
                    }
                }
            }
        }
        Ok(())
    }

    fn fragment(
        &mut self,
        name: &'a Name,
        fragment: &'a Positioned<FragmentDefinition>,
        place: Place,
        level: &mut Level<'a>,
    ) -> Result<(), PartyError> {
        if self.path.contains(&name) {
            return Err(refused(&format!("Cannot spread fragment \"{name}\" within itself.")));
        }
        self.path.push(name);
        let of = Some(&fragment.node.type_condition.node.on.node);
        self.selections(&fragment.node.selection_set.node, of, place, level)?;
        self.path.pop();
        Ok(())
    }

    fn field(&mut self, field: &'a Field, place: Place) -> Result<(), PartyError> {
        self.fields += 1;
        if self.fields > FIELDS_MAX {
            return Err(refused(&format!("Query too complex (at most {FIELDS_MAX} fields)")));
        }
        if self.repeats > REPEATS_MAX {
            let message = format!("Query too complex (at most {REPEATS_MAX} repeated fields)");
            return Err(refused(&message));
        }
        if field.selection_set.node.items.is_empty() {
            return Ok(());
        }
        let name = field.name.node.as_str();
        let is_introspection = place.is_introspection || name.starts_with("__");
        // A chain of `ofType` leads to one type, however long it is.
        let is_chain = is_introspection && name == "ofType";
        let depth = place.depth + usize::from(!is_chain);
        let deepest = if is_introspection { &mut self.schema_depth } else { &mut self.depth };
        *deepest = depth.max(*deepest);
        self.level(&field.selection_set.node, Place { depth, is_introspection, ..place })
    }
}

/// Checks variables before they are converted to arguments.
pub(super) fn check_variables(variables: &Json) -> Result<(), PartyError> {
    if values_in(variables) > VALUES_MAX {
        let message = format!("Variables too large (at most {VALUES_MAX} values)");
        return Err(PartyError::new(ErrorCode::MessageTooLarge, message));
    }
    Ok(())
}

fn values_in(value: &Json) -> usize {
    let inside: usize = match value {
        Json::Array(values) => values.iter().map(values_in).sum(),
        Json::Object(members) => members.values().map(values_in).sum(),
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => 0,
    };
    inside + 1
}

fn too_nested() -> PartyError {
    refused(&format!("Query too deep: nesting exceeds maximum allowed nesting of {NESTING_MAX}"))
}

fn refused(message: &str) -> PartyError {
    PartyError::new(ErrorCode::InvalidMessage, message)
}
