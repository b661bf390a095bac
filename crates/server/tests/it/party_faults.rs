//! The faults of the system whose clients parties are compatible with, and the test that holds each
//! of them off. Those of its own client program are left out.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// The fault by its number in the analysis of that system, what went wrong, and the test.
const FAULTS: [(u8, &str, &str); 56] = [
    (
        1,
        "concurrent edits are lost",
        "five_hundred_edits_at_once_are_all_there_on_one_node_and_on_two",
    ),
    (
        2,
        "setting the current climb undoes adds",
        "setting_the_current_climb_does_not_undo_concurrent_adds",
    ),
    (3, "some edits do not look at what is there", "every_copy_agrees_and_every_rule_holds"),
    (
        4,
        "a reorder moves another item",
        "a_reorder_moves_the_item_of_the_uuid_and_ignores_the_old_index",
    ),
    (5, "conflicts are shown to users", "no_concurrent_add_on_two_nodes_is_lost"),
    (6, "a sequence is used twice", "mirroring_without_a_current_climb_is_null_and_no_event"),
    (
        7,
        "an edit of what is absent is an event",
        "replacing_an_absent_item_is_not_found_and_no_event",
    ),
    (
        8,
        "set-and-add does not tell of the item",
        "setting_and_adding_is_two_events_with_two_sequences_and_the_added_one_comes_first",
    ),
    (
        9,
        "nodes tell in different orders",
        "everybody_in_a_session_sees_the_same_queue_in_the_same_order",
    ),
    (
        10,
        "a slow subscriber misses events",
        "a_subscriber_who_reads_nothing_gets_the_whole_state_instead",
    ),
    (11, "uuids twice, and queues beyond the limit", "no_edit_exceeds_the_limit_of_the_queue"),
    (13, "a replay has holes", "a_replay_on_another_node_has_no_hole_or_is_the_whole_state"),
    (14, "deltas carry no hash", "every_event_has_its_hashes_its_author_and_its_correlation_id"),
    (
        15,
        "the hash does not see order and content",
        "only_the_order_hash_depends_on_order_mirroring_and_content",
    ),
    (16, "no replay on a node that is alone", "a_replay_is_all_later_events_or_one_full_sync"),
    (17, "a replay is never better than a whole state", "a_replay_has_all_later_events"),
    (18, "log and state are written apart", "a_step_is_taken_only_from_where_the_session_is"),
    (
        19,
        "who has left edits and listens on",
        "who_has_left_does_and_hears_nothing_more_and_the_new_leader_leads_everywhere",
    ),
    (
        20,
        "any leader ends any session",
        "only_the_creator_or_the_leader_ends_a_session_and_then_for_good",
    ),
    (
        21,
        "joining overwrites the account",
        "the_signed_in_user_whose_join_creates_a_session_may_end_it_from_anywhere",
    ),
    (
        22,
        "nobody may end over HTTP",
        "the_creator_ends_a_session_also_after_leaving_and_without_a_connection",
    ),
    (
        23,
        "a new leader on another node is refused",
        "a_new_leader_on_another_node_may_end_the_session",
    ),
    (
        24,
        "joining again hands the lead away",
        "joining_again_on_the_same_socket_changes_nothing_and_keeps_the_lead",
    ),
    (25, "switching sessions is silent", "joining_another_session_leaves_the_first_with_events"),
    (26, "a name that was set is not shown", "a_name_that_was_set_before_joining_is_shown"),
    (27, "a dead node's members stay", "the_members_of_a_dead_node_are_removed_and_another_leads"),
    (28, "members vanish after an hour", "every_key_ends_by_itself_and_keeping_puts_that_off"),
    (29, "two leaders after four hours", "one_member_leads_a_party_whose_keys_have_ended_in_redis"),
    (
        30,
        "the last member of a node ends activity",
        "a_session_is_inactive_only_when_its_last_member_on_any_node_left",
    ),
    (
        31,
        "a node that paused loses its members",
        "a_node_that_was_taken_for_dead_registers_its_sockets_again",
    ),
    (32, "an ended session is edited on", "an_ended_session_rejects_its_members_and_new_ones"),
    (
        33,
        "no roster when one begins to listen",
        "a_subscription_begins_with_the_members_and_the_leader",
    ),
    (
        34,
        "the last leave forgets the last edits",
        "the_last_leave_and_the_end_are_archived_at_once",
    ),
    (
        35,
        "a stop forgets the last edits",
        "a_node_that_is_about_to_stop_refuses_edits_then_archives_then_closes_sockets",
    ),
    (
        36,
        "a seed is lost in a race",
        "a_hundred_first_joins_with_a_queue_each_begin_one_session_with_one_queue",
    ),
    (
        37,
        "an ended session comes back",
        "only_the_creator_or_the_leader_ends_a_session_and_then_for_good",
    ),
    (
        38,
        "a busy session is not archived",
        "a_session_that_changes_all_the_time_is_archived_within_a_minute",
    ),
    (39, "the archive is given up on", "a_write_that_is_cancelled_is_left_to_the_last_flush"),
    (
        40,
        "an older state overwrites a newer one",
        "nodes_that_archive_the_same_sessions_end_at_the_newest",
    ),
    (
        41,
        "indexes grow without bound",
        "active_sessions_are_those_with_a_sign_of_life_the_oldest_first",
    ),
    (42, "SQL reaches clients", "nothing_of_the_inside_is_told_when_engines_are_away"),
    (43, "a redirect leaves the site", "the_way_into_a_session_never_leaves_the_site"),
    (44, "depth is hidden in fragments", "depth_is_counted_through_named_fragments"),
    (
        45,
        "a syntax error ends the socket",
        "a_query_that_does_not_parse_or_is_too_deep_leaves_the_socket_open",
    ),
    (46, "edits use up joins", "joins_and_edits_are_limited_apart_from_each_other"),
    (
        47,
        "strangers see members and queue",
        "callers_that_are_not_members_see_neither_members_nor_queue",
    ),
    (
        48,
        "no bounds of messages and operations",
        "an_item_that_is_too_large_is_refused_and_a_frame_that_is_too_large_ends_the_socket",
    ),
    (49, "a refused subscription hangs", "a_subscription_that_is_not_allowed_is_refused_at_once"),
    (50, "fields are null, wrong or an echo", "a_session_is_created_with_or_without_a_connection"),
    (
        51,
        "subscriptions to Redis leak",
        "many_are_watched_and_left_at_once_and_what_is_left_is_not_heard_and_not_subscribed",
    ),
    (
        52,
        "a subscriber is told too early, or is deaf",
        "from_when_watching_answers_every_step_is_told_in_order",
    ),
    (
        53,
        "nothing is caught up after an outage",
        "a_lost_last_notification_is_found_out_without_another_edit",
    ),
    (54, "WATCH on a shared connection", "of_many_who_commit_at_once_each_step_is_taken_by_one"),
    (
        60,
        "a flush forgets what came meanwhile",
        "a_session_that_changes_during_its_write_is_written_again",
    ),
    (61, "empty sessions stay in memory", "what_nobody_uses_leaves_memory_and_stays_in_the_file"),
    (62, "a write before its row is dropped", "an_archived_session_is_read_back_whole"),
];

#[test]
fn every_fault_of_the_reference_system_is_held_off_by_a_test() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut tests = BTreeSet::new();
    collect(crates, &mut tests);
    let is_missing = |test: &&str| !tests.contains(*test);
    let missing: Vec<&str> = FAULTS.iter().map(|(_, _, test)| *test).filter(is_missing).collect();
    assert!(missing.is_empty(), "no such tests: {missing:#?}");
    let numbers: Vec<u8> = FAULTS.iter().map(|(number, _, _)| *number).collect();
    assert!(numbers.is_sorted_by(|left, right| left < right), "each once, in order");
}

/// Notes the names of all tests below a directory.
fn collect(directory: &Path, tests: &mut BTreeSet<String>) {
    let entries = fs::read_dir(directory).unwrap().filter_map(Result::ok);
    for path in entries.map(|entry| entry.path()) {
        if path.is_dir() {
            collect(&path, tests);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            tests.extend(names(&path));
        }
    }
}

/// The functions of a file that a test runs: those with the attribute `test`, and those of the
/// contract suites, which every implementation is put through.
fn names(path: &Path) -> Vec<String> {
    let text = fs::read_to_string(path).unwrap();
    let mut is_test = path.to_string_lossy().contains("/contract/");
    let is_contract = is_test;
    let mut names = Vec::new();
    for line in text.lines().map(str::trim_start) {
        if line.starts_with("#[test]") || line.starts_with("#[tokio::test") {
            is_test = true;
        }
        let line = line.strip_prefix("async ").unwrap_or(line);
        let Some(rest) = line.strip_prefix("fn ") else { continue };
        if is_test {
            names.extend(rest.split(['(', '<']).next().map(str::to_owned));
        }
        is_test = is_contract;
    }
    names
}
