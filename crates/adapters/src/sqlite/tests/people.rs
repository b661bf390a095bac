use std::time::Duration;

use heartline_durability::{Actor, ChatEdit, Chats, Contacts, People, Privacy, Sight};
use heartline_fanout::Audiences;
use heartline_protocol::server_frame::Role;
use heartline_runtime::Clock;
use rusqlite::params;

use super::scratch::{Scratch, group, message, user};
use crate::append_all::AppendAll;
use crate::sqlite::{companions, contacts, repair};

#[tokio::test]
async fn reading_users_writes_no_rows() {
    let scratch = Scratch::new();
    let store = scratch.open();
    let (ana, bo) = (user("ana"), user("bo"));
    store.profile(&ana).await.unwrap();
    store.visibility(&ana).await.unwrap();
    store.contacts(&ana, Some(&bo), 9).await.unwrap();
    store.remove_contact(&ana, &bo).await.unwrap();
    let sight = Sight { observer_id: ana.clone(), user_id: bo.clone() };
    store.relations(vec![sight]).await.unwrap();
    store.companions(&[ana.clone(), bo], Duration::from_secs(1), 9).await.unwrap();
    store.delete_user(&ana).await.unwrap();
    let count = "SELECT count(*) FROM users";
    let users: i64 = scratch.shell().query_row(count, [], |row| row.get(0)).unwrap();
    assert_eq!(users, 0);
}

#[tokio::test]
async fn a_chat_is_active_for_exactly_the_given_time() {
    let scratch = Scratch::new();
    let store = scratch.open();
    let chat_id = group(&store, "ana").await;
    let add = ChatEdit::Add { user_id: user("bo"), role: Role::Member };
    store.edit(chat_id, Actor::Service, add, None).await.unwrap().unwrap();
    for name in ["first", "second"] {
        store.append_all(vec![message(chat_id, "ana", name)]).await.unwrap().remove(0).unwrap();
    }
    let set_age = |name: &str, age: Duration| {
        let at = Clock::system().wall().minus(age);
        let sql = "UPDATE messages SET created_at = ?2 WHERE client_message_id = ?1";
        let at = i64::try_from(at.unix_ms).unwrap();
        scratch.shell().execute(sql, params![name, at]).unwrap();
    };
    let day = Duration::from_secs(24 * 60 * 60);
    let is_companion = async || {
        let found = store.companions(&[user("ana")], day, 100).await.unwrap();
        found == [[user("bo")]]
    };
    set_age("first", 2 * day);
    assert!(is_companion().await, "the newest message decides");
    set_age("second", day.saturating_sub(Duration::from_secs(60)));
    assert!(is_companion().await);
    set_age("second", day + Duration::from_secs(1));
    assert!(!is_companion().await);
}

#[test]
fn reading_a_relation_uses_an_index() {
    let scratch = Scratch::new();
    drop(scratch.open());
    let shell = scratch.shell();
    let plan = |sql: &str| -> String {
        let mut statement = shell.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
        let values = statement.parameter_count();
        let values = (0..values).map(|_| 1_i64).collect::<Vec<_>>();
        let values = rusqlite::params_from_iter(values);
        let lines = statement.query_map(values, |row| row.get::<_, String>(3)).unwrap();
        lines.map(|line| line.unwrap() + "\n").collect()
    };
    for sql in [contacts::RELATION, companions::CHATS, companions::NEWEST, contacts::OF_USER] {
        let plan = plan(sql);
        assert!(plan.contains("SEARCH") && !plan.contains("SCAN"), "{sql}\n{plan}");
    }
    let plan = plan(repair::HALTED);
    assert!(plan.contains("INDEX chats_halted"), "{plan}");
}
