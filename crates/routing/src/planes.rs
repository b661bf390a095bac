//! The planes that a node runs, as it announces them.

use std::fmt::{self, Display};
use std::str::FromStr;

/// A part of a node that can run on nodes of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Plane {
    /// Holds connections, and delivers to them.
    Gateway,
    /// Stores messages, announces them and serves REST.
    Ingest,
    /// Consumes events and sends envelopes to the nodes of their audience.
    Fanout,
}

impl Plane {
    /// Every plane, in the order in which a message passes them.
    pub const ALL: [Self; 3] = [Self::Gateway, Self::Ingest, Self::Fanout];

    /// The name in a configuration and in a node's record.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Gateway => "gateway",
            Self::Ingest => "ingest",
            Self::Fanout => "fanout",
        }
    }
}

/// A set of planes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Planes([bool; 3]);

impl Planes {
    /// Every plane.
    pub const ALL: Self = Self([true; 3]);

    /// Whether the set has this plane.
    pub const fn contains(self, plane: Plane) -> bool {
        self.0[plane as usize]
    }
}

impl Display for Planes {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let planes = Plane::ALL.into_iter().filter(|plane| self.contains(*plane));
        let names: Vec<&str> = planes.map(Plane::as_str).collect();
        formatter.write_str(&names.join(","))
    }
}

/// A text that names no set of planes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidPlanes {
    /// The name of no plane.
    #[error("\"{0}\" is not a plane; the planes are gateway, ingest and fanout")]
    Unknown(String),
    /// No name at all.
    #[error("name at least one of the planes gateway, ingest and fanout")]
    Empty,
}

impl FromStr for Planes {
    type Err = InvalidPlanes;

    /// Reads names that are separated by commas, in any order.
    fn from_str(text: &str) -> Result<Self, InvalidPlanes> {
        let mut planes = Self([false; 3]);
        for name in text.split(',').map(str::trim).filter(|name| !name.is_empty()) {
            let plane = Plane::ALL.into_iter().find(|plane| plane.as_str() == name);
            let plane = plane.ok_or_else(|| InvalidPlanes::Unknown(name.to_owned()))?;
            planes.0[plane as usize] = true;
        }
        if planes.0 == [false; 3] { Err(InvalidPlanes::Empty) } else { Ok(planes) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn planes_are_read_as_they_are_written() {
        assert_eq!(Planes::ALL.to_string(), "gateway,ingest,fanout");
        for text in ["gateway", "ingest,fanout", "gateway,ingest,fanout"] {
            assert_eq!(text.parse::<Planes>().unwrap().to_string(), text);
        }
        assert_eq!(" fanout , gateway ".parse::<Planes>().unwrap().to_string(), "gateway,fanout");
    }

    #[test]
    fn a_wrong_name_is_refused_with_the_right_ones() {
        let unknown = "gateway,relay".parse::<Planes>().unwrap_err();
        assert_eq!(unknown, InvalidPlanes::Unknown("relay".to_owned()));
        assert!(unknown.to_string().contains("gateway, ingest and fanout"));
        assert_eq!(" ,".parse::<Planes>(), Err(InvalidPlanes::Empty));
    }
}
