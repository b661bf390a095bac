//! Evidence for or against an invariant.

/// Evidence for or against an invariant.
#[derive(Debug, Clone)]
pub(super) struct Evidence {
    /// The invariant's name.
    pub(super) invariant: &'static str,
    /// Whether the evidence is for the invariant.
    pub(super) holds: bool,
    /// The observation.
    pub(super) text: String,
    /// The advice, if the evidence is against the invariant.
    pub(super) advice: Option<&'static str>,
}

impl Evidence {
    /// Evidence for an invariant.
    pub(super) fn holds(invariant: &'static str, text: impl Into<String>) -> Self {
        Self { invariant, holds: true, text: text.into(), advice: None }
    }

    /// Evidence against an invariant, with advice.
    pub(super) fn against(
        invariant: &'static str,
        text: impl Into<String>,
        advice: &'static str,
    ) -> Self {
        Self { invariant, holds: false, text: text.into(), advice: Some(advice) }
    }
}
