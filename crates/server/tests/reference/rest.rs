//! `docs/rest.md`: every route, from the document that the server serves.

use std::collections::{BTreeMap, BTreeSet};

use heartline_durability::contacts::CONTACTS_MAX;
use heartline_protocol::rest::{IDEMPOTENCY_KEY_LENGTH_MAX, PAGE_ITEMS, PAGE_ITEMS_MAX};
use serde_json::Value;

use crate::document::{self, code, table};

const DOCUMENT: &str = "docs/rest.md";

/// Methods in the order in which a reader looks for them.
const METHODS: [&str; 5] = ["get", "post", "put", "patch", "delete"];

#[test]
fn the_reference_of_rest_is_current() {
    let openapi: Value = serde_json::from_str(&document::read("docs/openapi.json")).unwrap();
    let sections = [
        ("statuses", statuses(&openapi)),
        ("routes", routes(&openapi)),
        ("objects", objects(&openapi)),
        ("values", values(&openapi)),
    ];
    document::assert_current(DOCUMENT, &sections);
}

#[test]
fn the_numbers_in_the_prose_are_those_of_the_code() {
    let text = document::unwrapped(DOCUMENT);
    for sentence in [
        format!("`limit` is {PAGE_ITEMS} unless given, and at most {PAGE_ITEMS_MAX}"),
        format!("`Idempotency-Key` (1 to {IDEMPOTENCY_KEY_LENGTH_MAX} printable characters)"),
        format!("A user has at most {CONTACTS_MAX} contacts"),
    ] {
        assert!(text.contains(&sentence), "the prose does not say: {sentence}");
    }
}

#[test]
fn every_finer_reason_of_a_conflict_is_named() {
    let text = document::read(DOCUMENT);
    let source = document::read("crates/rest/src/edit.rs");
    let reasons = source.split("conflict(\"").skip(1).map(|rest| rest.split('"').next().unwrap());
    for reason in reasons {
        assert!(text.contains(&code(reason)), "{reason} is not named");
    }
}

/// The error codes of each status.
fn statuses(openapi: &Value) -> String {
    let mut statuses: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (_, _, operation) in operations(openapi) {
        for (status, codes) in refusals(operation) {
            statuses.entry(status).or_default().extend(codes);
        }
    }
    let row = |(status, codes): (&str, BTreeSet<&str>)| {
        let codes: Vec<String> = codes.into_iter().map(code).collect();
        vec![status.to_owned(), codes.join(", ")]
    };
    let rows: Vec<_> = statuses.into_iter().map(row).collect();
    table(&["status", "codes"], &rows)
}

/// A table of routes for each group of them.
fn routes(openapi: &Value) -> String {
    let mut groups: BTreeMap<&str, Vec<Vec<String>>> = BTreeMap::new();
    for (path, method, operation) in operations(openapi) {
        let group = operation["tags"][0].as_str().unwrap();
        groups.entry(group).or_default().push(route(path, method, operation));
    }
    let head = ["route", "token", "does", "takes", "answers", "refuses"];
    let group = |(name, rows): (&str, Vec<Vec<String>>)| {
        let name = name[..1].to_uppercase() + &name[1..];
        format!("### {name}\n\n{}", table(&head, &rows))
    };
    groups.into_iter().map(group).collect()
}

fn route(path: &str, method: &str, operation: &Value) -> Vec<String> {
    let token = if operation["security"].as_array().is_none_or(Vec::is_empty) {
        "none"
    } else if operation["description"].as_str().is_some_and(|text| text.contains("`service`")) {
        "`service`"
    } else {
        "any"
    };
    let codes: BTreeSet<&str> = refusals(operation).flat_map(|(_, codes)| codes).collect();
    let codes: Vec<String> = codes.into_iter().map(code).collect();
    vec![
        format!("`{} {path}`", method.to_uppercase()),
        token.to_owned(),
        operation["summary"].as_str().unwrap().to_owned(),
        takes(operation),
        answers(operation),
        codes.join(" "),
    ]
}

/// The body and the parameters that are not in the path.
fn takes(operation: &Value) -> String {
    let body = &operation["requestBody"]["content"]["application/json"]["schema"];
    let body = schema_name(body).map(code);
    let parameters = operation["parameters"].as_array().into_iter().flatten();
    let named = parameters
        .filter(|parameter| parameter["in"] != "path")
        .map(|parameter| code(parameter["name"].as_str().unwrap()));
    let taken: Vec<String> = body.into_iter().chain(named).collect();
    taken.join(", ")
}

/// The statuses of success, each with what it holds.
fn answers(operation: &Value) -> String {
    let responses = operation["responses"].as_object().unwrap().iter();
    let answers = responses.filter(|(_, response)| response["x-error-codes"].is_null());
    let answers: Vec<String> = answers
        .map(|(status, response)| {
            let schema = &response["content"]["application/json"]["schema"];
            let items = schema_name(&schema["properties"]["items"]["items"]);
            match (schema_name(schema), items) {
                (Some(name), _) => format!("{status} `{name}`"),
                (None, Some(name)) => format!("{status} page of `{name}`"),
                (None, None) => status.clone(),
            }
        })
        .collect();
    answers.join(", ")
}

fn schema_name(schema: &Value) -> Option<&str> {
    schema["$ref"].as_str()?.rsplit('/').next()
}

/// Every object that goes in or out, with its fields.
fn objects(openapi: &Value) -> String {
    let objects = schemas(openapi).filter(|(_, schema)| schema["type"] == "object");
    let object = |(name, schema): (&str, &Value)| {
        let required: BTreeSet<&str> = schema["required"]
            .as_array()
            .unwrap()
            .iter()
            .map(|name| name.as_str().unwrap())
            .collect();
        let row = |(field, of): (&String, &Value)| {
            let need = if required.contains(field.as_str()) { "always" } else { "optional" };
            assert!(!meaning(of).is_empty(), "{name}.{field} has no meaning");
            vec![code(field), kind(openapi, of), need.to_owned(), meaning(of)]
        };
        let rows: Vec<_> = schema["properties"].as_object().unwrap().iter().map(row).collect();
        let fields = table(&["field", "type", "there", "meaning"], &rows);
        format!("### Object {name}\n\n{}\n\n{fields}", schema["description"].as_str().unwrap())
    };
    objects.map(object).collect()
}

/// Every text and number that has a name.
fn values(openapi: &Value) -> String {
    let values = schemas(openapi).filter(|(_, schema)| schema["type"] != "object");
    let row = |(name, schema): (&str, &Value)| {
        vec![name.to_owned(), kind(openapi, schema), meaning(schema)]
    };
    let rows: Vec<_> = values.map(row).collect();
    table(&["value", "type", "meaning"], &rows)
}

fn schemas(openapi: &Value) -> impl Iterator<Item = (&str, &Value)> {
    let schemas = openapi["components"]["schemas"].as_object().unwrap().iter();
    schemas.map(|(name, schema)| (name.as_str(), schema))
}

/// The type of a field, with a link to its description in this document.
fn kind(openapi: &Value, schema: &Value) -> String {
    if let Some(name) = schema_name(schema) {
        let is_object = openapi["components"]["schemas"][name]["type"] == "object";
        let place =
            if is_object { format!("object-{}", name.to_lowercase()) } else { "values".into() };
        return format!("[{name}](#{place})");
    }
    let choices = |list: &Value| -> Vec<String> {
        list.as_array().unwrap().iter().map(|choice| kind(openapi, choice)).collect()
    };
    match &schema["type"] {
        Value::Null if schema["anyOf"].is_array() => choices(&schema["anyOf"]).join(" or "),
        Value::Null => "any JSON".to_owned(),
        Value::Array(types) => {
            let types: Vec<&str> = types.iter().map(|name| name.as_str().unwrap()).collect();
            types.join(" or ")
        }
        name if name == "array" => format!("array of {}", kind(openapi, &schema["items"])),
        name => name.as_str().unwrap().to_owned(),
    }
}

/// The description of a value, and its bounds.
fn meaning(schema: &Value) -> String {
    let mut parts: Vec<String> =
        schema["description"].as_str().map(str::to_owned).into_iter().collect();
    if let Some(words) = schema["enum"].as_array() {
        let words: Vec<String> = words.iter().map(|word| code(word.as_str().unwrap())).collect();
        parts.push(format!("One of {}.", words.join(", ")));
    }
    for (least, most, unit) in [
        ("minimum", "maximum", ""),
        ("minLength", "maxLength", " characters"),
        ("minItems", "maxItems", " items"),
    ] {
        match (&schema[least], &schema[most]) {
            (Value::Null, Value::Null) => {}
            // Nothing is below 0 anywhere.
            (least, Value::Null) if *least == 0 => {}
            (least, Value::Null) => parts.push(format!("At least {least}{unit}.")),
            (least, most) => parts.push(format!("{least} to {most}{unit}.")),
        }
    }
    if let Some(pattern) = schema["pattern"].as_str() {
        parts.push(format!("Matches `{pattern}`."));
    }
    if let Some(default) = schema.get("default") {
        parts.push(format!(
            "`{}` unless given.",
            default.as_str().map_or(default.to_string(), str::to_owned)
        ));
    }
    parts.join(" ")
}

/// The refusals of an operation: status and codes.
fn refusals(operation: &Value) -> impl Iterator<Item = (&str, Vec<&str>)> {
    let responses = operation["responses"].as_object().unwrap().iter();
    responses.filter_map(|(status, response)| {
        let codes = response["x-error-codes"].as_array()?;
        Some((status.as_str(), codes.iter().map(|code| code.as_str().unwrap()).collect()))
    })
}

/// Every operation with its path and method.
fn operations(openapi: &Value) -> impl Iterator<Item = (&str, &'static str, &Value)> {
    let paths = openapi["paths"].as_object().unwrap().iter();
    paths.flat_map(|(path, methods)| {
        let methods = methods.as_object().unwrap();
        METHODS.into_iter().filter_map(move |method| {
            methods.get(method).map(|operation| (path.as_str(), method, operation))
        })
    })
}
