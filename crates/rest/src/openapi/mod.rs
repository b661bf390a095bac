//! `/openapi.json`: every route, described where it is added to the router.
//!
//! A route and its description are one declaration, so every route is described.

mod document;
mod meanings;
mod operation;
mod schemas;

use axum::Router;
use axum::extract::Request;
use axum::handler::Handler;
use axum::response::IntoResponse;
use axum::routing::on;
use bytes::Bytes;
use http::header::CONTENT_TYPE;

pub(super) use operation::{Operation, Parameter};

use super::Shared;

/// The routes of a listener and their descriptions.
#[derive(Debug, Default)]
pub(super) struct Routes {
    router: Router<Shared>,
    operations: Vec<Operation>,
}

impl Routes {
    /// Adds a route.
    pub(super) fn add<H, T>(mut self, operation: Operation, handler: H) -> Self
    where
        H: Handler<T, Shared>,
        T: 'static,
    {
        self.router = self.router.route(operation.path, on(operation.filter, handler));
        self.operations.push(operation);
        self
    }

    /// Describes a route that is only on some listeners.
    pub(super) fn describe(mut self, operation: Operation) -> Self {
        self.operations.push(operation);
        self
    }

    /// The router, with a route that serves the document of all routes.
    pub(super) fn with_document(self) -> Router<Shared> {
        let own = Operation::get(
            "/openapi.json",
            "readDocument",
            "The OpenAPI document of these routes.",
        )
        .returns_object(200, "An OpenAPI 3.1 document.");
        let mut operations = self.operations;
        operations.push(own);
        let text = serde_json::to_string_pretty(&document::render(&operations));
        let text = Bytes::from(text.expect("a document has only string keys") + "\n");
        let serve = move |_: Request| {
            let response = ([(CONTENT_TYPE, "application/json")], text.clone());
            async move { response.into_response() }
        };
        self.router.route("/openapi.json", axum::routing::get(serve))
    }
}
