//! The signals that request a stop.

use std::pin::Pin;
use std::task::{Context, Poll};

use futures_util::Stream;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// The signals that request a stop: SIGTERM and SIGINT. While this value exists they do not kill
/// the process, and none is missed.
#[derive(Debug)]
pub struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    /// Installs the signal handlers. Needs a runtime.
    ///
    /// # Errors
    /// The system refuses a handler.
    pub fn listen() -> std::io::Result<Self> {
        let terminate = signal(SignalKind::terminate())?;
        let interrupt = signal(SignalKind::interrupt())?;
        Ok(Self { terminate, interrupt })
    }
}

impl Stream for Signals {
    type Item = ();

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<()>> {
        let terminated = self.terminate.poll_recv(context);
        if terminated.is_ready() { terminated } else { self.interrupt.poll_recv(context) }
    }
}
