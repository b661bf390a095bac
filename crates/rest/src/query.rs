//! The query parameters of a request.

use std::borrow::Cow;
use std::convert::Infallible;

use axum::extract::FromRequestParts;
use heartline_gateway::Refusal;
use heartline_protocol::rest::{PAGE_ITEMS, PAGE_ITEMS_MAX};
use http::request::Parts;

use super::field;

/// The query of a request. Unknown parameters are ignored.
#[derive(Debug)]
pub(super) struct Query(String);

impl<S: Send + Sync> FromRequestParts<S> for Query {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(Self(parts.uri.query().unwrap_or_default().to_owned()))
    }
}

impl Query {
    /// The value of a parameter, which may be given once.
    pub(super) fn text(&self, name: &str) -> Result<Option<Cow<'_, str>>, Refusal> {
        let pairs = form_urlencoded::parse(self.0.as_bytes());
        let mut values = pairs.filter(|(key, _)| *key == name).map(|(_, value)| value);
        match (values.next(), values.next()) {
            (value, None) => Ok(value),
            (_, Some(_)) => Err(field::wrong(name, format!("{name} may be given once"))),
        }
    }

    /// The value of a parameter that is a whole number.
    pub(super) fn number(&self, name: &str) -> Result<Option<u64>, Refusal> {
        let Some(text) = self.text(name)? else { return Ok(None) };
        // `parse` would accept a plus sign.
        let digits = Some(text).filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
        let number = digits.and_then(|digits| digits.parse().ok());
        let wrong = || field::wrong(name, format!("{name} must be a whole number below 2^64"));
        number.map(Some).ok_or_else(wrong)
    }

    /// The most items of a page.
    pub(super) fn limit(&self) -> Result<usize, Refusal> {
        let limit = self.number("limit")?.unwrap_or(PAGE_ITEMS as u64);
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        if (1..=PAGE_ITEMS_MAX).contains(&limit) {
            Ok(limit)
        } else {
            Err(field::wrong("limit", format!("limit must be 1 to {PAGE_ITEMS_MAX}")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_digits_and_nothing_else() {
        let number = |text: &str| Query(format!("a=1&n={text}&b")).number("n");
        assert_eq!(number("0"), Ok(Some(0)));
        assert_eq!(number("%31"), Ok(Some(1)));
        assert_eq!(number("18446744073709551615"), Ok(Some(u64::MAX)));
        for bad in ["", "-1", "+1", "1e9", "1.5", "x", "%2B1", "18446744073709551616"] {
            let refusal = number(bad).unwrap_err();
            assert_eq!(refusal.details.unwrap().field.as_deref(), Some("n"), "{bad}");
        }
        assert_eq!(Query(String::new()).number("n"), Ok(None));
        assert!(Query("n=1&n=1".to_owned()).number("n").is_err());
    }

    #[test]
    fn a_limit_has_a_default_and_bounds() {
        let limit = |text: &str| Query(text.to_owned()).limit();
        assert_eq!(limit(""), Ok(50));
        assert_eq!(limit("limit=1"), Ok(1));
        assert_eq!(limit("limit=200"), Ok(200));
        for bad in ["limit=0", "limit=201", "limit=-1", "limit=1e9", "limit="] {
            assert!(limit(bad).is_err(), "{bad}");
        }
    }
}
