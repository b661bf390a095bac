//! `/openapi.json` is current, has every route, and describes every response of the server.

use std::collections::BTreeSet;
use std::path::Path;

use heartline_testing::{Response, Server, service_token};
use serde_json::Value;

use crate::HEARTLINE;

/// The OpenAPI document of a server.
pub(crate) struct Document(Value);

impl Document {
    pub(crate) async fn of(server: &Server) -> Self {
        let answer = server.http("GET", "/openapi.json", "", None).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        Self(answer.json())
    }

    /// Fails unless a request and its response match the document.
    pub(crate) fn allows(&self, method: &str, path: &str, body: Option<&Value>, answer: &Response) {
        let operation = self.operation(method, path);
        let told = format!("{method} {path}: {answer:?}");
        let response = &operation["responses"][answer.status.to_string()];
        assert!(response.is_object(), "a status that is not in the document: {told}");
        let schema = &response["content"]["application/json"]["schema"];
        if schema.is_null() {
            assert_eq!(answer.body, "", "a body that is not in the document: {told}");
        } else if let Err(fault) = self.fits(schema, &answer.json(), "answer") {
            panic!("{fault}: {told}");
        }
        if let Some(codes) = response["x-error-codes"].as_array() {
            let code = &answer.json()["error"]["code"];
            assert!(codes.contains(code), "a code that is not in the document: {told}");
        }
        for name in response["headers"].as_object().into_iter().flat_map(|headers| headers.keys()) {
            assert!(answer.header(&name.to_lowercase()).is_some(), "without {name}: {told}");
        }
        let schema = &operation["requestBody"]["content"]["application/json"]["schema"];
        if let (Some(body), 200..=299) = (body, answer.status) {
            let fits = self.fits(schema, body, "body");
            assert!(fits.is_ok(), "a body was taken that is not in the document: {fits:?} {told}");
        }
    }

    /// The operation of a request, by its path with names or with ids.
    fn operation(&self, method: &str, path: &str) -> &Value {
        let path = path.split('?').next().unwrap();
        let segments = |path: &str| path.split('/').map(str::to_owned).collect::<Vec<_>>();
        let given = segments(path);
        let fits = |template: &str| {
            let template = segments(template);
            let same = |(one, other): (&String, &String)| one == other || one.starts_with('{');
            template.len() == given.len() && template.iter().zip(&given).all(same)
        };
        let paths = self.0["paths"].as_object().unwrap();
        let exact = paths.get(path);
        let found = exact.or_else(|| paths.iter().find(|(key, _)| fits(key)).map(|(_, one)| one));
        let operations = found.unwrap_or_else(|| panic!("{path} is not in the document"));
        let operation = &operations[method.to_lowercase()];
        assert!(operation.is_object(), "{method} {path} is not in the document");
        operation
    }

    /// Whether a value is of a schema; properties that the schema does not name are faults too.
    fn fits(&self, schema: &Value, value: &Value, at: &str) -> Result<(), String> {
        if let Some(reference) = schema["$ref"].as_str() {
            let named = self.0.pointer(reference.trim_start_matches('#'));
            return self.fits(named.expect("a schema of this name"), value, at);
        }
        if let Some(choices) = schema["anyOf"].as_array() {
            let fits = choices.iter().any(|choice| self.fits(choice, value, at).is_ok());
            return if fits { Ok(()) } else { Err(format!("{at} is none of {choices:?}")) };
        }
        let types = match &schema["type"] {
            Value::Array(types) => types.clone(),
            Value::Null => return Ok(()),
            one => vec![one.clone()],
        };
        if !types.iter().any(|name| is_of_type(value, name.as_str().unwrap())) {
            return Err(format!("{at} is not {types:?}"));
        }
        if schema["enum"].as_array().is_some_and(|values| !values.contains(value)) {
            return Err(format!("{at} is none of {}", schema["enum"]));
        }
        for (index, item) in value.as_array().into_iter().flatten().enumerate() {
            self.fits(&schema["items"], item, &format!("{at}[{index}]"))?;
        }
        let Some(properties) = schema["properties"].as_object() else { return Ok(()) };
        let object = value.as_object().unwrap();
        for name in schema["required"].as_array().unwrap() {
            if !object.contains_key(name.as_str().unwrap()) {
                return Err(format!("{at} has no {name}"));
            }
        }
        for (name, value) in object {
            let Some(schema) = properties.get(name) else {
                return Err(format!("{at}.{name} is not in the document"));
            };
            self.fits(schema, value, &format!("{at}.{name}"))?;
        }
        Ok(())
    }

    /// Each path with its methods.
    fn paths(&self) -> impl Iterator<Item = (&String, BTreeSet<String>)> {
        let paths = self.0["paths"].as_object().unwrap().iter();
        paths.map(|(path, operations)| {
            let methods = operations.as_object().unwrap().keys();
            (path, methods.map(|method| method.to_uppercase()).collect())
        })
    }
}

fn is_of_type(value: &Value, name: &str) -> bool {
    match name {
        "string" => value.is_string(),
        "integer" => value.is_u64(),
        "boolean" => value.is_boolean(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        "null" => value.is_null(),
        other => panic!("a type that no check knows: {other}"),
    }
}

/// The document in the tree; `HEARTLINE_GOLDEN=write` writes it anew.
#[tokio::test]
async fn the_document_in_the_tree_is_what_the_server_serves() {
    let server = HEARTLINE.start().await;
    let served = server.http("GET", "/openapi.json", "", None).await;
    assert_eq!(served.header("content-type"), Some("application/json"));
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
    let path = root.join("docs/openapi.json");
    if std::env::var_os("HEARTLINE_GOLDEN").is_some_and(|value| value == "write") {
        std::fs::write(&path, &served.body).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        written == served.body,
        "docs/openapi.json is old: HEARTLINE_GOLDEN=write cargo test -p heartline --test it \
         the_document_in_the_tree"
    );
}

#[tokio::test]
async fn every_path_of_the_document_takes_the_methods_that_it_names_and_no_others() {
    let server = HEARTLINE.start().await;
    let document = Document::of(&server).await;
    for (path, mut methods) in document.paths() {
        let path = path
            .replace("{chat_id}", "chat_01ARZ3NDEKTSV4RRFFQ69G5FAV")
            .replace("{connection_id}", "conn_01ARZ3NDEKTSV4RRFFQ69G5FAV_7")
            .replace("{user_id}", "nobody");
        let answer = server.http("PROPFIND", &path, &service_token(), None).await;
        assert_eq!(answer.status, 405, "{path}: {answer:?}");
        let allowed = answer.header("allow").unwrap().to_uppercase();
        let allowed: BTreeSet<_> =
            allowed.split(',').map(|method| method.trim().to_owned()).collect();
        if methods.contains("GET") {
            methods.insert("HEAD".to_owned());
        }
        assert_eq!(allowed, methods, "{path}");
    }
}

#[tokio::test]
async fn every_name_in_the_document_leads_somewhere_and_every_operation_has_its_own_name() {
    let server = HEARTLINE.start().await;
    let Document(document) = Document::of(&server).await;
    let text = document.to_string();
    let references = text.split("\"#").skip(1).map(|rest| rest.split('"').next().unwrap());
    let named: BTreeSet<_> = references.collect();
    for reference in &named {
        assert!(document.pointer(reference).is_some(), "{reference}");
    }
    let schemas = document["components"]["schemas"].as_object().unwrap();
    for name in schemas.keys() {
        let reference = format!("/components/schemas/{name}");
        assert!(named.contains(reference.as_str()), "nothing uses {name}");
    }
    let mut ids = BTreeSet::new();
    for operation in document["paths"].as_object().unwrap().values() {
        for described in operation.as_object().unwrap().values() {
            let id = described["operationId"].as_str().unwrap();
            assert!(ids.insert(id), "{id} names two operations");
        }
    }
}
