//! What was seen that bears on an invariant.

/// Something that speaks for or against an invariant.
#[derive(Debug, Clone)]
pub(super) struct Evidence {
    /// The invariant's name.
    pub(super) invariant: &'static str,
    /// Whether it speaks for it.
    pub(super) holds: bool,
    /// What was seen.
    pub(super) text: String,
    /// What to do if it speaks against it.
    pub(super) advice: Option<&'static str>,
}

impl Evidence {
    /// Something that speaks for an invariant.
    pub(super) fn holds(invariant: &'static str, text: impl Into<String>) -> Self {
        Self { invariant, holds: true, text: text.into(), advice: None }
    }

    /// Something that speaks against an invariant, and what to do.
    pub(super) fn against(
        invariant: &'static str,
        text: impl Into<String>,
        advice: &'static str,
    ) -> Self {
        Self { invariant, holds: false, text: text.into(), advice: Some(advice) }
    }
}
