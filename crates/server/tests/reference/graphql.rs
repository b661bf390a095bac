//! `docs/graphql.md`: every operation, type, error, close code and limit of `/graphql`.

use async_graphql::Positioned;
use async_graphql::parser::parse_schema;
use async_graphql::parser::types::{
    FieldDefinition, InputValueDefinition, Type, TypeDefinition, TypeKind, TypeSystemDefinition,
};
use heartline_party::{PartyError, PartyRates};
use heartline_protocol::{CloseReason, ErrorCode};
use heartline_routing::rate::Rate;
use syn::{Expr, FnArg, ImplItem, ImplItemFn, Item, Stmt};

use crate::document::{self, code, table};
use crate::source::{self, Source};
use heartline_testing::source::attributes::text;
use heartline_testing::source::constants::{self, Constant};

const DOCUMENT: &str = "docs/graphql.md";
const SCHEMA: &str = "crates/party/schema.graphql";
const CONVERSATION: &str = "crates/gateway/src/graphql/conversation.rs";

/// The types that only hold operations.
const ROOTS: [&str; 3] = ["Query", "Mutation", "Subscription"];

/// The close codes of clients that break the rules of the transport.
const VIOLATIONS: [(u16, &str); 4] = [
    (4400, "A message that is no JSON object of a known type, or lacks a field."),
    (4406, "The client did not offer the subprotocol `graphql-transport-ws`."),
    (4409, "An operation has the id of one that is under way."),
    (4429, "A second `connection_init`."),
];

/// Keys of the section `[party]` of the configuration that affect clients.
const SETTINGS: [&str; 10] = [
    "require_auth",
    "bad_token",
    "resume_grace",
    "event_log_size",
    "event_log_ttl",
    "subscription_queue",
    "max_queue",
    "edit_rate",
    "join_rate",
    "query_rate",
];

/// Limits that cannot be configured.
const BOUNDS: [&str; 4] = ["QUEUE_BYTES_MAX", "ITEM_BYTES_MAX", "ITEM_NESTING_MAX", "MEMBERS_MAX"];

/// The name of an error in the source, and its constructor.
type Refusal = (&'static str, fn() -> PartyError);

/// The errors with a fixed message.
const REFUSALS: [Refusal; 9] = [
    ("not_in_a_session", PartyError::not_in_a_session),
    ("needs_a_socket", PartyError::needs_a_socket),
    ("not_in_any_session", PartyError::not_in_any_session),
    ("session_mismatch", PartyError::session_mismatch),
    ("authentication_required", PartyError::authentication_required),
    ("session_not_found", PartyError::session_not_found),
    ("session_has_ended", PartyError::session_has_ended),
    ("item_not_found", PartyError::item_not_found),
    ("only_creator_or_leader", PartyError::only_creator_or_leader),
];

#[test]
fn the_reference_of_graphql_is_current() {
    let types = types();
    let sections = [
        ("queries", operations(&types, "Query")),
        ("mutations", operations(&types, "Mutation")),
        ("subscriptions", operations(&types, "Subscription")),
        ("types", objects(&types)),
        ("inputs", inputs(&types)),
        ("hashes", module_doc("crates/party/src/value/hash.rs")),
        ("canonical JSON", module_doc("crates/party/src/value/canonical.rs")),
        ("errors", refusals()),
        ("close codes", close_codes()),
        ("limits", limits()),
    ];
    document::assert_current(DOCUMENT, &sections);
}

#[test]
fn every_code_that_the_transport_closes_with_is_in_the_reference() {
    let source = document::read(CONVERSATION);
    let mut codes: Vec<u16> = source
        .split(": u16 = ")
        .filter_map(|rest| rest.get(..4).and_then(|code| code.parse().ok()))
        .collect();
    codes.extend(CloseReason::ProtocolError.graphql_code());
    codes.sort_unstable();
    assert_eq!(codes, VIOLATIONS.map(|(code, _)| code));
}

fn types() -> Vec<TypeDefinition> {
    let schema = parse_schema(document::read(SCHEMA)).unwrap();
    let of_type = |definition: TypeSystemDefinition| match definition {
        TypeSystemDefinition::Type(definition) => Some(definition.node),
        _ => None,
    };
    schema.definitions.into_iter().filter_map(of_type).collect()
}

// === Operations ===

fn operations(types: &[TypeDefinition], root: &str) -> String {
    let root = types.iter().find(|of| of.name.node == root).unwrap();
    let TypeKind::Object(object) = &root.kind else { panic!("operations stand in an object") };
    let head = format!("{}\n\n", described(root.name.node.as_str(), root.description.as_ref()));
    let verb = if root.name.node == "Subscription" { "Each event is" } else { "Returns" };
    let operations = object.fields.iter().map(|field| operation(types, &field.node, verb));
    head + &operations.collect::<String>()
}

fn operation(types: &[TypeDefinition], field: &FieldDefinition, verb: &str) -> String {
    let name = field.name.node.as_str();
    let doc = described(name, field.description.as_ref());
    let row = |argument: &Positioned<InputValueDefinition>| input_row(types, name, &argument.node);
    let rows: Vec<_> = field.arguments.iter().map(row).collect();
    let arguments = table(&["argument", "type", "meaning"], &rows);
    let answer = linked(types, &field.ty.node);
    format!("### `{name}`\n\n{doc} {verb} {answer}.\n\n{arguments}")
}

fn input_row(types: &[TypeDefinition], of: &str, input: &InputValueDefinition) -> Vec<String> {
    let name = input.name.node.as_str();
    let doc = described(&format!("{of}.{name}"), input.description.as_ref());
    vec![code(name), linked(types, &input.ty.node), doc]
}

/// A description as one line that ends like a sentence. Everything has one.
fn described(name: &str, description: Option<&Positioned<String>>) -> String {
    let description = description.unwrap_or_else(|| panic!("{name} has no description"));
    let words: Vec<&str> = description.node.split_whitespace().collect();
    let line = words.join(" ");
    if line.ends_with('.') { line } else { line + "." }
}

/// A type as GraphQL writes it, with a link if the reference describes it.
fn linked(types: &[TypeDefinition], written: &Type) -> String {
    let written = written.to_string();
    let name = written.trim_matches(['[', ']', '!']);
    let is_described =
        types.iter().any(|of| of.name.node == name && !matches!(of.kind, TypeKind::Scalar));
    if is_described {
        format!("[`{written}`](#type-{})", name.to_lowercase())
    } else {
        code(written)
    }
}

// === Types ===

fn objects(types: &[TypeDefinition]) -> String {
    let object = |of: &TypeDefinition| {
        let name = of.name.node.as_str();
        let content = match &of.kind {
            TypeKind::Object(object) if !ROOTS.contains(&name) => {
                let row = |field: &Positioned<FieldDefinition>| {
                    let doc = described(name, field.node.description.as_ref());
                    vec![code(&field.node.name.node), linked(types, &field.node.ty.node), doc]
                };
                let rows: Vec<_> = object.fields.iter().map(row).collect();
                table(&["field", "type", "meaning"], &rows)
            }
            TypeKind::Union(union) => {
                let member = |member: &Positioned<async_graphql::Name>| {
                    let name = &member.node;
                    format!("[`{name}`](#type-{})", name.as_str().to_lowercase())
                };
                let members: Vec<_> = union.members.iter().map(member).collect();
                format!("One of {}.\n\n", members.join(", "))
            }
            _ => return String::new(),
        };
        section(name, of.description.as_ref(), &content)
    };
    types.iter().map(object).collect()
}

fn inputs(types: &[TypeDefinition]) -> String {
    let input = |of: &TypeDefinition| {
        let TypeKind::InputObject(input) = &of.kind else { return String::new() };
        let name = of.name.node.as_str();
        let rows: Vec<_> =
            input.fields.iter().map(|field| input_row(types, name, &field.node)).collect();
        section(name, of.description.as_ref(), &table(&["field", "type", "meaning"], &rows))
    };
    types.iter().map(input).collect()
}

fn section(name: &str, description: Option<&Positioned<String>>, content: &str) -> String {
    format!("### Type {name}\n\n{}\n\n{content}", described(name, description))
}

// === Rules that stand in the source ===

/// The module comment after its first sentence, without the links of rustdoc.
fn module_doc(path: &str) -> String {
    let source = document::read(path);
    let lines = source.lines().map_while(|line| line.strip_prefix("//!"));
    let lines: Vec<&str> = lines.map(|line| line.strip_prefix(' ').unwrap_or(line)).collect();
    let text = lines.join("\n");
    let mut parts = text.split("](");
    let mut unlinked = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        unlinked.push_str(part.split_once(')').unwrap().1);
    }
    unlinked.replace('[', "").split_once("\n\n").unwrap().1.to_owned()
}

fn refusals() -> String {
    let file = source::file("crates/party/src/value/error.rs");
    let methods = file.items.iter().filter_map(|item| match item {
        Item::Impl(item) => Some(&item.items),
        _ => None,
    });
    let named: Vec<&ImplItemFn> = methods
        .flatten()
        .filter_map(|item| match item {
            ImplItem::Fn(method) if method.sig.inputs.is_empty() => Some(method),
            _ => None,
        })
        .collect();
    let names: Vec<String> = named.iter().map(|method| method.sig.ident.to_string()).collect();
    assert_eq!(names, REFUSALS.map(|(name, _)| name), "the refusals of PartyError");
    let row = |(method, (_, refusal)): (&&ImplItemFn, Refusal)| {
        let PartyError { code: of, message, .. } = refusal();
        vec![code(of.as_str()), code(message), text(&method.attrs)]
    };
    let rows: Vec<_> = named.iter().zip(REFUSALS).map(row).collect();
    table(&["code", "message", "when"], &rows)
}

fn close_codes() -> String {
    let source = Source::of_protocol();
    let (_, words) = source.words("CloseReason").unwrap();
    let mut rows: Vec<(u16, Vec<String>)> = VIOLATIONS
        .map(|(number, meaning)| {
            let row = [&number.to_string(), "–", "once the client is fixed", meaning];
            (number, row.map(str::to_owned).into())
        })
        .into();
    for reason in CloseReason::ALL {
        let word = words.iter().find(|word| word.word == reason.as_str()).unwrap();
        // Violations of the transport's rules are listed above.
        if let (Some(number), true) = (reason.graphql_code(), reason != CloseReason::ProtocolError)
        {
            let rule = serde_json::to_value(reason.reconnect()).unwrap();
            let rule = code(rule.as_str().unwrap());
            rows.push((number, vec![number.to_string(), code(&word.word), rule, word.doc.clone()]));
        }
    }
    rows.sort_by_key(|(number, _)| *number);
    let rows: Vec<_> = rows.into_iter().map(|(_, row)| row).collect();
    table(&["close code", "reason", "come back", "meaning"], &rows)
}

// === Limits ===

fn limits() -> String {
    let head = ["limit", "default", "meaning"];
    let configured: Vec<_> = SETTINGS.map(setting).into();
    let all = constants::of(&source::file("crates/party/src/value/limits.rs"));
    let bound = |name: &str| {
        let found = all.iter().find(|bound| bound.name == name);
        constant_row(found.unwrap_or_else(|| panic!("there is no bound {name}")))
    };
    let mut fixed: Vec<_> = BOUNDS.map(bound).into();
    let guards = constants::of(&source::file("crates/party/src/graphql/guard.rs"));
    fixed.extend(guards.iter().map(constant_row));
    format!(
        "Configured in `[party]`:\n\n{}Fixed:\n\n{}Per socket:\n\n{}Rates of one \
         connection:\n\n{}",
        table(&head, &configured),
        table(&head, &fixed),
        table(&head, &socket_limits()),
        table(&["for", "default"], &rates())
    )
}

fn constant_row(constant: &Constant) -> Vec<String> {
    vec![code(&constant.name), constant.value.clone(), constant.doc.clone()]
}

/// A key with its default and the comment above it, which may be about the keys that follow too.
fn setting(key: &str) -> Vec<String> {
    let manual = document::read("crates/server/config.default.toml");
    let (_, section) = manual.split_once("\n[party]\n").unwrap();
    let mut comment: Vec<&str> = Vec::new();
    let mut is_complete = false;
    for line in section.lines() {
        if let Some(words) = line.strip_prefix("# ") {
            if std::mem::take(&mut is_complete) {
                comment.clear();
            }
            comment.push(words);
        } else if line.is_empty() {
            is_complete = true;
        } else if let Some(default) = line.strip_prefix(&format!("{key} = ")) {
            let default = default.trim_matches('"').to_owned();
            return vec![code(format!("party.{key}")), default, comment.join(" ")];
        }
    }
    panic!("[party] has no key {key}")
}

/// The rates of one connection.
fn rates() -> Vec<Vec<String>> {
    let PartyRates { edits, queries, joins, lifecycle } = PartyRates::default();
    let row = |name: &str, rate: Rate| {
        let Rate { count, period, burst } = rate;
        let period = if period.as_secs() == 1 { "second" } else { "minute" };
        let doc = field_doc("crates/party/src/room/rate.rs", "PartyRates", name);
        vec![doc, format!("{count} a {period}, {burst} at once")]
    };
    let rates = [("edits", edits), ("queries", queries), ("joins", joins)];
    let rates = rates.into_iter().chain([("lifecycle", lifecycle)]);
    rates.map(|(name, rate)| row(name, rate)).collect()
}

/// The doc comment of a field of a struct.
fn field_doc(path: &str, of: &str, name: &str) -> String {
    let file = source::file(path);
    let fields = file.items.iter().find_map(|item| match item {
        Item::Struct(item) if item.ident == of => Some(&item.fields),
        _ => None,
    });
    let field = fields.unwrap().iter().find(|field| *field.ident.as_ref().unwrap() == name);
    text(&field.unwrap().attrs)
}

/// The fields of `GraphQlConfig` that are not configured, with their defaults.
fn socket_limits() -> Vec<Vec<String>> {
    let path = "crates/gateway/src/graphql.rs";
    let file = source::file(path);
    let defaults = file.items.iter().find_map(|item| match item {
        Item::Impl(item) => item.items.iter().find_map(default_fields),
        _ => None,
    });
    let row = |field: &&syn::FieldValue| {
        let syn::Member::Named(name) = &field.member else { return None };
        let name = name.to_string();
        let value = constants::value(&field.expr)?;
        Some(vec![code(&name), value, field_doc(path, "GraphQlConfig", &name)])
    };
    defaults.unwrap().iter().filter_map(row).collect()
}

/// The fields of the struct that a function without arguments makes.
fn default_fields(item: &ImplItem) -> Option<Vec<&syn::FieldValue>> {
    let ImplItem::Fn(method) = item else { return None };
    let has_arguments = method.sig.inputs.iter().any(|input| matches!(input, FnArg::Typed(_)));
    match method.block.stmts.last()? {
        Stmt::Expr(Expr::Struct(made), None) if !has_arguments => {
            Some(made.fields.iter().collect())
        }
        _ => None,
    }
}

/// Codes that refusals of a party session have besides those with a sentence of their own.
#[test]
fn the_prose_names_every_other_code() {
    let text = document::read(DOCUMENT);
    let named = REFUSALS.map(|(_, refusal)| refusal().code);
    let sockets_only = [ErrorCode::SlowConsumer, ErrorCode::ChatHalted];
    for of in ErrorCode::ALL.iter().filter(|of| !named.contains(of) && !sockets_only.contains(of)) {
        assert!(text.contains(&format!("- `{}`", of.as_str())), "{} is not named", of.as_str());
    }
}
