//! Why the client stopped by itself, and what to do about it.

use std::path::Path;

use heartline_client::{Draft, StopReason};
use heartline_protocol::CloseReason;

use super::view::printable;
use super::view::speech::counted;

/// Messages that are named when they had no answer.
const NAMED_MESSAGES_MAX: usize = 5;
/// Characters of each.
const EXCERPT_CHARACTERS_MAX: usize = 40;

/// A sentence for whoever sits at the terminal; none when they ended it themselves. `directory`
/// is where the secret of signed tokens comes from.
pub(super) fn explain(reason: &StopReason, directory: Option<&Path>) -> Option<String> {
    let sentence = match reason {
        StopReason::ClosedByCaller => return None,
        StopReason::ClosedByServer(reason) => closed_by_server(*reason),
        StopReason::Refused { status } => format!(
            "the server refused the connection with HTTP {status}: its configuration does not \
             allow this client"
        ),
        StopReason::TokenRefused => match directory {
            Some(directory) => format!(
                "the server refused the token: is it the server whose `heartline dev` directory \
                 is {}? Name another with --data-dir, or another server with --url",
                directory.display()
            ),
            None => "the server refused the token: has it expired, or is it for another server? \
                     `heartline token` signs one for a `heartline dev`"
                .to_owned(),
        },
        StopReason::NoToken(why) => format!("there is no token to connect with: {why}"),
    };
    Some(sentence)
}

/// What is said about messages that had no answer; none if there are none.
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
        "the server has not acknowledged {} of yours: {}{more}; /history shows what it has",
        counted(drafts.len() as u64, "message"),
        named.join(", ")
    ))
}

fn closed_by_server(reason: CloseReason) -> String {
    match reason {
        CloseReason::SessionReplaced => {
            "a newer connection took the place of this one: give each terminal its own --device, \
             unless the server allows only one session per user"
                .to_owned()
        }
        CloseReason::SessionEnded => "an operator ended this session".to_owned(),
        reason => format!("the server does not want this client back: {}", reason.as_str()),
    }
}

#[cfg(test)]
mod tests {
    use heartline_protocol::ChatId;
    use ulid::Ulid;

    use super::*;

    #[test]
    fn messages_without_an_answer_are_named() {
        let drafts = vec![Draft::new(ChatId(Ulid(1)), "hi\u{1b}[2J"); 6];
        assert_eq!(unanswered(&[]), None);
        let sentence = unanswered(&drafts[..1]).unwrap();
        let expected = "has not acknowledged 1 message of yours: \"hi\\u001b[2J\"; /history";
        assert!(sentence.contains(expected), "{sentence}");
        let sentence = unanswered(&drafts).unwrap();
        assert!(sentence.contains("6 messages") && sentence.contains(", …;"), "{sentence}");
    }

    #[test]
    fn a_refused_token_names_the_directory_that_signed_it() {
        let signed = explain(&StopReason::TokenRefused, Some(Path::new(".heartline"))).unwrap();
        assert!(signed.contains("`heartline dev` directory is .heartline?"), "{signed}");
        let given = explain(&StopReason::TokenRefused, None).unwrap();
        assert!(given.contains("has it expired"), "{given}");
    }

    #[test]
    fn every_way_to_stop_but_ones_own_is_explained() {
        assert_eq!(explain(&StopReason::ClosedByCaller, None), None);
        assert!(explain(&StopReason::Refused { status: 403 }, None).unwrap().contains("403"));
        assert!(explain(&StopReason::NoToken("why".to_owned()), None).unwrap().contains("why"));
        let replaced = StopReason::ClosedByServer(CloseReason::SessionReplaced);
        assert!(explain(&replaced, None).unwrap().contains("--device"));
        for reason in CloseReason::ALL {
            assert!(explain(&StopReason::ClosedByServer(reason), None).is_some());
        }
    }
}
