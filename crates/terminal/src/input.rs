//! Reads lines of bounded length.

use std::io;

use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};

/// Bytes of the longest line that is accepted: more than any server accepts, so that a user can
/// send a frame that is too large.
const LINE_BYTES_MAX: usize = 1024 * 1024;

/// A typed line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Typed {
    /// A line without its end.
    Line(String),
    /// A line over the limit, which is dropped.
    TooLong,
    /// A line that is not UTF-8.
    NotText,
}

/// Reads lines. [`Input::next`] is cancel-safe: bytes that it has read are kept for the next call.
#[derive(Debug)]
pub(super) struct Input<R> {
    reader: BufReader<R>,
    line: Vec<u8>,
    is_too_long: bool,
}

impl<R: AsyncRead + Unpin> Input<R> {
    /// The lines of a reader.
    pub(super) fn new(reader: R) -> Self {
        Self { reader: BufReader::new(reader), line: Vec::new(), is_too_long: false }
    }

    /// The next line; none at the end of input. The last line needs no line end.
    pub(super) async fn next(&mut self) -> io::Result<Option<Typed>> {
        loop {
            let available = self.reader.fill_buf().await?;
            if available.is_empty() {
                let is_end = self.line.is_empty() && !self.is_too_long;
                return Ok((!is_end).then(|| self.finish_line()));
            }
            let end = available.iter().position(|byte| *byte == b'\n');
            let part = &available[..end.unwrap_or(available.len())];
            if self.is_too_long || self.line.len() + part.len() > LINE_BYTES_MAX {
                self.is_too_long = true;
                self.line.clear();
            } else {
                self.line.extend_from_slice(part);
            }
            let consumed = part.len() + usize::from(end.is_some());
            self.reader.consume(consumed);
            if end.is_some() {
                return Ok(Some(self.finish_line()));
            }
        }
    }

    fn finish_line(&mut self) -> Typed {
        let mut line = std::mem::take(&mut self.line);
        if std::mem::take(&mut self.is_too_long) {
            return Typed::TooLong;
        }
        if line.last() == Some(&b'\r') {
            line.pop();
        }
        String::from_utf8(line).map_or(Typed::NotText, Typed::Line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn all(bytes: &[u8]) -> Vec<Typed> {
        let mut input = Input::new(bytes);
        let mut typed = Vec::new();
        while let Some(next) = input.next().await.unwrap() {
            typed.push(next);
        }
        typed
    }

    fn line(text: &str) -> Typed {
        Typed::Line(text.to_owned())
    }

    #[tokio::test]
    async fn lines_have_no_line_end_and_the_last_one_needs_none() {
        assert_eq!(all(b"").await, []);
        assert_eq!(all(b"a\r\n\n b ").await, [line("a"), line(""), line(" b ")]);
    }

    #[tokio::test]
    async fn a_too_long_line_is_dropped_and_the_next_one_is_read() {
        let longest = "x".repeat(LINE_BYTES_MAX);
        let text = format!("{longest}\n{longest}y\nb\n{longest}{longest}{longest}");
        let expected = [line(&longest), Typed::TooLong, line("b"), Typed::TooLong];
        assert_eq!(all(text.as_bytes()).await, expected);
    }

    #[tokio::test]
    async fn a_line_that_is_not_utf8_is_reported() {
        assert_eq!(all(b"\xff\nb").await, [Typed::NotText, line("b")]);
    }
}
