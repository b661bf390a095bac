//! A parsed request within the limits of `guard.rs`, and the operation in it that is run.

use std::sync::Arc;

use async_graphql::parser::types::{
    DocumentOperations, ExecutableDocument, OperationDefinition, OperationType, Selection,
};
use async_graphql::{ID, InputType, Name, Request, ServerError, Value, Variables};
use heartline_protocol::ErrorCode;
use heartline_protocol::graphql::GraphQlRequest;
use serde_json::{Map, Value as Json};

use super::document_cache::DocumentCache;
use super::encode::server_error;
use super::guard::check_variables;
use crate::room::listener::Topic;
use crate::value::error::PartyError;

/// The most bytes of a text variable of a subscription; a session id is shorter.
const KEPT_TEXT_BYTES_MAX: usize = 1024;

/// A request that may be run.
#[derive(Debug)]
pub(super) struct Document {
    pub(super) parsed: Arc<ExecutableDocument>,
    pub(super) query: String,
    pub(super) operation_name: Option<String>,
    pub(super) variables: Variables,
}

impl Document {
    /// Parses a request.
    pub(super) fn parse(
        request: GraphQlRequest,
        documents: &DocumentCache,
    ) -> Result<Self, ServerError> {
        let GraphQlRequest { query, operation_name, variables } = request;
        let parsed = documents.parse(&query)?;
        let mut given = match variables {
            Json::Null => Map::new(),
            Json::Object(given) => given,
            _ => return Err(refused("Variables must be an object.")),
        };
        let mut document = Self { parsed, query, operation_name, variables: Variables::default() };
        let operation = document.operation().ok_or_else(|| document.no_operation())?;
        // Unused variables are dropped: a subscription would keep them for its whole life.
        let definitions = &operation.variable_definitions;
        let is_defined = |name: &str| definitions.iter().any(|it| it.node.name.node == name);
        let is_kept = operation.ty == OperationType::Subscription;
        given.retain(|name, value| is_defined(name) && (!is_kept || is_short(value)));
        let given = Json::Object(given);
        check_variables(&given).map_err(|error| server_error(&error))?;
        document.variables = Variables::from_json(given);
        Ok(document)
    }

    /// The operation that the request names, or the only one.
    pub(super) fn operation(&self) -> Option<&OperationDefinition> {
        match (&self.parsed.operations, &self.operation_name) {
            (DocumentOperations::Single(operation), None) => Some(&operation.node),
            (DocumentOperations::Single(_), Some(_)) => None,
            (DocumentOperations::Multiple(operations), Some(name)) => {
                operations.get(name.as_str()).map(|operation| &operation.node)
            }
            (DocumentOperations::Multiple(operations), None) => {
                let only = operations.values().next().filter(|_| operations.len() == 1);
                only.map(|operation| &operation.node)
            }
        }
    }

    fn no_operation(&self) -> ServerError {
        match &self.operation_name {
            Some(name) => refused(&format!("Unknown operation named \"{name}\".")),
            None => refused("Must provide operation name if query contains multiple operations."),
        }
    }

    /// An error for each required variable that is not given.
    pub(super) fn missing_variables(&self) -> Vec<ServerError> {
        let definitions = self.operation().map(|operation| &operation.variable_definitions);
        let mut missing = Vec::new();
        for definition in definitions.into_iter().flatten() {
            let (name, kind) = (&definition.node.name.node, &definition.node.var_type.node);
            let is_needed = !kind.nullable && definition.node.default_value.is_none();
            if is_needed && self.variables.get(name).is_none_or(|value| *value == Value::Null) {
                let message =
                    format!("Variable \"${name}\" of required type \"{kind}\" was not provided.");
                missing.push(ServerError::new(message, Some(definition.pos)));
            }
        }
        missing
    }

    /// The request for the GraphQL engine, which does not parse it again.
    pub(super) fn to_request(&self, variables: Variables) -> Request {
        let mut request = Request::new(String::new()).variables(variables);
        request.operation_name.clone_from(&self.operation_name);
        request.set_parsed_query(ExecutableDocument::clone(&self.parsed));
        request
    }

    /// The topic and the session of a subscription.
    pub(super) fn subscription(&self) -> Result<(Topic, String), PartyError> {
        let one = || {
            let message = "A subscription must select exactly one field.";
            PartyError::new(ErrorCode::InvalidMessage, message)
        };
        let operation = self.operation().ok_or_else(one)?;
        let [selection] = operation.selection_set.node.items.as_slice() else { return Err(one()) };
        let Selection::Field(field) = &selection.node else { return Err(one()) };
        let topic = match field.node.name.node.as_str() {
            "queueUpdates" => Topic::Queue,
            "sessionUpdates" => Topic::Session,
            _ => return Err(one()),
        };
        let value = field.node.get_argument("sessionId").ok_or_else(one)?.node.clone();
        let value =
            value.into_const_with(|name| self.variable(operation, &name).ok_or_else(one))?;
        let session_id = ID::parse(Some(value)).map_err(|_| one())?;
        Ok((topic, session_id.0))
    }

    fn variable(&self, operation: &OperationDefinition, name: &Name) -> Option<Value> {
        let given = self.variables.get(name).cloned();
        let mut definitions = operation.variable_definitions.iter();
        let definition = definitions.find(|definition| definition.node.name.node == *name);
        given.or_else(|| definition.and_then(|definition| definition.node.default_value().cloned()))
    }

    /// The same document as a query, which runs once for each event.
    pub(super) fn into_query(mut self) -> Self {
        match &mut Arc::make_mut(&mut self.parsed).operations {
            DocumentOperations::Single(operation) => operation.node.ty = OperationType::Query,
            DocumentOperations::Multiple(operations) => {
                let all = operations.values_mut();
                all.for_each(|operation| operation.node.ty = OperationType::Query);
            }
        }
        self
    }
}

/// Whether a value may be a variable of a subscription, which keeps it for its whole life.
fn is_short(value: &Json) -> bool {
    match value {
        Json::Array(_) | Json::Object(_) => false,
        Json::String(text) => text.len() <= KEPT_TEXT_BYTES_MAX,
        Json::Null | Json::Bool(_) | Json::Number(_) => true,
    }
}

fn refused(message: &str) -> ServerError {
    ServerError::new(message, None)
}
