//! The message at the exit of the terminal: why the client stopped, and what to do.

use std::path::Path;

use heartline_client::{Draft, StopReason};
use heartline_protocol::CloseReason;

use super::view::message::count;
use super::view::printable;

/// Unanswered messages that are listed.
const NAMED_MESSAGES_MAX: usize = 5;
/// Characters of each listed message.
const EXCERPT_CHARACTERS_MAX: usize = 40;

/// Explains why the client stopped; none if the user ended the terminal. `directory` is the one
/// whose secret signs the tokens, if they are signed.
pub(super) fn explain(reason: &StopReason, directory: Option<&Path>) -> Option<String> {
    let sentence = match reason {
        StopReason::ClosedByCaller => return None,
        StopReason::ClosedByServer(reason) => closed_by_server(*reason),
        StopReason::Rejected { status } => format!(
            "the server rejected the connection with HTTP {status}: its configuration does not \
             allow this client"
        ),
        StopReason::TokenRejected => match directory {
            Some(directory) => format!(
                "the server rejected the token, which was signed with the secret in {}: give the \
                 directory of that server with --data-dir, or another server with --url",
                directory.display()
            ),
            None => "the server rejected the token: it may have expired or be for another server. \
                     `heartline token` signs one for a development server"
                .to_owned(),
        },
        StopReason::NoToken(reason) => format!("there is no token to connect with: {reason}"),
    };
    Some(sentence)
}

/// Lists the messages that the server has not acknowledged; none if there are none.
pub(super) fn unanswered(drafts: &[Draft]) -> Option<String> {
    if drafts.is_empty() {
        return None;
    }
    let excerpt = |draft: &Draft| {
        let excerpt: String = draft.content.chars().take(EXCERPT_CHARACTERS_MAX).collect();
        format!("\"{}\"", printable(&excerpt))
    };
    let named: Vec<_> = drafts.iter().take(NAMED_MESSAGES_MAX).map(excerpt).collect();
    let more = if drafts.len() > NAMED_MESSAGES_MAX { ", …" } else { "" };
    Some(format!(
        "the server has not acknowledged {} of yours: {}{more}; /history shows the stored ones",
        count(drafts.len() as u64, "message"),
        named.join(", ")
    ))
}

fn closed_by_server(reason: CloseReason) -> String {
    match reason {
        CloseReason::SessionReplaced => {
            "a newer connection replaced this one: give each terminal its own --device, unless \
             the server allows only one connection per user"
                .to_owned()
        }
        CloseReason::SessionEnded => {
            "an operator or the application's back end closed the connection".to_owned()
        }
        reason => format!(
            "the server closed the connection and does not allow a reconnect: {}",
            reason.as_str()
        ),
    }
}

#[cfg(test)]
mod tests {
    use heartline_protocol::ChatId;
    use ulid::Ulid;

    use super::*;

    #[test]
    fn unacknowledged_messages_are_listed() {
        let drafts = vec![Draft::new(ChatId(Ulid(1)), "hi\u{1b}[2J"); 6];
        assert_eq!(unanswered(&[]), None);
        let sentence = unanswered(&drafts[..1]).unwrap();
        let expected = "has not acknowledged 1 message of yours: \"hi\\u001b[2J\"; /history";
        assert!(sentence.contains(expected), "{sentence}");
        let sentence = unanswered(&drafts).unwrap();
        assert!(sentence.contains("6 messages") && sentence.contains(", …;"), "{sentence}");
    }

    #[test]
    fn a_rejected_token_names_the_directory_that_signed_it() {
        let signed = explain(&StopReason::TokenRejected, Some(Path::new(".heartline"))).unwrap();
        assert!(signed.contains("signed with the secret in .heartline:"), "{signed}");
        let given = explain(&StopReason::TokenRejected, None).unwrap();
        assert!(given.contains("may have expired"), "{given}");
    }

    #[test]
    fn every_reason_to_stop_except_the_users_own_is_explained() {
        assert_eq!(explain(&StopReason::ClosedByCaller, None), None);
        assert!(explain(&StopReason::Rejected { status: 403 }, None).unwrap().contains("403"));
        assert!(explain(&StopReason::NoToken("why".to_owned()), None).unwrap().contains("why"));
        let replaced = StopReason::ClosedByServer(CloseReason::SessionReplaced);
        assert!(explain(&replaced, None).unwrap().contains("--device"));
        for reason in CloseReason::ALL {
            assert!(explain(&StopReason::ClosedByServer(reason), None).is_some());
        }
    }
}
