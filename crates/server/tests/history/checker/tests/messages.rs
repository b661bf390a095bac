//! Faults in stored messages and their acknowledgements.

use super::{acked, attempts, caught, each_read, each_seen, is_acked, log};
use crate::checker::Rule;
use crate::history::{Entry, Event, Key, Seen, SendOutcome};

#[test]
fn an_acknowledged_message_that_is_lost_is_caught() {
    caught(Rule::AckedLost, |history| {
        let last = log(history).pop()?;
        is_acked(history, &last.key).then_some(())?;
        each_read(history, &last.key.chat, |messages| messages.truncate(messages.len() - 1));
        Some(())
    });
}

#[test]
fn an_acknowledged_message_at_another_sequence_is_caught() {
    caught(Rule::AckedLost, |history| {
        let (_, position, _) = acked(history).pop()?;
        if let Event::SendAnswered { answer: SendOutcome::Stored { sequence, .. }, .. } =
            &mut history[position].event
        {
            *sequence += 1;
        }
        Some(())
    });
}

#[test]
fn a_message_that_was_shown_and_is_lost_is_caught() {
    caught(Rule::DeliveredThenLost, |history| {
        let last = log(history).pop()?;
        each_read(history, &last.key.chat, |messages| messages.truncate(messages.len() - 1));
        Some(())
    });
}

#[test]
fn a_hole_in_the_sequences_is_caught() {
    caught(Rule::Gap, |history| {
        let middle = log(history).get(7)?.clone();
        each_read(history, &middle.key.chat, |messages| {
            messages.retain(|seen| seen.sequence != middle.sequence);
        });
        Some(())
    });
}

#[test]
fn a_message_that_is_stored_twice_is_caught() {
    caught(Rule::DuplicateMessage, |history| {
        let first = log(history).first()?.clone();
        each_read(history, &first.key.chat, |messages| {
            let sequence = messages.len() as u64 + 1;
            messages.push(Seen { sequence, ..first.clone() });
        });
        Some(())
    });
}

#[test]
fn a_sequence_that_is_read_twice_is_caught() {
    caught(Rule::DuplicateSequence, |history| {
        let first = log(history).first()?.clone();
        let mut reads = 0;
        each_read(history, &first.key.chat, |messages| {
            if reads == 0 {
                messages.push(first.clone());
            }
            reads += 1;
        });
        Some(())
    });
}

#[test]
fn a_message_that_nobody_sent_is_caught() {
    caught(Rule::PhantomMessage, |history| {
        let last = log(history).pop()?;
        let key = Key { id: "never-sent".to_owned(), ..last.key.clone() };
        let phantom = Seen { key, sequence: last.sequence + 1, ..last.clone() };
        each_read(history, &last.key.chat, |messages| messages.push(phantom.clone()));
        Some(())
    });
}

#[test]
fn another_senders_name_on_a_message_is_caught() {
    caught(Rule::PhantomMessage, |history| {
        let some = log(history).get(3)?.clone();
        each_seen(history, |seen| {
            if seen.key == some.key {
                seen.key.sender = "somebody-else".to_owned();
            }
        });
        Some(())
    });
}

#[test]
fn changed_content_is_caught() {
    caught(Rule::BodyChanged, |history| {
        let some = log(history).get(3)?.clone();
        each_seen(history, |seen| {
            if seen.key == some.key {
                seen.hash ^= 1;
            }
        });
        Some(())
    });
}

#[test]
fn an_accepted_repeat_with_other_content_is_caught() {
    caught(Rule::BodyChanged, |history| {
        let (position, ..) =
            acked(history).into_iter().find(|(.., key)| attempts(history, key) > 1)?;
        if let Event::SendInvoked { hash, .. } = &mut history[position].event {
            *hash ^= 1;
        }
        Some(())
    });
}

#[test]
fn a_stored_message_whose_every_attempt_was_refused_is_caught() {
    caught(Rule::RejectedButStored, |history| {
        let some = log(history)
            .into_iter()
            .find(|seen| attempts(history, &seen.key) == 1 && is_acked(history, &seen.key))?;
        let (_, position, _) = acked(history).into_iter().find(|(.., key)| *key == some.key)?;
        if let Event::SendAnswered { answer, .. } = &mut history[position].event {
            *answer = SendOutcome::Refused { code: "SERVER_BUSY".to_owned() };
        }
        Some(())
    });
}

/// The second of two acknowledgements of one message.
fn second_ack(history: &[Entry]) -> Option<usize> {
    let acked = acked(history);
    let mut repeats = acked.iter().enumerate().filter_map(|(index, (_, position, key))| {
        acked[..index].iter().any(|(.., earlier)| earlier == key).then_some(*position)
    });
    repeats.next()
}

#[test]
fn a_retry_with_another_sequence_is_caught() {
    caught(Rule::RetryGotOtherSequence, |history| {
        let position = second_ack(history)?;
        if let Event::SendAnswered { answer: SendOutcome::Stored { sequence, .. }, .. } =
            &mut history[position].event
        {
            *sequence += 1;
        }
        Some(())
    });
}

#[test]
fn a_retry_with_another_message_id_is_caught() {
    caught(Rule::RetryGotOtherSequence, |history| {
        let position = second_ack(history)?;
        if let Event::SendAnswered { answer: SendOutcome::Stored { message_id, .. }, .. } =
            &mut history[position].event
        {
            message_id.push('x');
        }
        Some(())
    });
}

#[test]
fn a_repeat_that_is_called_new_is_caught() {
    caught(Rule::DuplicateFlagWrong, |history| {
        let position = second_ack(history)?;
        if let Event::SendAnswered { answer: SendOutcome::Stored { duplicate, .. }, .. } =
            &mut history[position].event
        {
            *duplicate = false;
        }
        Some(())
    });
}

#[test]
fn a_new_message_that_is_called_a_repeat_is_caught() {
    caught(Rule::DuplicateFlagWrong, |history| {
        let (_, position, _) =
            acked(history).into_iter().find(|(.., key)| attempts(history, key) == 1)?;
        if let Event::SendAnswered { answer: SendOutcome::Stored { duplicate, .. }, .. } =
            &mut history[position].event
        {
            *duplicate = true;
        }
        Some(())
    });
}

#[test]
fn an_acknowledgement_for_another_message_is_caught() {
    caught(Rule::WrongAnswer, |history| {
        let (_, position, _) = acked(history).pop()?;
        if let Event::SendAnswered { answer: SendOutcome::Stored { id, .. }, .. } =
            &mut history[position].event
        {
            id.push('x');
        }
        Some(())
    });
}

#[test]
fn numbers_against_the_order_of_time_are_caught() {
    caught(Rule::RealtimeOrder, |history| {
        let acked = acked(history);
        let (_, answered, first) = acked.first()?.clone();
        let later = |candidate: &&(usize, usize, Key)| {
            candidate.0 > answered
                && candidate.2.chat == first.chat
                && attempts(history, &candidate.2) == 1
        };
        let (.., second) = acked.iter().rfind(later)?.clone();
        let sequence_of = |key: &Key| {
            let entries = history.iter().find_map(|entry| match &entry.event {
                Event::FinalRead { messages, .. } => {
                    messages.iter().find(|seen| seen.key == *key).map(|seen| seen.sequence)
                }
                _ => None,
            });
            entries.unwrap()
        };
        let (low, high) = (sequence_of(&first), sequence_of(&second));
        swap_sequences(history, &first, high);
        swap_sequences(history, &second, low);
        Some(())
    });
}

/// Gives a message another sequence wherever it appears.
fn swap_sequences(history: &mut [Entry], key: &Key, to: u64) {
    each_seen(history, |seen| {
        if seen.key == *key {
            seen.sequence = to;
        }
    });
    for (_, position, acked) in acked(history) {
        if acked == *key
            && let Event::SendAnswered { answer: SendOutcome::Stored { sequence, .. }, .. } =
                &mut history[position].event
        {
            *sequence = to;
        }
    }
}
