//! Every limit, at its bound and beyond it.

use heartline_protocol::ErrorCode;
use serde_json::{Value, json};

use super::*;
use crate::value::item::QueueItem;
use crate::value::limits::{ITEM_BYTES_MAX, ITEM_NESTING_MAX};

const UUID: &str = "11111111-1111-4111-8111-111111111111";

fn item() -> QueueItem {
    serde_json::from_value(json!({
        "uuid": UUID,
        "climb": {
            "uuid": "not-an-rfc-uuid",
            "setter_username": "setter",
            "name": "name",
            "description": "",
            "frames": "",
            "angle": 40,
            "ascensionist_count": 0,
            "difficulty": "",
            "quality_average": "",
            "stars": 3,
            "difficulty_error": "",
            "litUpHoldsMap": {},
        },
    }))
    .unwrap()
}

fn message(result: Result<impl std::fmt::Debug, PartyError>) -> String {
    result.unwrap_err().message
}

/// Changes a valid item and returns the resulting error message.
fn wrong(change: impl Fn(&mut QueueItem)) -> String {
    let mut item = item();
    change(&mut item);
    message(queue_item("item", item))
}

#[test]
fn a_session_id_is_short_text_of_letters_digits_and_hyphens() {
    assert!(session_id("aZ-09").is_ok());
    assert!(session_id(&"a".repeat(100)).is_ok());
    assert_eq!(message(session_id("")), "Invalid sessionId: Session ID cannot be empty");
    assert_eq!(message(session_id(&"a".repeat(101))), "Invalid sessionId: Session ID too long");
    let alphabet = "Session ID must be alphanumeric with hyphens only";
    assert_eq!(message(session_id("a_b")), format!("Invalid sessionId: {alphabet}"));
    let both = format!("Invalid sessionId: Session ID too long, {alphabet}");
    assert_eq!(message(session_id(&"é".repeat(101))), both);
}

#[test]
fn a_board_path_stays_on_the_site() {
    assert!(board_path("/kilter/original/12x12/40").is_ok());
    assert!(board_path(&format!("/{}", "a".repeat(199))).is_ok());
    assert!(message(board_path(&format!("/{}", "a".repeat(200)))).contains("Board path too long"));
    assert_eq!(message(board_path("")), "Invalid boardPath: Board path cannot be empty");
    for path in ["a", "//a", "/a\\b", "\\a", "http://a", "@a/x", "/a\tb", "/\u{7f}", " /a"] {
        assert!(message(board_path(path)).contains("must start with a single /"), "{path:?}");
    }
}

#[test]
fn names_pictures_and_words_have_their_lengths() {
    assert!(username(&"n".repeat(50)).is_ok());
    assert!(message(username(&"n".repeat(51))).contains("Username too long"));
    assert!(message(username("")).contains("Username cannot be empty"));
    assert!(username(&"\u{1f600}".repeat(25)).is_ok());
    assert!(username(&"\u{1f600}".repeat(26)).is_err(), "each is two code units");
    assert!(session_name(&"n".repeat(100)).is_ok());
    assert!(message(session_name(&"n".repeat(101))).contains("Session name too long"));
    for url in ["http://a/b.png", "https://a/b.png", "/b.png"] {
        assert!(avatar_url(url).is_ok());
    }
    let scheme = "Avatar URL must use http(s) or be a relative path";
    assert_eq!(message(avatar_url("data:x")), format!("Invalid avatarUrl: {scheme}"));
    assert!(message(avatar_url(&format!("/{}", "a".repeat(500)))).contains("Avatar URL too long"));
    assert!(correlation_id(&"c".repeat(101)).is_err());
    let mut reasons = Reasons::of("input");
    reasons.goal(&"g".repeat(501));
    reasons.color("#12345g");
    reasons.color("#123456");
    let both = "Invalid input: Goal too long, Color must be a valid hex color";
    assert_eq!(message(reasons.finish()), both);
}

#[test]
fn places_and_distances_have_their_ranges() {
    assert_eq!(nearby(90.0, -180.0, None).unwrap(), 500.0);
    assert_eq!(nearby(0.0, 0.0, Some(50_000.0)).unwrap(), 50_000.0);
    assert!(message(nearby(90.5, 0.0, None)).starts_with("Invalid latitude: "));
    assert!(message(nearby(0.0, f64::NAN, None)).starts_with("Invalid longitude: "));
    assert!(message(nearby(0.0, 0.0, Some(99.0))).contains("Radius too small"));
    assert!(message(nearby(0.0, 0.0, Some(50_001.0))).contains("Radius too large"));
    assert!(nearby(0.0, 0.0, Some(f64::NAN)).is_err());
    assert!(board_ids(&[1; 20]).is_ok());
    assert!(board_ids(&[1; 21]).is_err() && board_ids(&[0]).is_err());
}

#[test]
fn numbers_and_keys_have_their_form() {
    assert_eq!(index("position", 3).unwrap(), 3);
    assert_eq!(message(index("position", -1)), "Invalid position: Index cannot be negative");
    assert_eq!(since_sequence(0).unwrap(), 0);
    assert!(message(since_sequence(-1)).starts_with("Invalid sinceSequence: "));
    assert_eq!(message(key_part("sessionId", "a b")), "Invalid sessionId format");
    assert!(key_part("connectionId", &"a_-".repeat(42)).is_ok());
    assert!(message(item_id("uuid", "")).contains("Queue item ID cannot be empty"));
    assert!(item_id("uuid", &"x".repeat(101)).is_err());
}

#[test]
fn a_valid_item_is_accepted_unchanged() {
    let accepted = queue_item("item", item()).unwrap();
    assert_eq!(accepted.value(), &item());
    assert_eq!(
        accepted.size_bytes(),
        crate::value::canonical::canonical_json(&serde_json::to_value(item()).unwrap()).len()
    );
}

#[test]
fn an_item_has_an_rfc_uuid_and_its_climb_any_short_id() {
    for uuid in ["", "a", "11111111-1111-4111-8111-11111111111g", &format!("{UUID}-")] {
        let found = wrong(|item| uuid.clone_into(&mut item.uuid));
        assert_eq!(found, "Invalid item: Invalid UUID format", "{uuid:?}");
    }
    assert!(wrong(|item| item.climb.uuid = "c".repeat(51)).contains("UUID too long"));
    assert!(wrong(|item| item.climb.uuid.clear()).contains("UUID cannot be empty"));
}

#[test]
fn every_text_and_number_of_an_item_is_bounded() {
    let long = |length: usize| "t".repeat(length + 1);
    let reasons = [
        wrong(|item| item.climb.name = long(200)),
        wrong(|item| item.climb.description = long(2000)),
        wrong(|item| item.climb.frames = long(10_000)),
        wrong(|item| item.climb.setter_username = long(100)),
        wrong(|item| item.climb.difficulty = long(50)),
        wrong(|item| item.climb.quality_average = long(20)),
        wrong(|item| item.climb.difficulty_error = long(50)),
        wrong(|item| item.climb.benchmark_difficulty = Some(long(50))),
        wrong(|item| item.added_by = Some(long(100))),
        wrong(|item| item.ticked_by = Some(vec![long(100)])),
    ];
    assert!(reasons.iter().all(|reason| reason.ends_with("too long")), "{reasons:?}");
    for angle in [-1, 91] {
        assert!(wrong(|item| item.climb.angle = angle).contains("Angle"));
    }
    for stars in [-0.1, 15.1, f64::NAN, f64::INFINITY] {
        assert!(wrong(|item| item.climb.stars = stars).contains("Stars"));
    }
    assert!(wrong(|item| item.climb.ascensionist_count = -1).contains("Counts"));
    assert!(wrong(|item| item.climb.user_attempts = Some(-1)).contains("Counts"));
    let many = vec![String::new(); 101];
    assert!(wrong(|item| item.ticked_by = Some(many.clone())).contains("too many entries"));
}

#[test]
fn an_item_is_bounded_in_bytes_and_in_nesting() {
    let large = Value::String("h".repeat(ITEM_BYTES_MAX));
    let mut too_large = item();
    too_large.climb.lit_up_holds_map = large;
    let error = queue_item("item", too_large).unwrap_err();
    assert_eq!(error.code, ErrorCode::MessageTooLarge);
    let nested = |levels| (0..levels).fold(Value::Null, |inner, _| json!([inner]));
    let mut deep = item();
    deep.climb.lit_up_holds_map = nested(ITEM_NESTING_MAX);
    let accepted = queue_item("item", deep).unwrap();
    let text = serde_json::to_string(&accepted).unwrap();
    assert!(serde_json::from_str::<crate::Item>(&text).is_ok(), "it can be read back");
    let deeper = wrong(|item| item.climb.lit_up_holds_map = nested(ITEM_NESTING_MAX + 1));
    assert!(deeper.contains("nested too deeply"), "{deeper}");
}

#[test]
fn a_queue_has_at_most_500_items_and_its_error_names_few_reasons() {
    let error = queue("queue", vec![item(); 501], 500).unwrap_err();
    assert_eq!(error.code, ErrorCode::MessageTooLarge);
    assert_eq!(error.message, "Invalid queue: Queue too large (at most 500 items)");
    let bad = QueueItem { uuid: String::new(), ..item() };
    let found = message(queue("initialQueue", vec![bad; 500], 500));
    assert!(found.starts_with("Invalid initialQueue: Invalid UUID format, Invalid UUID format"));
    assert!(found.len() < 500, "{}", found.len());
}

#[test]
fn a_null_field_equals_a_missing_one_and_unknown_fields_are_dropped() {
    let mut written = serde_json::to_value(item()).unwrap();
    written["addedBy"] = Value::Null;
    written["tickedBy"] = Value::Null;
    written["climb"]["mirrored"] = Value::Null;
    written["climb"]["somethingElse"] = json!(1);
    written["__typename"] = json!("ClimbQueueItem");
    let read: crate::Item = serde_json::from_value(written).unwrap();
    let accepted = queue_item("item", item()).unwrap();
    assert_eq!(read, accepted);
    assert_eq!(read.content_hash(), accepted.content_hash());
}
