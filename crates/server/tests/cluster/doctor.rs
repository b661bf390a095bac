//! `heartline doctor` on a cluster: clean on a sound one that is busy, and every planted fault is
//! found.

use heartline_engines::Postgres;
use heartline_testing::DoctorReport;
use tokio::sync::watch;

use crate::HEARTLINE;
use crate::nodes::{Cluster, Node, is_long};
use crate::recording_socket::RecordingSocket;
use crate::talk::talk;

/// A connection that no node has.
const NOBODYS: &str = "conn_01ARZ3NDEKTSV4RRFFQ69G5FAV";

/// The address that a node is probed at.
fn url(node: &Node) -> String {
    format!("http://{}", node.address)
}

/// Comes and goes until it is enough.
async fn come_and_go(node: &Node, user: &str, is_enough: &watch::Receiver<bool>) {
    let mut number = 0;
    while !*is_enough.borrow() {
        number += 1;
        let (mut socket, _) = node.device(user, &format!("device-{}", number % 3)).await;
        socket.send_frame(heartline_client::raw::OPCODE_CLOSE, true, &1000_u16.to_be_bytes()).await;
    }
}

#[tokio::test]
async fn a_sound_cluster_under_traffic_is_clean_time_and_again() {
    let visits = if is_long() { 20 } else { 3 };
    let cluster = Cluster::start(3).await;
    let [one, two, three] = cluster.all::<3>();
    let chat = one.create_group("ana", &["bo", "cy"]).await;
    let mut talkers = Vec::new();
    for (node, user) in [(one, "ana"), (two, "bo"), (three, "cy")] {
        talkers.push(RecordingSocket::of(node.device(user, "phone").await.0));
    }
    let (enough, is_enough) = watch::channel(false);
    let visiting = async {
        for _ in 0..visits {
            let urls = [url(one), url(two), url(three)];
            let arguments = urls.iter().flat_map(|url| ["--url", url]).collect::<Vec<_>>();
            let visit = DoctorReport::of(HEARTLINE, one, &arguments).await;
            visit.assert_clean();
            for node in [one, two, three] {
                assert_eq!(visit.verdict(&format!("node {}", node.id)).0, "pass");
            }
            assert_eq!(visit.verdict("shards").0, "pass");
            let (verdict, text) = visit.verdict("zombie_prevention");
            assert!(verdict == "pass" && text.contains("entries violates it"), "{text}");
        }
        enough.send_replace(true);
    };
    let (said, ..) = tokio::join!(
        talk(&mut talkers, &chat, &is_enough),
        visiting,
        come_and_go(two, "dee", &is_enough),
        come_and_go(three, "dee", &is_enough),
    );
    assert!(said.len() > 10 * visits, "there was traffic: {}", said.len());
}

/// Commands that plant a fault, the check that must find it, and what its line must name.
type Plant<'a> = (&'a [&'a [&'a str]], &'a str, &'a [&'a str]);

#[tokio::test]
async fn every_planted_contradiction_is_found_and_its_key_named() {
    let cluster = Cluster::start(1).await;
    let [node] = cluster.all::<1>();
    let (_socket, connection) = node.device("ana", "phone").await;
    DoctorReport::of(HEARTLINE, node, &[]).await.assert_clean();
    let id = format!("{NOBODYS}_0");
    let zoe = format!("connection:{id}");
    let lease = format!("zoe/{}/{id}", node.id);
    let fields = format!("chat/{}/phone/1", node.id);
    let ghost: &[&str] = &["HSET", "user_servers:zoe", "ghost-1", "1"];
    let plants: &[Plant<'_>] = &[
        (
            &[&["PERSIST", "user_connections:ana"]],
            "routing_ttl_bounded",
            &["user_connections:ana: it never ends", "EXPIRE"],
        ),
        (
            &[ghost, &["EXPIRE", "user_servers:zoe", "600"]],
            "zombie_prevention",
            &["user_servers:zoe: it leads to ghost-1, which does not announce itself"],
        ),
        (
            &[
                &["HSET", "user_connections:zoe", &id, &fields],
                &["EXPIRE", "user_connections:zoe", "600"],
            ],
            "zombie_prevention",
            &["user_connections:zoe", "has no lease"],
        ),
        (
            &[&["HSET", &zoe, "user", "zoe", "node", &node.id], &["EXPIRE", &zoe, "600"]],
            "conn_id_uniqueness",
            &[&zoe, "is missing in user_connections"],
        ),
        (
            &[
                &["HSET", "user_presence:zoe", "status", "online"],
                &["EXPIRE", "user_presence:zoe", "600"],
            ],
            "presence_derives_from_connections",
            &["user_presence:zoe: online without a lease"],
        ),
        (
            &[&["ZADD", "presence:leases:0", "99999999999999", &lease]],
            "routing_ttl_bounded",
            &["longer than a lease"],
        ),
    ];
    for (commands, invariant, words) in plants {
        for command in *commands {
            cluster.redis.command(command);
        }
        DoctorReport::of(HEARTLINE, node, &[]).await.assert_failed(invariant, words);
        for key in ["user_servers", "user_connections", "user_presence"] {
            cluster.redis.command(&["DEL", &format!("{key}:zoe")]);
        }
        cluster.redis.command(&["DEL", &zoe]);
        cluster.redis.command(&["ZREM", "presence:leases:0", &lease]);
        cluster.redis.command(&["EXPIRE", "user_connections:ana", "600"]);
    }
    assert_eq!(connection.user, "ana");
    DoctorReport::of(HEARTLINE, node, &[]).await.assert_clean();
}

#[tokio::test]
async fn a_halted_chat_wrong_settings_and_other_shards_are_found() {
    let cluster = Cluster::start(1).await;
    let [node] = cluster.all::<1>();
    let chat = node.create_group("ana", &["bo"]).await;
    let file = node.data().parent().unwrap().join("heartline.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    let store = text.lines().find_map(|line| line.strip_prefix("url = \"postgres")).unwrap();
    let store = format!("postgres{}", store.split("&pool_size").next().unwrap());
    let postgres = Postgres::shared();
    postgres.sql(&store, "UPDATE heartline.chats SET halted = true");
    let visit = DoctorReport::of(HEARTLINE, node, &[]).await;
    visit.assert_failed("halted chats", &[&chat, &format!("repair counter {chat} --config")]);
    postgres.sql(&store, "UPDATE heartline.chats SET halted = false");

    cluster.redis.command(&["CONFIG", "SET", "maxmemory", "1gb"]);
    cluster.redis.command(&["CONFIG", "SET", "maxmemory-policy", "volatile-ttl"]);
    let visit = DoctorReport::of(HEARTLINE, node, &[]).await;
    visit.assert_failed("redis settings", &["maxmemory-policy", "volatile-ttl", "noeviction"]);
    cluster.redis.command(&["CONFIG", "SET", "maxmemory-policy", "noeviction"]);

    std::fs::write(&file, format!("{text}[routing]\nshards = 50\n")).unwrap();
    let visit = DoctorReport::of(HEARTLINE, node, &[]).await;
    visit.assert_failed("shards", &["the nodes use 100", "set routing.shards to 100"]);
    std::fs::write(&file, text).unwrap();

    cluster.stop_redis();
    DoctorReport::of(HEARTLINE, node, &[])
        .await
        .assert_failed("redis", &["does not answer", "correct redis.url"]);
}
