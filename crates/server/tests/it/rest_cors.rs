//! The web pages that may read responses.

use heartline_testing::{Response, Server, token};

use crate::HEARTLINE;

const PAGE: &str = "https://app.example";

async fn server() -> Server {
    HEARTLINE.start_with("[server]\nallowed_origins = [\"https://app.example\"]\n").await
}

async fn ask(server: &Server, method: &str, path: &str, headers: &str) -> Response {
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: chat.example\r\nConnection: close\r\n{headers}\r\n"
    );
    server.http_raw(request.as_bytes()).await
}

fn of_page(page: &str) -> String {
    format!("Origin: {page}\r\nAuthorization: Bearer {}\r\n", token("ana"))
}

fn preflight(page: &str) -> String {
    format!(
        "Origin: {page}\r\nAccess-Control-Request-Method: POST\r\n\
         Access-Control-Request-Headers: authorization,content-type,idempotency-key\r\n"
    )
}

#[tokio::test]
async fn a_page_on_the_list_may_ask_and_read() {
    let server = server().await;
    for page in [PAGE, "https://chat.example"] {
        let answer = ask(&server, "OPTIONS", "/v1/chats", &preflight(page)).await;
        assert_eq!((answer.status, answer.body.as_str()), (204, ""), "{answer:?}");
        assert_eq!(answer.header("access-control-allow-origin"), Some(page));
        for method in ["get", "post", "put", "patch", "delete"] {
            let methods = answer.header("access-control-allow-methods").unwrap();
            assert!(methods.contains(method), "{answer:?}");
        }
        for header in ["authorization", "content-type", "idempotency-key"] {
            let headers = answer.header("access-control-allow-headers").unwrap();
            assert!(headers.contains(header), "{answer:?}");
        }
        assert_eq!(answer.header("access-control-allow-credentials"), None);
        for (path, status) in [("/v1/chats", 200), ("/v1/nothing", 404), ("/v1/push", 405)] {
            let answer = ask(&server, "GET", path, &of_page(page)).await;
            assert_eq!(answer.status, status, "{answer:?}");
            assert_eq!(answer.header("access-control-allow-origin"), Some(page), "{answer:?}");
            assert!(
                answer.header("access-control-expose-headers").unwrap().contains("retry-after")
            );
            assert_eq!(answer.header("vary"), Some("origin"), "{answer:?}");
        }
    }
}

#[tokio::test]
async fn a_page_elsewhere_may_not_read() {
    let server = server().await;
    for page in ["https://evil.example", "https://app.example.evil.example", "null"] {
        let answer = ask(&server, "OPTIONS", "/v1/chats", &preflight(page)).await;
        assert_eq!(answer.status, 403, "{answer:?}");
        assert_eq!(answer.header("access-control-allow-origin"), None);
        let answer = ask(&server, "GET", "/v1/chats", &of_page(page)).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        assert_eq!(answer.header("access-control-allow-origin"), None, "{answer:?}");
        assert_eq!(answer.header("vary"), Some("origin"), "{answer:?}");
    }
}

#[tokio::test]
async fn what_is_no_page_needs_nothing_of_it() {
    let server = server().await;
    let headers = format!("Authorization: Bearer {}\r\n", token("ana"));
    let answer = ask(&server, "GET", "/v1/chats", &headers).await;
    assert_eq!((answer.status, answer.header("access-control-allow-origin")), (200, None));
    // Without the marks of a preflight, OPTIONS is a method like any other.
    let answer = ask(&server, "OPTIONS", "/v1/chats", &headers).await;
    assert_eq!(answer.status, 405, "{answer:?}");
}
