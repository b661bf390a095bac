//! Documents that are rejected before they are run.

use std::fmt::Write as _;

use async_graphql::parser::parse_query;
use heartline_runtime::Clock;
use proptest::prelude::*;
use serde_json::json;
use tokio::time::Instant;

use super::memory::SECRET;
use super::{JOIN, Reply, World, item, refusal};
use crate::graphql::guard::check_text;

async fn refused(query: &str) -> String {
    let world = World::of(1).await;
    let started: Instant = Clock::system().now();
    let reply = world.connect(0, None).reply(query, json!(null)).await;
    assert!(started.elapsed().as_secs() < 5, "it is rejected at once");
    assert!(matches!(reply, Reply::Error(_)));
    let (code, message) = refusal(&reply);
    assert_eq!(code, "INVALID_MESSAGE");
    message
}

#[tokio::test]
async fn a_value_nested_deep_is_refused_and_does_not_end_the_process() {
    for (open, close) in [("[", "]"), ("{a:", "}")] {
        for levels in [65, 1600, 60_000] {
            let (open, close) = (open.repeat(levels), close.repeat(levels));
            let message = refused(&format!("{{session(sessionId:{open}1{close}){{id}}}}")).await;
            assert!(message.contains("nesting"), "{message}");
        }
    }
}

#[tokio::test]
async fn brackets_cannot_be_hidden_in_unterminated_strings() {
    let nested = format!("{}1{}", "[".repeat(1600), "]".repeat(1600));
    for hidden in [
        format!("{{session(sessionId:[\"\"\"x\", {nested}]){{id}}}}"),
        format!("{{session(sessionId:[\"\\\n\", {nested}]){{id}}}}"),
        format!("{{session(sessionId:[\"x\n\", {nested}]){{id}}}}"),
    ] {
        let message = refused(&hidden).await;
        assert!(message.contains("nterminated"), "{message}");
    }
    for hidden in [
        format!("{{session(sessionId:[\"]]]]\\\"\", {nested}]){{id}}}}"),
        format!("{{session(sessionId:[\"\"\"\\\"\"\"]\"\"\", {nested}]){{id}}}}"),
        format!("{{#]]]]\"\n session(sessionId:[{nested}]){{id}}}}"),
    ] {
        assert!(refused(&hidden).await.contains("nesting"));
    }
}

#[tokio::test]
async fn a_document_just_within_the_limits_is_parsed() {
    let world = World::of(1).await;
    let (open, close) = ("... on Query { ".repeat(30), " }".repeat(30));
    let query = format!("{{ {open} __typename {close} }}");
    let answer = world.connect(0, None).ask(&query, json!({})).await;
    assert_eq!(answer["__typename"], "Query");
    let (open, close) = ("[".repeat(61), "]".repeat(61));
    let message = refused(&format!("{{session(sessionId:{open}1{close}){{id}}}}")).await;
    assert!(message.contains("Invalid value"), "{message}");
}

proptest! {
    /// Checking a text never panics, and a text that can be parsed is not rejected.
    #[test]
    fn no_text_is_misread(text in r#"[\[\]{}()"\\#\né a:]{0,60}"#, value in r#"[\["\\#\né a]{0,20}"#) {
        for text in [text, format!("{{a(b:{value}){{c}}}}")] {
            let is_parsed = parse_query(&text).is_ok();
            prop_assert!(check_text(&text).is_ok() || !is_parsed, "{}", text);
        }
    }
}

#[tokio::test]
async fn depth_is_counted_through_named_fragments() {
    let deep = |levels: usize| {
        let mut query = "{ session(sessionId: \"a\") { ...F0 } }".to_owned();
        for level in 0..levels {
            let next = level + 1;
            write!(query, " fragment F{level} on Session {{ users {{ ...F{next} }} }}").unwrap();
        }
        write!(query, " fragment F{levels} on Session {{ id }}").unwrap();
        query
    };
    let message = refused(&deep(29)).await;
    assert_eq!(message, "Query depth 30 exceeds maximum allowed depth of 10");
    // At the limit only the types are wrong.
    assert!(!refused(&deep(9)).await.contains("depth"));
}

#[tokio::test]
async fn fragments_that_repeat_each_other_are_refused() {
    let mut bomb = "{ session(sessionId: \"a\") { ...F0 } }".to_owned();
    for level in 0..30 {
        let next = level + 1;
        write!(bomb, " fragment F{level} on Session {{ ...F{next} ...F{next} }}").unwrap();
    }
    bomb.push_str(" fragment F30 on Session { id }");
    assert!(refused(&bomb).await.contains("complex"));
    let cycle = "{ ...A } fragment A on Query { ...B } fragment B on Query { ...A }";
    assert!(refused(cycle).await.contains("within itself"));
}

#[tokio::test]
async fn the_same_field_many_times_is_refused() {
    let (mut aliases, mut directives) = (String::new(), String::new());
    for number in 0..5000 {
        write!(aliases, " a{number}: id").unwrap();
        directives.push_str(" @include(if: true)");
    }
    for fields in [aliases, " id".repeat(5000)] {
        let query = format!("{{ session(sessionId: \"a\") {{ {fields} }} }}");
        assert!(refused(&query).await.contains("complex"));
    }
    refused(&format!("{{ session(sessionId: \"a\") {{ id {directives} }} }}")).await;
}

#[tokio::test]
async fn a_typed_fragment_does_not_hide_repeated_fields() {
    let state = "queueState { sequence }";
    let twice = |times: usize| {
        let again: Vec<String> = (0..times).map(|it| format!("a{it}: {state}")).collect();
        let again = again.join(" ");
        format!("{{ session(sessionId: \"a\") {{ {state} ... on Session {{ {again} }} }} }}")
    };
    let world = World::of(1).await;
    let reply = world.connect(0, None).ask(&twice(4), json!(null)).await;
    assert_eq!(reply["session"], json!(null), "four more are allowed");
    assert!(refused(&twice(5)).await.contains("complex"));
    let nested = format!(
        "{{ session(sessionId: \"a\") {{ {state} }} ... on Query {{ a: session(sessionId: \"a\") \
         {{ {state} ... on Session {{ b: {state} }} }} b: session(sessionId: \"b\") {{ {state} }} \
         c: session(sessionId: \"c\") {{ {state} }} d: session(sessionId: \"d\") {{ id }} }} }}"
    );
    assert!(refused(&nested).await.contains("complex"), "on all levels together");
}

#[tokio::test]
async fn undeclared_variables_are_dropped_and_the_others_are_bounded() {
    let world = World::of(1).await;
    let [client] = world.party("party-1").await;
    let many = vec![0; 500_001];
    let added = client.ask(super::ADD, json!({ "item": item(1), "junk": many })).await;
    assert_eq!(added["addQueueItem"]["uuid"], super::uuid(1));
    let mut lit = item(2);
    lit["climb"]["litUpHoldsMap"] = json!(many);
    let (code, message) = client.refusal(super::ADD, json!({ "item": lit })).await;
    assert_eq!((code.as_str(), message.contains("too large")), ("MESSAGE_TOO_LARGE", true));
    let long = "x".repeat(2000);
    for id in [json!(["party-1"]), json!({ "id": "party-1" }), json!(long)] {
        let reply = client.run(super::QUEUE, json!({ "id": id })).reply().await.unwrap();
        let (_, message) = super::refusal(&reply);
        assert!(message.contains("was not provided"), "{message}");
    }
}

#[tokio::test]
async fn a_document_that_cannot_be_parsed_is_rejected() {
    for query in ["{", "", "}{", "{ nothing }", "query A { __typename } query B { __typename }"] {
        assert!(!refused(query).await.is_empty());
    }
    let large = format!("{{ __typename }} #{}", "x".repeat(256 * 1024));
    let world = World::of(1).await;
    let (code, message) = world.connect(0, None).refusal(&large, json!(null)).await;
    assert_eq!(code, "MESSAGE_TOO_LARGE");
    assert!(message.contains("Query too large"));
}

#[tokio::test]
async fn the_error_of_a_failing_store_or_archive_hides_its_cause() {
    let world = World::of(1).await;
    let [client] = world.party("party-1").await;
    world.store.fail(true);
    let (code, message) = client.refusal(super::ADD, json!({ "item": item(1) })).await;
    assert_eq!(code, "SERVICE_UNAVAILABLE");
    assert!(!message.contains(SECRET));
    let reply = client.reply(super::ADD, json!({ "item": item(1) })).await;
    let Reply::Next(json) = reply else { panic!("it was run") };
    let reply: serde_json::Value = serde_json::from_slice(&json).unwrap();
    assert_eq!(reply["errors"][0]["extensions"]["retry_after_seconds"], 1);
    world.store.fail(false);
    client.add(1).await;
    world.archive.fail();
    let query = "{ nearbySessions(latitude: 1, longitude: 2) { id } }";
    let (code, message) = client.refusal(query, json!(null)).await;
    assert_eq!(code, "SERVICE_UNAVAILABLE");
    assert!(!message.contains(SECRET));
    let (code, _) = world.connect(0, None).refusal(JOIN, json!({ "id": "new" })).await;
    assert_eq!(code, "SERVICE_UNAVAILABLE", "a session that may exist is not created");
}
