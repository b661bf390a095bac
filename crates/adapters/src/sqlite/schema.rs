//! The schema of the file and its migrations.

use rusqlite::{Connection, TransactionBehavior};

/// The `application_id` of a file of Heartline: "HLCL" in ASCII.
pub(super) const APPLICATION_ID: i32 = 0x484c_434c;

/// One script per version, in order. A script that was released is never changed.
const MIGRATIONS: [&str; 3] = [
    include_str!("migrations/0001_chats_messages_people.sql"),
    include_str!("migrations/0002_contacts_visibility.sql"),
    include_str!("migrations/0003_party.sql"),
];

/// The version that this binary reads and writes.
pub(super) const VERSION: usize = MIGRATIONS.len();

/// The origin of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    /// An empty file, or none yet.
    Empty,
    /// A Heartline store of this version.
    Heartline(usize),
    /// A database of another application.
    Foreign,
}

/// Reads the origin of a file.
pub(super) fn origin(connection: &Connection) -> rusqlite::Result<Origin> {
    let application: i32 =
        connection.pragma_query_value(None, "application_id", |row| row.get(0))?;
    let version: i64 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
    let tables: i64 =
        connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    Ok(match (application, usize::try_from(version)) {
        (APPLICATION_ID, Ok(version)) => Origin::Heartline(version),
        (0, Ok(0)) if tables == 0 => Origin::Empty,
        _ => Origin::Foreign,
    })
}

/// Migrates the file from `from` to the version of this binary. Each step is one transaction
/// together with its version number, so a kill leaves either the older or the newer schema.
pub(super) fn migrate(connection: &mut Connection, from: usize) -> rusqlite::Result<()> {
    migrate_with(connection, from, &MIGRATIONS)
}

fn migrate_with(
    connection: &mut Connection,
    from: usize,
    migrations: &[&str],
) -> rusqlite::Result<()> {
    for (done, script) in migrations.iter().enumerate().skip(from) {
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        transaction.execute_batch(script)?;
        transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
        let version = i64::try_from(done + 1).expect("there are few versions");
        transaction.pragma_update(None, "user_version", version)?;
        transaction.commit()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interrupted_migration_leaves_the_older_schema() {
        let mut connection = Connection::open_in_memory().unwrap();
        migrate_with(&mut connection, 0, &["CREATE TABLE a (x)"]).unwrap();
        let broken = ["CREATE TABLE a (x)", "CREATE TABLE b (x); CREATE TABLE a (x)"];
        migrate_with(&mut connection, 1, &broken).unwrap_err();
        assert_eq!(origin(&connection).unwrap(), Origin::Heartline(1));
        let tables = "SELECT group_concat(name) FROM sqlite_schema";
        let names: String = connection.query_row(tables, [], |row| row.get(0)).unwrap();
        assert_eq!(names, "a");

        let mended = ["CREATE TABLE a (x)", "CREATE TABLE b (x)"];
        migrate_with(&mut connection, 1, &mended).unwrap();
        assert_eq!(origin(&connection).unwrap(), Origin::Heartline(2));
    }

    #[test]
    fn a_database_of_another_application_is_recognised() {
        let connection = Connection::open_in_memory().unwrap();
        assert_eq!(origin(&connection).unwrap(), Origin::Empty);
        connection.execute_batch("CREATE TABLE cookies (x)").unwrap();
        assert_eq!(origin(&connection).unwrap(), Origin::Foreign);
    }
}
