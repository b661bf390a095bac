//! The description of one route.

use axum::routing::MethodFilter;
use heartline_protocol::ErrorCode;

/// The token that a route requires.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    /// None.
    Open,
    /// Any valid token.
    Token,
    /// A token with the scope `service`.
    Service,
}

/// A parameter besides those in the path.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Parameter {
    /// `limit`.
    Limit,
    /// `cursor`.
    Cursor,
    /// `before_sequence`.
    Before,
    /// `after_sequence`.
    After,
    /// The header `Idempotency-Key`.
    Key,
}

/// The content of a response.
#[derive(Debug, Clone, Copy)]
pub(super) enum Content {
    /// Nothing.
    Nothing,
    /// An object of this schema.
    Schema(&'static str),
    /// A page of a list of this schema.
    Page(&'static str),
    /// A JSON object of any shape.
    Object,
    /// Text of this media type.
    Text(&'static str),
}

/// A successful response.
#[derive(Debug, Clone, Copy)]
pub(super) struct Response {
    pub(super) status: u16,
    pub(super) meaning: &'static str,
    pub(super) content: Content,
}

/// One method of one path.
#[derive(Debug)]
pub(crate) struct Operation {
    /// The method in the document.
    pub(super) method: &'static str,
    pub(super) filter: MethodFilter,
    pub(super) path: &'static str,
    pub(super) id: &'static str,
    pub(super) summary: &'static str,
    pub(super) access: Access,
    pub(super) parameters: &'static [Parameter],
    pub(super) body: Option<&'static str>,
    pub(super) responses: Vec<Response>,
    pub(super) errors: Vec<ErrorCode>,
}

macro_rules! methods {
    ($($name:ident $filter:ident),*) => {
        $(
            /// An operation of this method, with its name in generated clients and a summary.
            pub(crate) fn $name(
                path: &'static str,
                id: &'static str,
                summary: &'static str,
            ) -> Self {
                Self {
                    method: stringify!($name),
                    filter: MethodFilter::$filter,
                    path,
                    id,
                    summary,
                    access: Access::Open,
                    parameters: &[],
                    body: None,
                    responses: Vec::new(),
                    errors: Vec::new(),
                }
            }
        )*
    };
}

impl Operation {
    methods!(get GET, post POST, put PUT, patch PATCH, delete DELETE);

    /// Requires any valid token.
    pub(crate) fn for_tokens(self) -> Self {
        Self { access: Access::Token, ..self }
    }

    /// Requires a token with the scope `service`.
    pub(crate) fn for_services(self) -> Self {
        Self { access: Access::Service, ..self }
    }

    /// Accepts these parameters besides those of the path.
    pub(crate) fn parameters(self, parameters: &'static [Parameter]) -> Self {
        Self { parameters, ..self }
    }

    /// Requires a body of this schema.
    pub(crate) fn body(self, schema: &'static str) -> Self {
        Self { body: Some(schema), ..self }
    }

    /// Returns an object of this schema.
    pub(crate) fn returns(self, status: u16, meaning: &'static str, schema: &'static str) -> Self {
        self.response(Response { status, meaning, content: Content::Schema(schema) })
    }

    /// Returns a page of a list of this schema.
    pub(crate) fn returns_page(self, meaning: &'static str, schema: &'static str) -> Self {
        self.response(Response { status: 200, meaning, content: Content::Page(schema) })
    }

    /// Returns an object of any shape.
    pub(crate) fn returns_object(self, status: u16, meaning: &'static str) -> Self {
        self.response(Response { status, meaning, content: Content::Object })
    }

    /// Returns text.
    pub(crate) fn returns_text(self, meaning: &'static str, media_type: &'static str) -> Self {
        self.response(Response { status: 200, meaning, content: Content::Text(media_type) })
    }

    /// Returns 204.
    pub(crate) fn returns_nothing(self, meaning: &'static str) -> Self {
        self.response(Response { status: 204, meaning, content: Content::Nothing })
    }

    /// Fails with these codes, besides those that follow from its token, parameters and body.
    pub(crate) fn fails_with(mut self, errors: &[ErrorCode]) -> Self {
        self.errors.extend_from_slice(errors);
        self
    }

    fn response(mut self, response: Response) -> Self {
        self.responses.push(response);
        self
    }

    /// The names in the braces of the path.
    pub(super) fn path_names(&self) -> impl Iterator<Item = &'static str> {
        self.path.split('{').skip(1).filter_map(|rest| rest.split('}').next())
    }

    /// All errors: the status and the code of each.
    pub(super) fn refusals(&self) -> Vec<(u16, ErrorCode)> {
        let mut errors = self.errors.clone();
        match self.access {
            Access::Open => {}
            Access::Token => errors.extend([ErrorCode::Unauthorized]),
            Access::Service => errors.extend([ErrorCode::Unauthorized, ErrorCode::Forbidden]),
        }
        // The keys that verify tokens may not be loaded yet.
        if self.access != Access::Open {
            errors.push(ErrorCode::ServiceUnavailable);
        }
        if self.body.is_some() {
            errors.push(ErrorCode::MessageTooLarge);
        }
        if self.body.is_some() || !self.parameters.is_empty() || self.path.contains('{') {
            errors.push(ErrorCode::InvalidMessage);
        }
        let own = errors.iter().filter_map(|code| Some((code.http_status()?, *code)));
        let mut refusals: Vec<_> = own.collect();
        if self.body.is_some() {
            // A body that does not arrive, and one that is not JSON.
            refusals.extend([408, 415].map(|status| (status, ErrorCode::InvalidMessage)));
        }
        refusals.sort_by_key(|(status, code)| (*status, code.as_str()));
        refusals.dedup();
        refusals
    }
}
