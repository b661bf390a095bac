//! The engine behind a store's URL.

/// An engine that stores messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StoreEngine {
    /// A file of one node.
    Sqlite,
    /// A database that nodes share.
    Postgres,
}

impl StoreEngine {
    /// The engine of a URL. A URL without a known scheme counts as a SQLite file; the parser of
    /// that engine then explains the schemes.
    pub(crate) fn of(url: &str) -> Self {
        match url.split_once(':') {
            Some(("postgres" | "postgresql", _)) => Self::Postgres,
            _ => Self::Sqlite,
        }
    }

    /// Whether several nodes can use the store at the same time.
    pub(crate) const fn is_shared(self) -> bool {
        match self {
            Self::Sqlite => false,
            Self::Postgres => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scheme_names_the_engine() {
        assert_eq!(StoreEngine::of("postgres://user@host/database"), StoreEngine::Postgres);
        assert_eq!(StoreEngine::of("postgresql://host/database"), StoreEngine::Postgres);
        for file in ["sqlite:heartline.db", "heartline.db", "postgresheartline.db", ""] {
            assert_eq!(StoreEngine::of(file), StoreEngine::Sqlite, "{file}");
        }
    }
}
