//! The limits of a party on a single node: size, depth and rate; and errors without internal
//! details.

use heartline_client::raw::{OPCODE_TEXT, connect_raw, masked_frame};
use heartline_testing::party::large::{assert_large_queue_is_served, large_item, message_of};
use heartline_testing::party::{ADD, Outcome, PROTOCOL, PartyClient};
use heartline_testing::{PATIENCE, Socket, close_of, token};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;

use crate::HEARTLINE;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_of_five_hundred_large_climbs_is_seeded_set_and_told() {
    let server = HEARTLINE.start().await;
    assert_large_queue_is_served(&[server.address]).await;
}

#[tokio::test]
async fn an_item_that_is_too_large_is_refused_and_a_frame_that_is_too_large_ends_the_socket() {
    let server = HEARTLINE.start().await;
    let mut ana = PartyClient::connect(server.address, None).await;
    ana.joins("wall").await;
    let refused = ana.attempt(ADD, json!({ "item": large_item(1, 33 * 1024) }), PATIENCE).await;
    let expected = "Queue item too large (at most 32768 bytes)";
    let Outcome::Refused(code, message) = refused else { panic!("{refused:?}") };
    assert_eq!(code, "MESSAGE_TOO_LARGE");
    assert!(message.contains(expected), "{message}");
    ana.run(ADD, json!({ "item": large_item(1, 31 * 1024) })).await;

    let upgrade = connect_raw(server.address, "/graphql", &[PROTOCOL]).await.unwrap();
    let mut bo = Socket { stream: upgrade.stream };
    bo.send(&json!({ "type": "connection_init" })).await;
    assert_eq!(bo.json().await["type"], "connection_ack");
    let payload = vec![b' '; 6 * 1024 * 1024 + 1];
    // The server may hang up before it has read everything.
    let _ = bo.stream.write_all(&masked_frame(OPCODE_TEXT, true, &payload)).await;
    loop {
        let frame = bo.frame().await;
        if let Some((code, _)) = close_of(&frame) {
            assert_eq!(code, 1009);
            break;
        }
    }
    ana.adds(2).await;
}

#[tokio::test]
async fn a_query_of_a_hundred_thousand_levels_is_refused_and_the_process_lives() {
    const LEVELS: usize = 100_000;
    let server = HEARTLINE.start().await;
    let mut ana = PartyClient::connect(server.address, None).await;
    let nest =
        |open: &str, close: &str| format!("{}1{}", open.repeat(LEVELS), close.repeat(LEVELS));
    let nests = [
        format!("{{ session(sessionId: {}) {{ id }} }}", nest("[", "]")),
        "{".repeat(LEVELS),
        nest("(", ")"),
        // These texts are rejected by their length.
        nest("{a", "}"),
        nest("{a:", "}"),
    ];
    for query in &nests {
        let refused = ana.attempt(query, json!({}), PATIENCE).await;
        let Outcome::Refused(code, message) = refused else { panic!("{refused:?}") };
        let is_told = match code.as_str() {
            "INVALID_MESSAGE" => message.contains("nesting exceeds"),
            code => code == "MESSAGE_TOO_LARGE" && message.contains("Query too large"),
        };
        assert!(is_told, "{code}: {message}");
        let body = json!({ "query": query });
        let answer = server.http("POST", "/graphql", &token("bo"), Some(&body)).await;
        assert_eq!(answer.status, 400);
        assert!(answer.json()["errors"][0]["extensions"]["code"].is_string(), "{answer:?}");
    }
    // The same depth where a client may nest: in variables, and around the whole message.
    let holds = nest("[", "]");
    let variables = format!(
        r#"{{"id":"x","type":"subscribe","payload":{{"query":"{{a}}",
        "variables":{{"a":{holds}}}}}}}"#
    );
    let bo = PartyClient::connect(server.address, None).await;
    bo.send_text(&variables).await;
    assert_eq!(bo.closed_with().await, 4400);
    ana.joins("wall").await;
    ana.adds(1).await;
}

#[tokio::test]
async fn who_asks_too_often_over_http_is_told_when_to_ask_again() {
    let server = HEARTLINE.start_with("[party]\nquery_rate = 2\n").await;
    let question = json!({ "query": "{ session(sessionId: \"wall\") { id } }" });
    let mut answers = Vec::new();
    // Four requests at a time, while responses arrive.
    while answers.len() < 200 {
        answers.push(server.http("POST", "/graphql", &token("ana"), Some(&question)).await);
        if answers.last().is_some_and(|answer| answer.status == 429) {
            break;
        }
    }
    let refused = answers.pop().unwrap();
    assert_eq!(refused.status, 429, "{refused:?}");
    assert!(answers.len() >= 4, "a burst passes: {}", answers.len());
    assert!(answers.iter().all(|answer| answer.status == 200));
    assert!(refused.head.contains("retry-after: 1"), "{}", refused.head);
    let error = refused.json()["errors"][0].clone();
    assert_eq!(error["message"], "Rate limit exceeded. Try again in 1 seconds.");
    assert_eq!(error["extensions"], json!({ "code": "RATE_LIMITED", "retry_after_seconds": 1 }));
    // A socket has rates of its own.
    PartyClient::connect(server.address, None).await.joins("wall").await;
    let way = server.http("GET", "/join/wall", "", None).await;
    assert!([404, 429].contains(&way.status), "{way:?}");
}

#[tokio::test]
async fn the_way_into_a_session_never_leaves_the_site() {
    let server = HEARTLINE.start_with("[party]\nsite_url = \"https://site.example\"\n").await;
    let mut ana = PartyClient::connect(server.address, None).await;
    const JOIN: &str = "mutation($s: ID!, $path: String!) {
        joinSession(sessionId: $s, boardPath: $path) { boardPath } }";
    let evil = [
        "@evil.example/x",
        "//evil.example",
        "\\\\evil.example",
        "/\\evil.example",
        ".evil.example",
        "https://evil.example",
        "/a\r\nLocation: https://evil.example",
        "/\t/evil.example",
        "",
    ];
    for (number, path) in evil.iter().enumerate() {
        let session = format!("bad-{number}");
        let refused = ana.attempt(JOIN, json!({ "s": session, "path": path }), PATIENCE).await;
        assert!(
            matches!(&refused, Outcome::Refused(code, message)
            if code == "INVALID_MESSAGE" && message.contains("boardPath")),
            "{path}: {refused:?}"
        );
        let way = server.http("GET", &format!("/join/{session}"), "", None).await;
        assert_eq!(way.status, 404, "{path}");
    }
    // Every valid path redirects to the site.
    for (number, path) in
        ["/%2F%2Fevil.example", "/@evil.example", "/a?b=//evil", "/..//evil.example"]
            .iter()
            .enumerate()
    {
        let session = format!("odd-{number}");
        let joined = ana.run(JOIN, json!({ "s": session, "path": path })).await;
        assert!(joined["errors"].is_null(), "{joined}");
        let way = server
            .http_raw_open(
                format!(
                    "GET /join/{session} HTTP/1.1\r\nHost: here\r\n\
            Connection: close\r\n\r\n"
                )
                .as_bytes(),
            )
            .await;
        assert_eq!(way.status, 302, "{way:?}");
        let location = way.head.lines().find_map(|line| line.strip_prefix("location: ")).unwrap();
        let rest =
            location.strip_prefix("https://site.example/").unwrap_or_else(|| panic!("{location}"));
        assert!(!rest.starts_with('/'), "{location}");
        assert!(
            rest.contains(&format!("?backendurl=wss%3a%2f%2fhere%2fgraphql&sessionid={session}")),
            "{location}"
        );
    }
    for id in ["%2F..", "..%2f..", "a%0d%0ab", "%20", "@evil.example"] {
        let way = server.http("GET", &format!("/join/{id}"), "", None).await;
        assert_eq!(way.status, 400, "{id}: {way:?}");
    }
    // Another `Host` in the request changes only the address of the socket.
    let way = server
        .http_raw_open(
            b"GET /join/odd-1 HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n",
        )
        .await;
    assert!(way.head.contains("location: https://site.example/"), "{}", way.head);
}

#[tokio::test]
async fn wrong_types_are_named_and_nothing_of_the_inside_is() {
    let server = HEARTLINE.start().await;
    let mut ana = PartyClient::connect(server.address, None).await;
    ana.joins("wall").await;
    let wrong: [(&str, Value); 6] = [
        (ADD, json!({ "item": 7 })),
        (ADD, json!({ "item": { "uuid": "'; DROP TABLE party_archive; --", "climb": {} } })),
        (ADD, json!({})),
        (
            "{ eventsReplay(sessionId: \"wall\", sinceSequence: \"1' OR 1\") { currentSequence } }",
            json!({}),
        ),
        ("query { session(sessionId: \"a' OR '1'='1\") { id } }", json!({})),
        (
            "query($s: Int!) { eventsReplay(sessionId: \"a\", sinceSequence: $s) { incarnation } }",
            json!({ "s": -1 }),
        ),
    ];
    for (query, variables) in wrong {
        let refused = ana.attempt(query, variables, PATIENCE).await;
        let message = message_of(&refused, "INVALID_MESSAGE");
        assert!(!message.contains("SELECT") && !message.contains("panicked"), "{message}");
    }
    ana.adds(1).await;
}
