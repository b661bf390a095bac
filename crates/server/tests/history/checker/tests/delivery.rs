//! Faults in deliveries, replies and the ends of connections.

use std::collections::HashSet;

use super::model::NODES;
use super::{STEPS, acked, caught, log, valid_history};
use crate::checker::{Rule, check};
use crate::history::{End, Entry, Event, Fault};

/// Two pushes of one chat that follow each other on one connection.
fn neighbours(history: &[Entry]) -> Option<(usize, usize)> {
    let pushes: Vec<_> = history
        .iter()
        .enumerate()
        .filter_map(|(position, entry)| match &entry.event {
            Event::Pushed { connection, message } => {
                Some((position, *connection, message.key.chat.clone()))
            }
            _ => None,
        })
        .collect();
    pushes.iter().enumerate().find_map(|(index, first)| {
        let second =
            pushes[index + 1..].iter().find(|next| (next.1, &next.2) == (first.1, &first.2));
        second.map(|second| (first.0, second.0))
    })
}

#[test]
fn pushes_that_change_places_are_caught() {
    caught(Rule::PushOutOfOrder, |history| {
        let (first, second) = neighbours(history)?;
        let (a, b) = (history[first].event.clone(), history[second].event.clone());
        (history[first].event, history[second].event) = (b, a);
        Some(())
    });
}

#[test]
fn a_push_that_comes_twice_is_caught() {
    caught(Rule::PushOutOfOrder, |history| {
        let (first, _) = neighbours(history)?;
        history.insert(first, history[first].clone());
        Some(())
    });
}

#[test]
fn one_push_with_other_content_is_caught() {
    caught(Rule::ReadersDisagree, |history| {
        let (first, _) = neighbours(history)?;
        if let Event::Pushed { message, .. } = &mut history[first].event {
            message.hash ^= 1;
        }
        Some(())
    });
}

#[test]
fn a_reader_to_whom_a_sequence_is_another_message_is_caught() {
    caught(Rule::ReadersDisagree, |history| {
        let last = history.len() - 1;
        let Event::FinalRead { messages, .. } = &mut history[last].event else { return None };
        let (first, second) = (messages[0].key.clone(), messages[1].key.clone());
        (messages[0].key, messages[1].key) = (second, first);
        Some(())
    });
}

#[test]
fn a_final_read_that_leaves_something_out_is_caught() {
    caught(Rule::ReaderIncomplete, |history| {
        let last = history.len() - 1;
        let Event::FinalRead { messages, .. } = &mut history[last].event else { return None };
        messages.pop().map(|_| ())
    });
}

/// Takes the last message of a chat away from one client, as far as it was pushed or paged to it.
fn deprive(history: &mut Vec<Entry>) -> Option<()> {
    let last = log(history).pop()?;
    let client = history.iter().find_map(|entry| match &entry.event {
        Event::Quiet { client } if *client != last.key.sender => Some(client.clone()),
        _ => None,
    })?;
    let connections: Vec<u64> = history
        .iter()
        .filter_map(|entry| match &entry.event {
            Event::Connected { connection, client: connected, .. } if *connected == client => {
                Some(*connection)
            }
            _ => None,
        })
        .collect();
    let requests: Vec<u64> = history
        .iter()
        .filter_map(|entry| match &entry.event {
            Event::SyncInvoked { request, connection, .. } if connections.contains(connection) => {
                Some(*request)
            }
            _ => None,
        })
        .collect();
    history.retain_mut(|entry| match &mut entry.event {
        Event::Pushed { connection, message } => {
            !(connections.contains(connection) && message.key == last.key)
        }
        Event::SyncAnswered { request, messages, .. } => {
            if requests.contains(request) {
                messages.retain(|seen| seen.key != last.key);
            }
            true
        }
        _ => true,
    });
    Some(())
}

#[test]
fn a_client_that_is_left_behind_in_silence_is_caught() {
    caught(Rule::SilentlyStale, deprive);
}

#[test]
fn a_client_that_lacks_something_after_its_sync_is_caught() {
    caught(Rule::ReaderIncomplete, deprive);
}

#[test]
fn a_sync_that_does_not_know_what_was_known_is_caught() {
    caught(Rule::StaleSync, |history| {
        let mut known = HashSet::new();
        let page = history.iter_mut().find_map(|entry| match &mut entry.event {
            Event::Pushed { message, .. } => {
                known.insert(message.key.clone());
                None
            }
            Event::SyncAnswered { messages, has_more: false, head, .. } => {
                let was_known = messages.last().is_some_and(|last| known.contains(&last.key));
                was_known.then_some((messages, head))
            }
            _ => None,
        });
        let (messages, head) = page?;
        *head -= 1;
        messages.pop().map(|_| ())
    });
}

#[test]
fn a_manifest_that_does_not_know_what_was_known_is_caught() {
    caught(Rule::StaleSync, |history| {
        let manifest = history.iter_mut().rev().find_map(|entry| match &mut entry.event {
            Event::ManifestAnswered { heads, .. } if heads.iter().any(|head| head.1 > 0) => {
                Some(heads)
            }
            _ => None,
        })?;
        manifest.iter_mut().for_each(|head| head.1 = head.1.saturating_sub(1));
        Some(())
    });
}

#[test]
fn a_page_that_leaves_something_out_is_caught() {
    caught(Rule::PageHole, |history| {
        let page = history.iter_mut().find_map(|entry| match &mut entry.event {
            Event::SyncAnswered { messages, .. } if messages.len() > 2 => Some(messages),
            _ => None,
        })?;
        page.remove(1);
        Some(())
    });
}

#[test]
fn a_request_without_an_answer_is_caught() {
    caught(Rule::NeverAnswered, |history| {
        let ended = |wanted: u64| {
            let mut events = history.iter().map(|entry| &entry.event);
            events.any(
                |event| matches!(event, Event::Ended { connection, .. } if *connection == wanted),
            )
        };
        let stands = |invoked: usize| match history[invoked].event {
            Event::SendInvoked { connection, .. } => !ended(connection),
            _ => false,
        };
        let (_, position, _) = acked(history).into_iter().find(|(invoked, ..)| stands(*invoked))?;
        history.remove(position);
        Some(())
    });
}

#[test]
fn a_request_that_outlives_its_deadline_on_an_open_connection_is_caught() {
    caught(Rule::NeverAnswered, |history| {
        let end = lost_while_open(history)?;
        history[end..].iter_mut().for_each(|entry| entry.at_us += 20_000_000);
        Some(())
    });
}

/// Where a connection broke on which a request was never answered.
fn lost_while_open(history: &[Entry]) -> Option<usize> {
    let answered: HashSet<u64> = history
        .iter()
        .filter_map(|entry| match &entry.event {
            Event::SendAnswered { request, .. } => Some(*request),
            _ => None,
        })
        .collect();
    let open: HashSet<u64> = history
        .iter()
        .filter_map(|entry| match &entry.event {
            Event::SendInvoked { request, connection, .. } if !answered.contains(request) => {
                Some(*connection)
            }
            _ => None,
        })
        .collect();
    history.iter().position(|entry| match &entry.event {
        Event::Ended { connection, end: End::Lost } => open.contains(connection),
        _ => false,
    })
}

/// Moves everything from an answer on by so long.
fn delay_answer(history: &mut [Entry]) -> Option<u64> {
    let (invoked, answered, _) = acked(history).pop()?;
    let at_us = history[invoked].at_us;
    history[answered..].iter_mut().for_each(|entry| entry.at_us += 20_000_000);
    Some(at_us)
}

#[test]
fn a_late_answer_is_caught() {
    caught(Rule::AnsweredLate, |history| delay_answer(history).map(|_| ()));
}

#[test]
fn a_pause_of_the_node_is_not_counted_as_waiting() {
    let mut history = valid_history(1, STEPS);
    delay_by_pause(&mut history, |node| node).unwrap();
    let report = check(&history);
    assert!(report.violations.is_empty(), "{report}");
}

#[test]
fn a_pause_of_another_node_does_not_excuse_a_late_answer() {
    caught(Rule::AnsweredLate, |history| delay_by_pause(history, |node| (node + 1) % NODES));
}

/// Delays an answer by a pause of the node that `paused` makes of the one that was asked. What
/// else was open then is answered before.
fn delay_by_pause(history: &mut Vec<Entry>, paused: impl Fn(usize) -> usize) -> Option<()> {
    let (invoked, answered, _) = acked(history).pop()?;
    let Event::SendInvoked { connection: asked, .. } = history[invoked].event else { return None };
    let node = history.iter().find_map(|entry| match entry.event {
        Event::Connected { connection, node, .. } if connection == asked => Some(paused(node)),
        _ => None,
    })?;
    delay_answer(history)?;
    let (begin, end) = (history[invoked].at_us, history[answered].at_us);
    let pause = |at_us, fault| Entry { at_us, event: Event::Fault { fault } };
    history.insert(answered, pause(end, Fault::Resumed { node }));
    history.insert(invoked + 1, pause(begin, Fault::Paused { node }));
    Some(())
}

/// The first reply of a node about the routes of a user.
fn routed(history: &mut [Entry]) -> Option<&mut Vec<String>> {
    history.iter_mut().find_map(|entry| match &mut entry.event {
        Event::Routed { ids, .. } => Some(ids),
        _ => None,
    })
}

#[test]
fn a_route_to_a_connection_that_is_no_more_is_caught() {
    caught(Rule::ZombieRoute, |history| {
        let gone = history.iter().find_map(|entry| match &entry.event {
            Event::Connected { client, id, .. } if client == "client_0" => Some(id.clone()),
            _ => None,
        })?;
        routed(history)?.push(gone);
        Some(())
    });
}

#[test]
fn a_connection_that_no_node_finds_is_caught() {
    caught(Rule::RouteMissing, |history| routed(history)?.pop().map(|_| ()));
}

#[test]
fn a_connection_that_breaks_when_another_node_is_killed_is_caught() {
    caught(Rule::SilentDisconnect, |history| {
        let kill = history.iter_mut().find_map(|entry| match &mut entry.event {
            Event::Fault { fault: Fault::Killed { node } } => Some(node),
            _ => None,
        })?;
        *kill = (*kill + 1) % NODES;
        Some(())
    });
}

#[test]
fn a_second_answer_is_caught() {
    caught(Rule::AnsweredTwice, |history| {
        let (_, position, _) = acked(history).pop()?;
        history.insert(position, history[position].clone());
        Some(())
    });
}

#[test]
fn a_connection_that_breaks_while_the_server_lives_is_caught() {
    caught(Rule::SilentDisconnect, |history| {
        let end = history.iter_mut().find_map(|entry| match &mut entry.event {
            Event::Ended { end: end @ End::Dropped, .. } => Some(end),
            _ => None,
        })?;
        *end = End::Lost;
        Some(())
    });
}

#[test]
fn a_connection_that_is_replaced_by_nobody_is_caught() {
    caught(Rule::ReplacedByNobody, |history| {
        let end = history.iter_mut().find_map(|entry| match &mut entry.event {
            Event::Ended { end: end @ End::Dropped, .. } => Some(end),
            _ => None,
        })?;
        *end = End::Closed { reason: "session_replaced".to_owned() };
        Some(())
    });
}

#[test]
fn an_order_to_sync_that_is_given_over_and_over_is_caught() {
    caught(Rule::ResyncStorm, |history| {
        let (first, _) = neighbours(history)?;
        let Event::Pushed { connection, message } = &history[first].event else { return None };
        let (connection, chats) = (*connection, Some(vec![message.key.chat.clone()]));
        let event = Event::ResyncRequired { connection, reason: "gap".to_owned(), chats };
        let order = Entry { at_us: history[first].at_us, event };
        history.splice(first..first, std::iter::repeat_n(order, 11));
        Some(())
    });
}
