//! Every message at every stage.

use heartline_runtime::Clock;

use super::*;

const INIT: &str = r#"{"type":"connection_init"}"#;
const SUBSCRIBE: &str = r#"{"type":"subscribe","id":"1","payload":{"query":"{a}"}}"#;

fn fresh() -> Conversation {
    let config = GraphQlConfig { operations: 2, ..GraphQlConfig::default() };
    Conversation::new(config, Duration::from_secs(3600), Clock::system().now())
}

fn ready() -> Conversation {
    let mut conversation = fresh();
    assert_eq!(conversation.text(INIT), Some(Effect::Initialise(None)));
    let acknowledged = Effect::Send(r#"{"type":"connection_ack"}"#.to_owned());
    assert_eq!(conversation.initialised(None), acknowledged);
    conversation
}

fn close_code(effect: Option<Effect>) -> Option<u16> {
    match effect {
        Some(Effect::Close(close)) => Some(close.code),
        _ => None,
    }
}

#[test]
fn an_invalid_message_ends_the_conversation() {
    for text in [
        "",
        "[]",
        "{",
        "null",
        r#"{"type":"hello"}"#,
        r#"{"id":"1"}"#,
        r#"{"type":"subscribe","id":"1"}"#,
        r#"{"type":"subscribe","id":1,"payload":{"query":"{a}"}}"#,
        r#"{"type":"subscribe","payload":{"query":"{a}"}}"#,
        r#"{"type":"subscribe","id":"1","payload":{}}"#,
        r#"{"type":"subscribe","id":"","payload":{"query":"{a}"}}"#,
        r#"{"type":"subscribe","id":"1","payload":{"query":"{a}","variables":[]}}"#,
        r#"{"type":"subscribe","id":"1","payload":["{a}"]}"#,
        r#"{"type":"complete"}"#,
        r#"{"type":"connection_init","payload":[]}"#,
    ] {
        let mut conversation = match text.contains("connection_init") {
            true => fresh(),
            false => ready(),
        };
        assert_eq!(close_code(conversation.text(text)), Some(4400), "{text}");
    }
    assert_eq!(close_code(Some(ready().binary())), Some(4400));
}

#[test]
fn nothing_runs_before_the_acknowledgement_and_a_second_init_is_refused() {
    let mut conversation = fresh();
    assert_eq!(close_code(conversation.text(SUBSCRIBE)), Some(4401));
    let mut conversation = fresh();
    conversation.text(INIT);
    assert_eq!(close_code(conversation.text(SUBSCRIBE)), Some(4401), "the token is being checked");
    assert_eq!(close_code(conversation.text(INIT)), Some(4429));
    assert_eq!(close_code(ready().text(INIT)), Some(4429));
}

#[test]
fn a_token_is_text_and_everything_else_is_none() {
    let token = |payload: &str| {
        let text = format!(r#"{{"type":"connection_init","payload":{payload}}}"#);
        fresh().text(&text)
    };
    let some = Some(Effect::Initialise(Some("t".to_owned())));
    assert_eq!(token(r#"{"authToken":"t","controllerMac":"m"}"#), some);
    for none in ["null", "{}", r#"{"authToken":null}"#, r#"{"authToken":""}"#, r#"{"a":1}"#] {
        assert_eq!(token(none), Some(Effect::Initialise(None)), "{none}");
    }
}

#[test]
fn an_operation_answers_until_it_ends_or_is_stopped() {
    let mut conversation = ready();
    let Some(Effect::Start { id, request }) = conversation.text(SUBSCRIBE) else {
        panic!("it is started");
    };
    assert_eq!(
        (id.as_str(), request.query.as_str(), request.variables.is_null()),
        ("1", "{a}", true)
    );
    assert_eq!(close_code(conversation.text(SUBSCRIBE)), Some(4409));

    let mut conversation = ready();
    conversation.text(SUBSCRIBE);
    let next = Reply::Next(Bytes::from_static(br#"{"data":{"a":1}}"#));
    let text = conversation.replied("1", &next).unwrap_or_default();
    assert_eq!(text, r#"{"type":"next","id":"1","payload":{"data":{"a":1}}}"#);
    let end = r#"{"type":"complete","id":"1"}"#.to_owned();
    assert_eq!(conversation.ended("1"), Some(end));
    assert_eq!(conversation.ended("1"), None);
    assert!(matches!(conversation.text(SUBSCRIBE), Some(Effect::Start { .. })), "the id is free");

    let complete = r#"{"type":"complete","id":"1"}"#;
    assert_eq!(conversation.text(complete), Some(Effect::Stop { id: "1".to_owned() }));
    assert_eq!(conversation.replied("1", &next), None, "the client wants no more");
    assert_eq!(conversation.ended("1"), None);
    assert_eq!(conversation.text(complete), None);
}

#[test]
fn an_error_is_the_end_of_its_operation() {
    let mut conversation = ready();
    conversation.text(SUBSCRIBE);
    let error = Reply::Error(Bytes::from_static(br#"[{"message":"no"}]"#));
    let text = conversation.replied("1", &error).unwrap_or_default();
    assert_eq!(text, r#"{"type":"error","id":"1","payload":[{"message":"no"}]}"#);
    assert_eq!(conversation.ended("1"), None, "nothing follows an error");
}

#[test]
fn the_number_of_pending_operations_is_limited() {
    let mut conversation = ready();
    let subscribe =
        |id: &str| format!(r#"{{"type":"subscribe","id":"{id}","payload":{{"query":"{{a}}"}}}}"#);
    for id in ["1", "2"] {
        assert!(matches!(conversation.text(&subscribe(id)), Some(Effect::Start { .. })));
    }
    let Some(Effect::Send(text)) = conversation.text(&subscribe("3")) else { panic!("refused") };
    assert!(text.contains("SERVER_BUSY") && text.contains(r#""id":"3""#), "{text}");
    conversation.ended("1");
    assert!(matches!(conversation.text(&subscribe("3")), Some(Effect::Start { .. })));
}

#[test]
fn a_ping_is_answered_with_its_payload() {
    let mut conversation = fresh();
    let pong = |text: &str| Some(Effect::Send(text.to_owned()));
    assert_eq!(conversation.text(r#"{"type":"ping"}"#), pong(r#"{"type":"pong"}"#));
    let ping = r#"{"type":"ping","payload":{"a":1}}"#;
    assert_eq!(conversation.text(ping), pong(r#"{"payload":{"a":1},"type":"pong"}"#));
    assert_eq!(conversation.text(r#"{"type":"pong"}"#), None);
}

#[test]
fn each_reason_has_its_code_and_the_init_timeout_its_text() {
    let (start, mut conversation) = (Clock::system().now(), fresh());
    let Some(Effect::Close(close)) = conversation.tick(start + Duration::from_secs(60)) else {
        panic!("the init is overdue");
    };
    assert_eq!((close.code, close.reason), (4408, CloseReason::AuthTimeout));
    assert_eq!(close.sentence, "Connection initialisation timeout");

    let mut conversation = ready();
    conversation.initialised(Some(start));
    assert_eq!(close_code(conversation.tick(start)), Some(4403), "the token has expired");
    assert_eq!(GraphQlClose::of(CloseReason::MaxAge).sentence, "max_age");
}
