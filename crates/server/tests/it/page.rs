//! The page at `/`, and who may sign in by name.

use heartline_testing::{Response, SECRET, Server};
use serde_json::{Value, json};

use crate::HEARTLINE;

/// A request with these headers besides the usual ones.
async fn get(server: &Server, path: &str, headers: &str) -> Response {
    let request =
        format!("GET {path} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n{headers}\r\n");
    server.http_raw(request.as_bytes()).await
}

/// Signs in with these headers.
async fn sign_in(server: &Server, headers: &str, body: &Value) -> Response {
    let body = body.to_string();
    let request = format!(
        "POST /dev/token HTTP/1.1\r\nConnection: close\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\n{headers}\r\n{body}",
        body.len()
    );
    server.http_raw(request.as_bytes()).await
}

async fn start_dev() -> Server {
    let directory = HEARTLINE.scratch();
    let mut command = HEARTLINE.command();
    command.args(["dev", "--listen", "127.0.0.1:0", "--data-dir"]).arg(directory.join("data"));
    command.env("HEARTLINE__AUTH__HMAC_SECRET", SECRET);
    Server::spawn(command, directory).await
}

#[tokio::test]
async fn a_browser_gets_the_page_and_others_a_few_words() {
    let server = HEARTLINE.start().await;
    let words = get(&server, "/", "").await;
    assert!(words.body.starts_with("Heartline"), "{words:?}");
    let page = get(&server, "/", "Accept: text/html,*/*\r\n").await;
    assert!(page.head.contains("content-type: text/html"), "{page:?}");
    assert!(page.head.contains("content-security-policy: default-src 'self'"), "{page:?}");
    for file in ["/page/app.js", "/page/app.css", "/page/icon.svg"] {
        assert!(page.body.contains(file), "{file}");
        let answer = get(&server, file, "").await;
        assert_eq!(answer.status, 200, "{file}");
        let tag = answer.head.lines().find_map(|line| line.strip_prefix("etag: ")).unwrap();
        let again = get(&server, file, &format!("If-None-Match: {tag}\r\n")).await;
        assert_eq!((again.status, again.body.as_str()), (304, ""), "{file}");
    }
    assert_eq!(get(&server, "/page/../Cargo.toml", "").await.status, 404);
}

#[tokio::test]
async fn a_name_is_enough_in_development_and_nowhere_else() {
    let server = HEARTLINE.start().await;
    let (here, ana) = ("Host: 127.0.0.1\r\n", json!({ "user_id": "ana" }));
    assert_eq!(get(&server, "/page/node.json", "").await.json()["sign_in"], "token");
    let refused = sign_in(&server, here, &ana).await;
    assert_eq!((refused.status, &refused.json()["error"]["code"]), (404, &json!("NOT_FOUND")));

    let server = start_dev().await;
    assert_eq!(get(&server, "/page/node.json", "").await.json()["sign_in"], "name");
    let signed_in = sign_in(&server, here, &ana).await;
    assert_eq!(signed_in.status, 200, "{signed_in:?}");
    let token = signed_in.json()["token"].as_str().unwrap().to_owned();
    let me = server.http("GET", "/v1/users/me", &token, None).await;
    assert_eq!(me.json()["user_id"], "ana");
    for headers in ["Host: evil.example\r\n", "Host: 127.0.0.1\r\nOrigin: http://evil.example\r\n"]
    {
        let refused = sign_in(&server, headers, &ana).await;
        assert_eq!((refused.status, &refused.json()["error"]["code"]), (403, &json!("FORBIDDEN")));
    }
    for (field, value) in [("ttl_seconds", json!(0)), ("user_id", json!("a b"))] {
        let mut body = ana.clone();
        body[field] = value;
        let refused = sign_in(&server, here, &body).await;
        assert_eq!(refused.status, 400, "{refused:?}");
        assert_eq!(refused.json()["error"]["details"]["field"], field);
    }
}
