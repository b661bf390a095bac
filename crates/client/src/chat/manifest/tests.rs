//! Reading the manifest.

use heartline_protocol::ErrorCode;

use super::*;
use crate::chat::fixtures::{CHAT, OTHER, back_off, error, manifest_chat};
use crate::clock;

const A_WHILE: Duration = Duration::from_secs(60);

fn started() -> (Manifest, Instant) {
    let now = clock::now();
    let mut manifest = Manifest::new(back_off());
    manifest.connected(now);
    (manifest, now)
}

/// Requests a page, which must be this one, and answers it.
fn read(
    manifest: &mut Manifest,
    now: Instant,
    page: Option<&str>,
    chat_id: ChatId,
    next_page: Option<&str>,
) -> PageResult {
    let request = manifest.next(now).expect("no request is due");
    assert_eq!(request.page.as_deref(), page);
    manifest.answered(&request.request_id, &[manifest_chat(chat_id, 1)], next_page)
}

#[test]
fn a_connection_begins_with_the_whole_manifest_page_by_page() {
    let (mut manifest, now) = started();
    assert_eq!(read(&mut manifest, now, None, CHAT, Some("b")), PageResult::More);
    let request = manifest.next(now).unwrap();
    assert_eq!(request.page.as_deref(), Some("b"));
    assert_eq!(manifest.next(now), None, "one page at a time");
    let result = manifest.answered(&"foreign".parse().unwrap(), &[], None);
    assert_eq!(result, PageResult::Unrelated);
    assert_eq!(manifest.answered(&request.request_id, &[], None), PageResult::Complete);
    assert_eq!(manifest.due_at(), None);
}

#[test]
fn a_rejected_page_is_requested_again_after_the_delay() {
    let (mut manifest, now) = started();
    read(&mut manifest, now, None, CHAT, Some("b"));
    let request = manifest.next(now).unwrap();
    let mut busy = error(&request.request_id, ErrorCode::ServerBusy);
    busy.retry_after_seconds = Some(3);
    assert!(manifest.on_error(&busy, now));
    assert!(!manifest.on_error(&busy, now), "it was answered already");
    assert!(manifest.due_at().unwrap() >= now + Duration::from_secs(3));
    manifest.resync(None, Duration::ZERO, now);
    assert!(manifest.due_at().unwrap() >= now + Duration::from_secs(3));
    assert_eq!(read(&mut manifest, now + A_WHILE, Some("b"), CHAT, None), PageResult::Complete);
}

#[test]
fn after_a_final_rejection_the_manifest_is_read_again_after_a_delay() {
    let (mut manifest, now) = started();
    read(&mut manifest, now, None, CHAT, Some("b"));
    let request = manifest.next(now).unwrap();
    assert!(manifest.on_error(&error(&request.request_id, ErrorCode::InvalidMessage), now));
    assert_eq!(manifest.next(now), None);
    assert_eq!(read(&mut manifest, now + A_WHILE, None, CHAT, None), PageResult::Complete);
}

#[test]
fn resyncs_wait_for_their_delay_and_are_merged() {
    let (mut manifest, now) = started();
    read(&mut manifest, now, None, CHAT, None);
    manifest.resync(Some(&[CHAT]), Duration::from_secs(9), now);
    manifest.resync(Some(&[OTHER]), Duration::from_secs(5), now);
    assert_eq!(manifest.due_at(), Some(now + Duration::from_secs(5)));
    let later = now + Duration::from_secs(5);
    assert_eq!(read(&mut manifest, later, None, CHAT, Some("b")), PageResult::More);
    let result = read(&mut manifest, later, Some("b"), OTHER, Some("c"));
    assert_eq!(result, PageResult::Complete, "both chats were found, so the rest is not read");
    assert_eq!(manifest.due_at(), None);
}

#[test]
fn a_resync_during_a_read_is_followed_by_another_read() {
    let (mut manifest, now) = started();
    let request = manifest.next(now).unwrap();
    manifest.resync(Some(&[CHAT]), Duration::ZERO, now);
    manifest.resync(None, Duration::ZERO, now);
    let result = manifest.answered(&request.request_id, &[], None);
    assert_eq!(result, PageResult::Complete);
    assert_eq!(read(&mut manifest, now, None, CHAT, Some("b")), PageResult::More);
    assert_eq!(read(&mut manifest, now, Some("b"), OTHER, None), PageResult::Complete);
    assert_eq!(manifest.due_at(), None);
}

#[test]
fn a_too_long_delay_is_limited() {
    let (mut manifest, now) = started();
    read(&mut manifest, now, None, CHAT, None);
    manifest.resync(None, Duration::MAX, now);
    assert_eq!(manifest.due_at(), Some(now + SERVER_DELAY_MAX));
}

#[test]
fn a_request_lost_with_its_connection_is_sent_again_on_the_next() {
    let (mut manifest, now) = started();
    let lost = manifest.next(now).unwrap();
    manifest.disconnected();
    assert_eq!(manifest.due_at(), None);
    manifest.connected(now);
    assert_eq!(manifest.answered(&lost.request_id, &[], None), PageResult::Unrelated);
    assert_ne!(manifest.next(now).unwrap().request_id, lost.request_id);
}
