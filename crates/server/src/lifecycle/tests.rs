use futures_util::stream;
use tokio::sync::oneshot;

use super::*;

/// Far longer than any test lasts.
const LONG: Duration = Duration::from_secs(60);

/// A stream without signals.
fn no_signal() -> impl Stream<Item = ()> + Unpin {
    stream::pending()
}

/// A stream of this many signals at once.
fn signals(count: usize) -> impl Stream<Item = ()> + Unpin {
    stream::iter(std::iter::repeat_n((), count)).chain(stream::pending())
}

#[tokio::test]
async fn a_signal_lets_everything_finish() {
    let life = Lifecycle::new();
    let stop = life.soft_stop();
    let (done, finished) = oneshot::channel();
    life.spawn("loop", async move {
        stop.cancelled().await;
        done.send(()).unwrap();
    });
    assert_eq!(life.wait(signals(1), LONG).await, Exit::Finished);
    finished.await.unwrap();
    assert!(!life.hard_stop().is_cancelled());
}

#[tokio::test]
async fn a_second_signal_cancels_the_remaining_tasks() {
    let life = Lifecycle::new();
    let (_held, never) = oneshot::channel::<()>();
    let (dropped, gone) = oneshot::channel::<()>();
    life.spawn_connection(async move {
        let _dropped = dropped;
        let _ = never.await;
    });
    assert_eq!(life.wait(signals(2), LONG).await, Exit::Forced);
    assert!(gone.await.is_err(), "the task's future was dropped");
    assert_eq!(Exit::Forced.code(), 1);
}

#[tokio::test]
async fn a_drain_that_takes_too_long_is_cancelled() {
    let life = Lifecycle::new();
    life.spawn("stubborn", std::future::pending());
    life.stop();
    assert_eq!(life.wait(no_signal(), Duration::from_millis(10)).await, Exit::Forced);
}

#[tokio::test]
async fn a_loop_that_ends_too_early_stops_the_process_with_a_failure() {
    let life = Lifecycle::new();
    let stop = life.soft_stop();
    life.spawn("good", async move { stop.cancelled().await });
    life.spawn("short", async {});
    assert_eq!(life.wait(no_signal(), LONG).await, Exit::Failed);
    assert_eq!(Exit::Failed.code(), 1);
}

#[tokio::test]
async fn a_loop_that_panics_stops_the_process_with_a_failure() {
    let life = Lifecycle::new();
    life.spawn("broken", async { panic!("intended by the test") });
    assert_eq!(life.wait(no_signal(), LONG).await, Exit::Failed);
}

#[tokio::test]
async fn a_loop_that_panics_while_stopping_is_still_a_failure() {
    let life = Lifecycle::new();
    let stop = life.soft_stop();
    life.spawn("broken", async move {
        stop.cancelled().await;
        panic!("intended by the test");
    });
    assert_eq!(life.wait(signals(1), LONG).await, Exit::Failed);
}

#[tokio::test]
async fn a_panic_of_a_connection_is_counted_and_ends_nothing_else() {
    let life = Lifecycle::new();
    let (send, receive) = oneshot::channel();
    life.spawn_connection(async { panic!("intended by the test") });
    life.spawn_connection(async {});
    let stop = life.soft_stop();
    life.spawn_connection(async move {
        send.send(()).unwrap();
        stop.cancelled().await;
    });
    receive.await.unwrap();
    assert!(!life.soft_stop().is_cancelled());
    life.stop();
    assert_eq!(life.wait(no_signal(), LONG).await, Exit::Finished);
    assert_eq!(life.connection_panics(), 1);
    assert_eq!(Exit::Finished.code(), 0);
}

#[tokio::test]
async fn a_connection_that_comes_during_the_drain_is_waited_for() {
    let life = Lifecycle::new();
    let (send, receive) = oneshot::channel();
    let late = life.clone();
    let stop = life.soft_stop();
    life.spawn("listener", async move {
        stop.cancelled().await;
        late.spawn_connection(async move { send.send(()).unwrap() });
    });
    assert_eq!(life.wait(signals(1), LONG).await, Exit::Finished);
    receive.await.unwrap();
}

#[tokio::test]
async fn both_signals_of_the_system_ask_for_a_stop() {
    let mut signals = Signals::listen().unwrap();
    for name in ["-TERM", "-INT"] {
        let process = std::process::id().to_string();
        let sent = std::process::Command::new("kill").args([name, &process]).status().unwrap();
        assert!(sent.success());
        assert_eq!(signals.next().await, Some(()), "{name}");
    }
}

#[tokio::test]
async fn a_support_loop_lasts_until_the_last_task_is_gone() {
    let life = Lifecycle::new();
    let (ask, mut asked) = tokio::sync::mpsc::channel::<oneshot::Sender<()>>(1);
    life.spawn_support("answers", async move {
        while let Some(answer) = asked.recv().await {
            answer.send(()).unwrap();
        }
        std::future::pending().await
    });
    let stop = life.soft_stop();
    life.spawn_connection(async move {
        stop.cancelled().await;
        // Long after the stop the support loop still runs.
        for _ in 0..100 {
            let (answer, answered) = oneshot::channel();
            ask.send(answer).await.unwrap();
            answered.await.unwrap();
        }
    });
    assert_eq!(life.wait(signals(1), LONG).await, Exit::Finished);
}

#[tokio::test]
async fn a_support_loop_that_ends_too_early_stops_the_process_with_a_failure() {
    let life = Lifecycle::new();
    life.spawn_support("short", async {});
    assert_eq!(life.wait(no_signal(), LONG).await, Exit::Failed);
}
