//! The faults of the system with whose clients party sessions are compatible, and for each fault
//! the tests that would fail if it were present.
//!
//! Left out are the faults of its own client program (12 and 55 to 59), and 17: a replay saves
//! nothing, because a new subscription begins with the whole queue. Existing clients rely on that
//! beginning, so this server does the same.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// The number of the fault in the analysis of that system, the fault, and the tests.
const FAULTS: [(u8, &str, &[&str]); 55] = [
    (
        1,
        "concurrent edits are lost",
        &["five_hundred_edits_at_once_are_all_there_on_one_node_and_on_two"],
    ),
    (
        2,
        "setting the current climb undoes concurrent adds",
        &[
            "setting_the_current_climb_does_not_undo_concurrent_adds",
            "a_party_is_one_whatever_becomes_of_its_nodes",
        ],
    ),
    (
        3,
        "edits other than adds are not checked for conflicts",
        &["a_party_is_one_whatever_becomes_of_its_nodes"],
    ),
    (
        4,
        "a reorder moves another item than the named one",
        &[
            "a_reorder_moves_the_item_of_the_uuid_and_ignores_the_old_index",
            "a_reorder_of_an_unknown_item_moves_nothing",
        ],
    ),
    (
        5,
        "conflicts between nodes reach callers as errors",
        &["an_edit_succeeds_although_other_nodes_commit_first_many_times"],
    ),
    (6, "a sequence is used twice", &["mirroring_without_a_current_climb_is_null_and_no_event"]),
    (
        7,
        "an edit of an absent item is an event",
        &[
            "removing_an_absent_item_is_true_and_no_event",
            "replacing_an_absent_item_is_not_found_and_no_event",
        ],
    ),
    (
        8,
        "setting and adding the current climb sends no event for the item",
        &["setting_and_adding_is_two_events_with_two_sequences_and_the_added_one_comes_first"],
    ),
    (9, "nodes send events in different orders", &["no_concurrent_add_on_two_nodes_is_lost"]),
    (
        10,
        "a slow subscriber misses events",
        &["a_subscriber_who_reads_nothing_gets_the_whole_state_instead"],
    ),
    (
        11,
        "a queue has a uuid twice, or more items than its limit",
        &["no_uuid_is_in_the_queue_twice", "no_edit_exceeds_the_limit_of_the_queue"],
    ),
    (13, "a replay has gaps", &["a_replay_on_another_node_has_no_hole_or_is_the_whole_state"]),
    (
        14,
        "events carry no hash",
        &[
            "every_event_has_its_hashes_its_author_and_its_correlation_id",
            "every_delta_has_its_author_its_correlation_id_and_its_hashes",
        ],
    ),
    (
        15,
        "no hash depends on order, mirroring and content",
        &["only_the_order_hash_depends_on_order_mirroring_and_content"],
    ),
    (16, "a single node has no replay", &["a_replay_is_all_later_events_or_one_full_sync"]),
    (
        18,
        "log and state are written separately",
        &[
            "of_concurrent_commits_one_wins_each_revision",
            "a_commit_on_another_revision_changes_nothing",
        ],
    ),
    (
        19,
        "a member that has left still edits and subscribes",
        &["who_has_left_does_and_hears_nothing_more_and_the_new_leader_leads_everywhere"],
    ),
    (
        20,
        "the leader of any session ends every other session",
        &["only_the_creator_or_the_leader_ends_a_session_and_then_for_good"],
    ),
    (
        21,
        "joining replaces the account of a connection",
        &[
            "the_creator_ends_a_session_also_after_leaving_and_without_a_connection",
            "the_signed_in_user_whose_join_creates_a_session_may_end_it_from_anywhere",
        ],
    ),
    (
        22,
        "a session cannot be ended over HTTP",
        &["the_creator_ends_a_session_also_after_leaving_and_without_a_connection"],
    ),
    (
        23,
        "a new leader on another node cannot end the session",
        &["a_new_leader_on_another_node_may_end_the_session"],
    ),
    (
        24,
        "joining again changes the leader",
        &[
            "joining_again_on_the_same_socket_changes_nothing_and_keeps_the_lead",
            "joining_again_on_the_same_connection_changes_nothing",
        ],
    ),
    (
        25,
        "joining another session sends no event to the first",
        &["joining_another_session_leaves_the_first_with_events"],
    ),
    (
        26,
        "a name that was set before joining is not shown",
        &["a_name_that_was_set_before_joining_is_shown"],
    ),
    (
        27,
        "the members of a dead node stay",
        &["a_party_has_another_leader_soon_whatever_became_of_the_first"],
    ),
    (
        28,
        "members vanish after an hour",
        &[
            "the_lifetime_of_a_session_is_extended_while_it_has_members",
            "every_key_expires_and_keep_extends_it",
        ],
    ),
    (
        29,
        "a session has two leaders after four hours",
        &["one_member_leads_a_party_whose_keys_have_ended_in_redis"],
    ),
    (
        30,
        "the last member of a node makes the session inactive",
        &["a_session_is_inactive_only_when_its_last_member_on_any_node_left"],
    ),
    (
        31,
        "a node that paused loses its members",
        &[
            "a_node_that_was_taken_for_dead_adds_its_members_again",
            "a_party_is_one_whatever_becomes_of_its_nodes",
        ],
    ),
    (32, "members edit an ended session", &["an_ended_session_rejects_its_members_and_new_ones"]),
    (
        33,
        "a subscription begins without the members",
        &["a_subscription_begins_with_the_members_and_the_leader"],
    ),
    (
        34,
        "the last edits before the last leave are not archived",
        &["the_last_leave_and_the_end_are_archived_at_once"],
    ),
    (
        35,
        "the last edits before a shutdown are not archived",
        &["a_node_that_is_about_to_stop_refuses_edits_then_archives_then_closes_sockets"],
    ),
    (
        36,
        "the initial queue is lost in a race",
        &["a_hundred_first_joins_with_a_queue_each_begin_one_session_with_one_queue"],
    ),
    (
        37,
        "an ended session becomes active again",
        &["only_the_creator_or_the_leader_ends_a_session_and_then_for_good"],
    ),
    (
        38,
        "a session that changes all the time is not archived",
        &["a_session_that_changes_all_the_time_is_archived_within_a_minute"],
    ),
    (
        39,
        "a write to the archive is dropped after three failures",
        &["a_write_that_fails_is_retried_until_it_succeeds"],
    ),
    (
        40,
        "an older state overwrites a newer one in the archive",
        &[
            "an_older_state_does_not_overwrite_a_newer_one",
            "nodes_that_archive_the_same_sessions_end_at_the_newest",
        ],
    ),
    (
        41,
        "the lists of sessions grow without bound",
        &["active_sessions_are_listed_by_their_last_activity"],
    ),
    (42, "error messages contain SQL", &["nothing_of_the_inside_is_told_when_engines_are_away"]),
    (
        43,
        "a board path redirects to another site",
        &[
            "the_way_into_a_session_never_leaves_the_site",
            "a_board_path_stays_on_the_site_and_stays_the_same",
        ],
    ),
    (
        44,
        "the depth of a query does not count fragments",
        &["depth_is_counted_through_named_fragments"],
    ),
    (
        45,
        "a syntax error closes the socket",
        &["a_query_that_does_not_parse_or_is_too_deep_leaves_the_socket_open"],
    ),
    (
        46,
        "edits count against the limit of joins",
        &["joins_and_edits_are_limited_apart_from_each_other"],
    ),
    (
        47,
        "callers that are not members see members and queue",
        &["callers_that_are_not_members_see_neither_members_nor_queue"],
    ),
    (
        48,
        "messages, operations and connections have no limit",
        &[
            "an_item_that_is_too_large_is_refused_and_a_frame_that_is_too_large_ends_the_socket",
            "the_number_of_pending_operations_is_limited",
            "of_two_thousand_sockets_from_one_address_one_thousand_are_admitted",
        ],
    ),
    (
        49,
        "a subscription to another session hangs",
        &["a_subscription_that_is_not_allowed_is_refused_at_once"],
    ),
    (
        50,
        "fields of a session are null, wrong or those of the caller",
        &[
            "a_session_is_created_with_or_without_a_connection",
            "the_creator_ends_a_session_also_after_leaving_and_without_a_connection",
        ],
    ),
    (
        51,
        "subscriptions to Redis leak",
        &[
            "many_sessions_are_watched_and_unwatched_at_once_and_unsubscribed",
            "a_room_without_members_ends_and_no_longer_watches_its_session",
        ],
    ),
    (
        52,
        "a second watcher is ready too early, or never",
        &[
            "a_channel_that_nobody_waits_for_any_more_is_forgotten_unless_it_was_heard",
            "one_that_is_removed_while_it_is_waited_for_is_given_up_and_can_be_wanted_again",
        ],
    ),
    (
        53,
        "a node does not catch up after an outage",
        &[
            "a_lost_last_notification_is_found_out_without_another_edit",
            "a_party_goes_on_when_redis_comes_back_with_its_data",
        ],
    ),
    (
        54,
        "concurrent commits share the WATCH of one connection",
        &["of_concurrent_commits_one_wins_each_revision"],
    ),
    (
        60,
        "a flush forgets sessions that changed or failed during it",
        &[
            "a_session_that_changes_during_its_write_is_written_again",
            "a_write_that_fails_is_retried_until_it_succeeds",
        ],
    ),
    (
        61,
        "empty sessions stay in memory",
        &[
            "a_room_without_members_ends_and_no_longer_watches_its_session",
            "an_unused_session_leaves_memory_and_stays_in_the_file",
        ],
    ),
    (
        62,
        "the first write of a session to the archive is dropped",
        &["an_archived_session_is_read_back_whole"],
    ),
];

#[test]
fn every_fault_of_the_reference_system_has_its_tests() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut tests = BTreeSet::new();
    collect(crates, &mut tests);
    let named = FAULTS.iter().flat_map(|(_, _, named)| named.iter().copied());
    let missing: Vec<&str> = named.filter(|test| !tests.contains(*test)).collect();
    assert!(missing.is_empty(), "no such tests: {missing:#?}");
    let numbers: Vec<u8> = FAULTS.iter().map(|(number, _, _)| *number).collect();
    assert!(numbers.is_sorted_by(|left, right| left < right), "each once, in order");
    assert!(FAULTS.iter().all(|(_, _, named)| !named.is_empty()), "each has a test");
}

/// Collects the names of all tests below a directory.
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

/// The tests of a file: functions with the attribute `test`, and functions of the contract suites,
/// which run against every implementation.
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
