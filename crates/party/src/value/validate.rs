//! Validation of the form of every argument, independent of any state.
//!
//! An error reads `Invalid <argument>: <reasons joined by ", ">`. Lengths count UTF-16 code units,
//! as browsers do, which check them first.

mod item;

use heartline_protocol::ErrorCode;

use crate::value::error::PartyError;

pub(crate) use item::queue_too_large;
pub use item::{queue, queue_item};

/// The default radius of a search by place.
pub const RADIUS_METERS_DEFAULT: f64 = 500.0;

/// The reasons for which an argument is invalid, collected so that one error names all of them.
#[derive(Debug)]
pub(crate) struct Reasons {
    argument: &'static str,
    found: Vec<String>,
}

/// The most reasons of one error; an invalid queue of 500 items would have thousands.
const REASONS_MAX: usize = 10;

impl Reasons {
    pub(crate) fn of(argument: &'static str) -> Self {
        Self { argument, found: Vec::new() }
    }

    pub(crate) fn require(&mut self, holds: bool, reason: &str) {
        if !holds && self.found.len() < REASONS_MAX {
            self.found.push(reason.to_owned());
        }
    }

    pub(crate) fn not_longer(&mut self, text: &str, length_max: usize, subject: &str) {
        self.require(length(text) <= length_max, &format!("{subject} too long"));
    }

    pub(crate) fn not_empty(&mut self, text: &str, length_max: usize, subject: &str) {
        self.require(!text.is_empty(), &format!("{subject} cannot be empty"));
        self.not_longer(text, length_max, subject);
    }

    pub(crate) fn finish(self) -> Result<(), PartyError> {
        if self.found.is_empty() {
            return Ok(());
        }
        Err(PartyError::invalid(self.argument, &self.found))
    }

    pub(crate) fn board_path(&mut self, path: &str) {
        self.not_empty(path, 200, "Board path");
        // Browsers read `\` as `/` and drop control characters, so these could lead to another
        // site.
        let stays_on_the_site = path.is_empty()
            || path.starts_with('/')
                && !path.starts_with("//")
                && !path.chars().any(|character| character == '\\' || character.is_control());
        self.require(stays_on_the_site, "Board path must start with a single /");
    }

    pub(crate) fn session_name(&mut self, name: &str) {
        self.not_longer(name, 100, "Session name");
    }

    pub(crate) fn goal(&mut self, goal: &str) {
        self.not_longer(goal, 500, "Goal");
    }

    pub(crate) fn color(&mut self, color: &str) {
        let is_hex = color.strip_prefix('#').is_some_and(|digits| {
            digits.len() == 6 && digits.bytes().all(|digit| digit.is_ascii_hexdigit())
        });
        self.require(is_hex, "Color must be a valid hex color");
    }

    pub(crate) fn latitude(&mut self, latitude: f64) {
        self.require((-90.0..=90.0).contains(&latitude), "Latitude must be between -90 and 90");
    }

    pub(crate) fn longitude(&mut self, longitude: f64) {
        let holds = (-180.0..=180.0).contains(&longitude);
        self.require(holds, "Longitude must be between -180 and 180");
    }

    fn avatar_url(&mut self, url: &str) {
        self.not_longer(url, 500, "Avatar URL");
        let is_legal = ["http://", "https://", "/"].iter().any(|start| url.starts_with(start));
        self.require(is_legal, "Avatar URL must use http(s) or be a relative path");
    }
}

fn length(text: &str) -> usize {
    text.encode_utf16().count()
}

/// `sessionId`: any client may choose a new one.
pub fn session_id(id: &str) -> Result<(), PartyError> {
    let mut reasons = Reasons::of("sessionId");
    reasons.not_empty(id, 100, "Session ID");
    let is_legal = id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    reasons.require(is_legal, "Session ID must be alphanumeric with hyphens only");
    reasons.finish()
}

/// `boardPath`: a path of the site, to which `/join` redirects.
pub fn board_path(path: &str) -> Result<(), PartyError> {
    let mut reasons = Reasons::of("boardPath");
    reasons.board_path(path);
    reasons.finish()
}

/// `username`.
pub fn username(name: &str) -> Result<(), PartyError> {
    let mut reasons = Reasons::of("username");
    reasons.not_empty(name, 50, "Username");
    reasons.finish()
}

/// `avatarUrl`.
pub fn avatar_url(url: &str) -> Result<(), PartyError> {
    let mut reasons = Reasons::of("avatarUrl");
    reasons.avatar_url(url);
    reasons.finish()
}

/// `sessionName`.
pub fn session_name(name: &str) -> Result<(), PartyError> {
    let mut reasons = Reasons::of("sessionName");
    reasons.session_name(name);
    reasons.finish()
}

/// The uuid of an existing item; old items have uuids that are not RFC 4122 UUIDs.
pub fn item_id(argument: &'static str, id: &str) -> Result<(), PartyError> {
    let mut reasons = Reasons::of(argument);
    reasons.not_empty(id, 100, "Queue item ID");
    reasons.finish()
}

/// A position in the queue.
pub fn index(argument: &'static str, index: i32) -> Result<usize, PartyError> {
    let negative = || PartyError::invalid(argument, &["Index cannot be negative".to_owned()]);
    usize::try_from(index).map_err(|_| negative())
}

/// `sinceSequence`.
pub fn since_sequence(sequence: i64) -> Result<u64, PartyError> {
    let reason = "Sequence cannot be negative".to_owned();
    u64::try_from(sequence).map_err(|_| PartyError::invalid("sinceSequence", &[reason]))
}

/// `correlationId`: stored with the result, so its length is limited.
pub fn correlation_id(id: &str) -> Result<(), PartyError> {
    let mut reasons = Reasons::of("correlationId");
    reasons.not_empty(id, 100, "Correlation ID");
    reasons.finish()
}

/// `boardIds`.
pub fn board_ids(ids: &[i32]) -> Result<(), PartyError> {
    let mut reasons = Reasons::of("boardIds");
    reasons.require(ids.len() <= 20, "Too many boards");
    reasons.require(ids.iter().all(|id| *id > 0), "Board IDs must be positive");
    reasons.finish()
}

/// `latitude`, `longitude` and `radiusMeters` of a search; returns the radius.
pub fn nearby(latitude: f64, longitude: f64, radius: Option<f64>) -> Result<f64, PartyError> {
    let mut reasons = Reasons::of("latitude");
    reasons.latitude(latitude);
    reasons.finish()?;
    let mut reasons = Reasons::of("longitude");
    reasons.longitude(longitude);
    reasons.finish()?;
    let radius = radius.unwrap_or(RADIUS_METERS_DEFAULT);
    let mut reasons = Reasons::of("radiusMeters");
    reasons.require(radius >= 100.0, "Radius too small");
    reasons.require(radius.is_nan() || radius <= 50_000.0, "Radius too large");
    reasons.finish()?;
    Ok(radius)
}

/// The id of a session or connection that becomes part of a key.
pub fn key_part(argument: &'static str, id: &str) -> Result<(), PartyError> {
    let is_legal = (1..=128).contains(&id.len())
        && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte));
    let refusal =
        || PartyError::new(ErrorCode::InvalidMessage, format!("Invalid {argument} format"));
    if is_legal { Ok(()) } else { Err(refusal()) }
}

#[cfg(test)]
mod tests;
