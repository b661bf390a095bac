//! What is written about one route.

use axum::routing::MethodFilter;
use heartline_protocol::ErrorCode;

/// Who may use a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    /// Everybody, without a token.
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

/// What an answer holds.
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

/// A good answer.
#[derive(Debug, Clone, Copy)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) meaning: &'static str,
    pub(super) content: Content,
}

/// One method of one path.
#[derive(Debug)]
pub(crate) struct Operation {
    /// The method as the document writes it, and as the router takes it.
    pub(super) method: &'static str,
    pub(super) filter: MethodFilter,
    pub(super) path: &'static str,
    pub(super) id: &'static str,
    pub(super) summary: &'static str,
    pub(super) access: Access,
    pub(super) parameters: &'static [Parameter],
    pub(super) body: Option<&'static str>,
    pub(super) answers: Vec<Answer>,
    pub(super) errors: Vec<ErrorCode>,
}

macro_rules! methods {
    ($($name:ident $filter:ident),*) => {
        $(
            /// An operation of this method, with its name in generated clients and a sentence.
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
                    answers: Vec::new(),
                    errors: Vec::new(),
                }
            }
        )*
    };
}

impl Operation {
    methods!(get GET, post POST, put PUT, patch PATCH, delete DELETE);

    /// For every valid token.
    pub(crate) fn for_tokens(self) -> Self {
        Self { access: Access::Token, ..self }
    }

    /// For tokens with the scope `service`.
    pub(crate) fn for_services(self) -> Self {
        Self { access: Access::Service, ..self }
    }

    /// Takes these parameters besides those of the path.
    pub(crate) fn parameters(self, parameters: &'static [Parameter]) -> Self {
        Self { parameters, ..self }
    }

    /// Takes a body of this schema.
    pub(crate) fn body(self, schema: &'static str) -> Self {
        Self { body: Some(schema), ..self }
    }

    /// Answers with an object of this schema.
    pub(crate) fn answers(self, status: u16, meaning: &'static str, schema: &'static str) -> Self {
        self.answer(Answer { status, meaning, content: Content::Schema(schema) })
    }

    /// Answers with a page of a list of this schema.
    pub(crate) fn answers_page(self, meaning: &'static str, schema: &'static str) -> Self {
        self.answer(Answer { status: 200, meaning, content: Content::Page(schema) })
    }

    /// Answers with an object of any shape.
    pub(crate) fn answers_object(self, status: u16, meaning: &'static str) -> Self {
        self.answer(Answer { status, meaning, content: Content::Object })
    }

    /// Answers with text.
    pub(crate) fn answers_text(self, meaning: &'static str, media_type: &'static str) -> Self {
        self.answer(Answer { status: 200, meaning, content: Content::Text(media_type) })
    }

    /// Answers 204.
    pub(crate) fn answers_nothing(self, meaning: &'static str) -> Self {
        self.answer(Answer { status: 204, meaning, content: Content::Nothing })
    }

    /// Refuses with these codes, besides those that follow from its token, parameters and body.
    pub(crate) fn refuses(mut self, errors: &[ErrorCode]) -> Self {
        self.errors.extend_from_slice(errors);
        self
    }

    fn answer(mut self, answer: Answer) -> Self {
        self.answers.push(answer);
        self
    }

    /// The names in the braces of the path.
    pub(super) fn path_names(&self) -> impl Iterator<Item = &'static str> {
        self.path.split('{').skip(1).filter_map(|rest| rest.split('}').next())
    }

    /// Every way to be refused: the status, and the codes that come with it.
    pub(super) fn refusals(&self) -> Vec<(u16, ErrorCode)> {
        let mut errors = self.errors.clone();
        match self.access {
            Access::Open => {}
            Access::Token => errors.extend([ErrorCode::Unauthorized]),
            Access::Service => errors.extend([ErrorCode::Unauthorized, ErrorCode::Forbidden]),
        }
        // The keys that check tokens may not be there yet.
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
            // A body that does not come, and one that is not JSON.
            refusals.extend([408, 415].map(|status| (status, ErrorCode::InvalidMessage)));
        }
        refusals.sort_by_key(|(status, code)| (*status, code.as_str()));
        refusals.dedup();
        refusals
    }
}
