//! What a typed line means.

use super::view::printable;

/// Characters of a line that are repeated to explain it.
const ECHO_CHARACTERS_MAX: usize = 40;

/// What `/help` says.
pub(super) const HELP: &str = "\
{\"type\":…}   a JSON object is sent to the server as it is
/heartbeat   send a heartbeat and show its answer
/refresh     offer the server a newer token
/drop        break the connection, as a failing network would; the client comes back
/quit        close the connection and end; so do Ctrl-C and the end of input
/help        show this
Lines begin with the time in UTC; <- came from the server, -> went to it.";

/// A line, understood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Line {
    /// Nothing but space.
    Empty,
    /// To be sent as it is.
    Frame(String),
    Heartbeat,
    Refresh,
    Drop,
    Quit,
    Help,
    /// Nothing of these, in a sentence.
    Unknown(String),
}

/// Understands a line.
pub(super) fn parse(text: &str) -> Line {
    let text = text.trim();
    match text {
        "" => Line::Empty,
        "/heartbeat" => Line::Heartbeat,
        "/refresh" => Line::Refresh,
        "/drop" => Line::Drop,
        "/quit" | "/exit" => Line::Quit,
        "/help" | "/?" => Line::Help,
        _ if text.starts_with('{') => Line::Frame(text.to_owned()),
        _ => Line::Unknown(explain(text)),
    }
}

fn explain(text: &str) -> String {
    let mut echo: String = text.chars().take(ECHO_CHARACTERS_MAX).collect();
    if echo.len() < text.len() {
        echo.push('…');
    }
    let echo = printable(&echo);
    if text.starts_with('/') {
        format!("there is no command {echo}; /help shows those that there are")
    } else {
        format!(
            "{echo} is neither a frame nor a command: type a JSON object such as \
             {{\"type\":\"heartbeat\"}}, or /help"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_understood_with_space_around_them() {
        assert_eq!(parse(" /heartbeat\t"), Line::Heartbeat);
        assert_eq!(parse("/refresh"), Line::Refresh);
        assert_eq!(parse("/drop"), Line::Drop);
        assert_eq!(parse("/quit"), Line::Quit);
        assert_eq!(parse("/help"), Line::Help);
        assert_eq!(parse(" \t "), Line::Empty);
    }

    #[test]
    fn every_command_of_the_help_is_one() {
        let commands = HELP.lines().filter(|line| line.starts_with('/'));
        for command in commands.filter_map(|line| line.split_whitespace().next()) {
            assert!(!matches!(parse(command), Line::Unknown(_)), "{command}");
        }
    }

    #[test]
    fn what_begins_like_an_object_is_sent_as_it_is() {
        for text in [r#"{"type":"heartbeat"}"#, "{", "{not json", r#"{ "a" : 1 } x"#] {
            assert_eq!(parse(text), Line::Frame(text.to_owned()));
        }
    }

    #[test]
    fn anything_else_explains_itself() {
        let Line::Unknown(sentence) = parse("hello") else { panic!("hello is no command") };
        assert!(sentence.starts_with("hello is neither a frame nor a command"), "{sentence}");
        let Line::Unknown(sentence) = parse("/heartbeats now") else { panic!("it is no command") };
        assert!(sentence.contains("no command /heartbeats now; /help"), "{sentence}");
    }

    #[test]
    fn an_odd_line_cannot_disturb_the_terminal() {
        let odd = format!("\u{1b}[2J{}", "é".repeat(100_000));
        let Line::Unknown(sentence) = parse(&odd) else { panic!("it is no command") };
        assert!(sentence.starts_with("\\u001b[2Jéé"), "{sentence}");
        assert!(sentence.len() < 300, "{sentence}");
    }
}
