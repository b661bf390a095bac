//! The PostgreSQL engine survives restarts and pauses, and removes its files.

use heartline_engines::Postgres;

#[test]
fn a_cluster_keeps_committed_data_after_a_kill() {
    let postgres = Postgres::start();
    let url = postgres.create_database("kept");
    postgres.sql(&url, "CREATE TABLE t (x int); INSERT INTO t VALUES (1), (2)");
    postgres.stop();
    postgres.restart();
    assert_eq!(postgres.sql(&url, "SELECT x FROM t ORDER BY x"), "1\n2");
    assert_eq!(postgres.sql(&url, "SHOW fsync"), "on");
}

#[test]
fn a_paused_cluster_can_be_dropped() {
    let postgres = Postgres::start_with(&[("work_mem", "5MB")]);
    let url = postgres.url();
    assert_eq!(postgres.sql(&url, "SHOW work_mem"), "5MB");
    let directory = postgres.sql(&url, "SHOW data_directory");
    postgres.pause();
    drop(postgres);
    assert!(!std::path::Path::new(&directory).exists());
}
